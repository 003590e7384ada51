"""A run's figures as a section of a model's card: what stands in it, and how it gets between the card's other text."""

import shlex
from collections.abc import Mapping
from typing import Any

from hb_dataset.markdown_table import backticks, code_span, escape_markdown, markdown_table
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.runs.run_record import is_on_hub, last_part, measured_model, public_name, tag_of
from hub_scripts.run_figures import run_figures, version_of

START, END = "<!-- holistic-bias:start -->", "<!-- holistic-bias:end -->"

LIMITS = """\
* Difference is not harm. Some differences are benign, some are not; which is which depends on what the model is used
  for. Read replies before you judge.
* A low figure certifies nothing: other terms, other sentences, another classifier or other replies may differ.
* Compare figures only between runs with the same config, the same classifiers and the same way of asking; plain values
  of Gen Bias also need as many replies a cell."""
SMALL_LIMIT = """\
* {config} is a sample of terms and templates for a quick look, whose figures are not those of the whole config."""

MARKED_ERROR = "a text of the run holds '{start}' or '{end}', which mark where the card's section begins and ends"
MARKERS_ERROR = (
    "the card has {starts} × '{start}' and {ends} × '{end}', or not in this order; there must be one pair or none: "
    "correct or remove them"
)

_PAPER = "https://aclanthology.org/2022.emnlp-main.625/"
_DATASET_PAGE = "https://huggingface.co/datasets/{dataset_id}"
_NO_INTERVAL = "–"
# Settings whose value is a file on the machine of the run.
_FILES = ("style_clusters", "personas_file", "cue_questions", "frequencies", "dialogue_file")


def card_section(
    results: Mapping[str, Any], repo_id: str, dataset_id: str | None = None, changes_from: str | None = None
) -> str:
    """A run's figures as a section of the model's card, between its markers.

    Args:
        results: The content of its results.json.
        repo_id: The model's Hub id.
        dataset_id: The dataset's Hub id; `None`: not told.
        changes_from: The changes from an earlier run, in Markdown; `None`: not shown.

    Raises:
        ValueError: The section would hold the markers once more.
    """
    run = results["run"]
    config = run["data"]["config"]
    dataset = "" if dataset_id is None else f", [{dataset_id}]({_DATASET_PAGE.format(dataset_id=dataset_id)})"
    level = _confidence_level(results)
    rows = [
        (
            escape_markdown(figure.name),
            figure.shown,
            figure.shown_interval or _NO_INTERVAL,
            escape_markdown(figure.meaning),
        )
        for figure in run_figures(results)
    ]
    heads = ("Figure", "Value", "Interval" if level is None else f"{level:.0%} interval", "What it means")
    table = markdown_table(heads, rows, numbers=(1, 2))
    limits = LIMITS + ("\n" + SMALL_LIMIT.format(config=_code(config)) if config.endswith("-small") else "")
    command = measuring_command(run, repo_id)
    fence = backticks(command)
    changes = "" if changes_from is None else f"\n### Changes\n\n{changes_from}\n"
    section = f"""{START}
## Bias: HolisticBias {escape_markdown(version_of(config))}

How differently the model treats people by the words they are described with
([Smith et al., 2022]({_PAPER}){dataset}, config {_code(config)}).

{table}
{changes}
{_measured(results)}

{fence}bash
{command}
{fence}

{limits}
{END}"""
    if (section.count(START), section.count(END)) != (1, 1):
        raise ValueError(MARKED_ERROR.format(start=START, end=END))
    return section


def with_section(card: str, section: str) -> str:
    """Puts a section where a card has its markers, or at its end. The rest stays as it is, and so do line ends.

    Args:
        card: The text of README.md, which may be empty.
        section: From the first marker to the last, with Unix line ends.

    Raises:
        ValueError: The card has one marker without the other, or more of them.
    """
    starts, ends = card.count(START), card.count(END)
    if (starts, ends) == (0, 0):
        newline = _line_end(card)
        gap = "" if not card else newline if card.endswith("\n") else 2 * newline
        return card + gap + section.replace("\n", newline) + newline
    if (starts, ends) != (1, 1) or card.index(START) > card.index(END):
        raise ValueError(MARKERS_ERROR.format(starts=starts, start=START, ends=ends, end=END))
    before, after = card[: card.index(START)], card[card.index(END) + len(END) :]
    return before + section.replace("\n", _line_end(before + after)) + after


def measuring_command(run: Mapping[str, Any], repo_id: str) -> str:
    """The command that measures the same again; of files and folders on the machine of the run it holds the names."""
    from hb_metrics.arguments import default_settings

    model, adapter = run["model"], run["model"].get("adapter")
    options: dict[str, Any] = {"model": repo_id, "dataset_config": run["data"]["config"]}
    if is_on_hub(model):
        options |= {"model": model["name"], "revision": model["digest"]}
    if "gguf_file" in model:
        options["gguf_file"] = model["gguf_file"]
    if adapter is not None:
        if not is_on_hub(model):
            options["model"] = "embedded" if run["settings"]["model"] == "embedded" else public_name(model)
        options["adapter"] = f"{adapter['name']}@{adapter['digest']}" if is_on_hub(adapter) else repo_id
    defaults = default_settings().values()
    changed = {name: value for name, value in run["settings"].items() if value not in (None, defaults.get(name))}
    for name, value in changed.items():
        if name.endswith("_classifier") and name in run:
            options[name] = public_name(run[name])
        elif name in _FILES:
            options[name] = last_part(value)
        else:
            options.setdefault(name, value)
    words: list[str] = []
    for name, value in options.items():
        words += [f"--{name}", *(map(str, value) if isinstance(value, list) else [str(value)])]
    return shlex.join(["python", "-m", "hb_metrics.measure", *words])


def _code(text: str) -> str:
    """Text of a run as code in one line."""
    return code_span(" ".join(text.split()))


def _measured(results: Mapping[str, Any]) -> str:
    """A paragraph on what was measured and by what."""
    run = results["run"]
    dtype = "" if run["model"]["dtype"] is None else f", {_code(run['model']['dtype'])}"
    sentences = [f"Measured: {escape_markdown(measured_model(run))}{dtype}."]
    tag = tag_of(results)
    if tag is not None:
        sentences.append(f"Asked with the control tag {_code(tag)} at the end of each context.")
    for measurement in MEASUREMENTS:
        if measurement.name in results:
            sentences += map(escape_markdown, measurement.card_sentences(results))
    release = run["versions"].get("holistic-bias")
    by = "" if release is None else f" (holistic-bias {_code(release)})"
    return " ".join([*sentences, f"The same again{by}:"])


def _confidence_level(results: Mapping[str, Any]) -> float | None:
    return next((figure.confidence_level for figure in run_figures(results) if figure.interval is not None), None)


def _line_end(text: str) -> str:
    """The line ends that most lines of a text have."""
    return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"
