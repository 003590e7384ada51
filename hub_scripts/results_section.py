"""A run's figures as a section of a model's card, between two markers in the card's other text."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from hb_dataset.markdown_table import backticks, code_span, escape_markdown, markdown_table
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.runs.run_record import is_on_hub, measured_model, tag_of
from hub_scripts.run_figures import run_figures, version_of

START, END = "<!-- holistic-bias:start -->", "<!-- holistic-bias:end -->"
# Settings whose values are words of this toolkit. A published command shows these, numbers, and models of the Hub. All
# other values may be private: paths, addresses, texts.
SHOWN_WORDS = ("measurements", "dtype", "context", "tag", "decoding", "reply", "cue", "bias_type")
WORDS = re.compile(r"[\w.,+-]+")
LIMITS = """\
* Difference is not harm. Some differences are benign, some are not, depending on the model's use. Read replies before
  you judge.
* A low figure certifies nothing: other terms, other sentences, another classifier or other replies may differ.
* Compare figures only between runs with the same config, the same classifiers and the same prompt settings. Plain Gen
  Bias values also need the same number of replies per cell."""


def card_section(
    results: Mapping[str, Any], repo_id: str, dataset_id: str | None = None, changes_from: str | None = None
) -> str:
    """A run's figures as a section of the model's card, between its markers.

    Args:
        results: The content of its results.json.
        repo_id: The model's Hub id.
        dataset_id: The dataset's Hub id; `None`: not named.
        changes_from: The changes from an earlier run, in Markdown; `None`: not shown.

    Raises:
        ValueError: The section would contain the markers once more.
    """
    run = results["run"]
    config, figures = run["data"]["config"], run_figures(results)
    dataset = "" if dataset_id is None else f", [{dataset_id}](https://huggingface.co/datasets/{dataset_id})"
    levels = [figure.confidence_level for figure in figures if figure.interval is not None]
    rows = [
        [escape_markdown(figure.name), figure.shown, figure.shown_interval or "–", escape_markdown(figure.meaning)]
        for figure in figures
    ]
    head = ["Figure", "Value", f"{levels[0]:.0%} interval" if levels else "Interval", "What it means"]
    changes = "" if changes_from is None else f"\n### Changes\n\n{changes_from}\n"
    small = f"\n* {_code(config)} is a small sample of terms and templates." if config.endswith("-small") else ""
    command, left_out = measuring_command(run, repo_id)
    private = f"\nThe command leaves out options whose values may be private: {left_out}.\n" if left_out else ""
    fence = backticks(command)
    section = f"""{START}
## Bias: HolisticBias {escape_markdown(version_of(config))}

This section shows how differently the model treats people by the words that describe them ([Smith et al.,
2022](https://aclanthology.org/2022.emnlp-main.625/){dataset}, config {_code(config)}).

{markdown_table(head, rows, numbers=(1, 2))}
{changes}
{_measured(results)}

{fence}bash
{command}
{fence}
{private}
{LIMITS}{small}
{END}"""
    if (section.count(START), section.count(END)) != (1, 1):
        raise ValueError(
            f"a text of the run contains '{START}' or '{END}', which mark the section; publish another run"
        )
    return section


def with_section(card: str, section: str) -> str:
    """Puts a section between the card's markers, or at its end. The rest stays the same, line ends included.

    Args:
        card: The text of README.md, which may be empty.
        section: From the first marker to the last, with Unix line ends.

    Raises:
        ValueError: The card has one marker without the other, or several pairs.
    """
    starts, ends = card.count(START), card.count(END)
    if (starts, ends) == (0, 0):
        newline = _line_end(card)
        gap = "" if not card else newline if card.endswith("\n") else 2 * newline
        return card + gap + section.replace("\n", newline) + newline
    if (starts, ends) != (1, 1) or card.index(START) > card.index(END):
        raise ValueError(
            f"the card has {starts} × '{START}' and {ends} × '{END}', or in the wrong order; correct them to one "
            f"pair, or remove them"
        )
    before, after = card[: card.index(START)], card[card.index(END) + len(END) :]
    return before + section.replace("\n", _line_end(before + after)) + after


def measuring_command(run: Mapping[str, Any], repo_id: str) -> tuple[str, str]:
    """The command that repeats the measurement, and the names of the options that it leaves out.

    It shows only values that cannot be private: models of the Hub, numbers, and words of this toolkit (`SHOWN_WORDS`).
    """
    from hb_metrics.arguments import default_settings
    from hb_metrics.measurements.settings import CHANGE_NOTHING

    model, adapter, settings = run["model"], run["model"].get("adapter"), run["settings"]
    options: dict[str, Any] = {"model": repo_id, "dataset_config": run["data"]["config"]}
    if is_on_hub(model):
        options |= {"model": model["name"], "revision": model["digest"]}
    elif adapter is not None and settings["model"] == "embedded":
        options["model"] = "embedded"
    if is_on_hub(model) and "gguf_file" in model:
        options["gguf_file"] = model["gguf_file"]
    if adapter is not None:
        options |= {"adapter": repo_id}
        if is_on_hub(adapter):
            options["adapter"] = f"{adapter['name']}@{adapter['digest']}"
    left_out = []
    for name, default in default_settings().values().items():
        value = settings.get(name)
        if value in (None, default) or name in options or name in CHANGE_NOTHING:
            continue
        classifier = run.get("regard" if name == "regard_classifier" else name)
        if isinstance(classifier, Mapping) and is_on_hub(classifier):
            options[name] = classifier["name"]
        elif isinstance(value, (bool, int, float)) or (name in SHOWN_WORDS and WORDS.fullmatch(str(value))):
            options[name] = value
        else:
            left_out.append(f"`--{name}`")
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return shlex.join(["holistic-bias", "measure", *words]), ", ".join(left_out)


def _code(text: str) -> str:
    """Text of a run as code in one line."""
    return code_span(" ".join(text.split()))


def _measured(results: Mapping[str, Any]) -> str:
    """A paragraph on the measurements and their classifiers."""
    run = results["run"]
    dtype = "" if run["model"]["dtype"] is None else f", {_code(run['model']['dtype'])}"
    sentences = [f"Measured: {escape_markdown(measured_model(run))}{dtype}."]
    if (tag := tag_of(results)) is not None:
        sentences.append(f"Each context ended with the control tag {_code(tag)}.")
    for measurement in MEASUREMENTS:
        if measurement.name in results:
            sentences += map(escape_markdown, measurement.card_sentences(results))
    release = run["versions"].get("holistic-bias")
    by = "" if release is None else f" with holistic-bias {_code(release)}"
    return " ".join([*sentences, f"To measure the same again{by}:"])


def _line_end(text: str) -> str:
    """The most frequent line end of a text."""
    return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"
