"""A run's figures for others to read, and in the form of the Hub's evaluation results.

Evaluation results stand in `.eval_results/*.yaml` of the model's repo (https://huggingface.co/docs/hub/eval-results),
which is what the Hub shows on the model's page and gathers on the dataset's. They are not written as `model-index` into
the card's front matter as well: that is the older format, its settings are no free text, the Hub refuses a whole push
for a fault in it, and the front matter is other people's.

A task of the Hub is bound to one config of the dataset, and figures compare within one config only, so each has its own
tasks: `likelihood_bias_v1.0`, `likelihood_bias_v1.0-small`, … (`task_id`). The dataset's eval.yaml lists them
(eval_tasks.py). Style clusters are the classifier's, not the dataset's; figures of clusters are in the card only.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

# What the evaluation results hold of a run. There is a file for each measurement, classifier and tag, as the Hub asks
# for: results of another one stand beside it, and a later run with the same replaces it.
TASKS = ("likelihood_bias", "full_gen_bias", "full_gen_bias_debiased", "offensive_replies")
RESULTS_FILE = ".eval_results/holistic_bias_{variant}.yaml"

Measurement = Literal["likelihood", "generation", "offensiveness", "dialogue"]

_DIGEST_LETTERS = 12
_GENERATION_SETTINGS = (
    "context",
    "tag",
    "persona_lines",
    "sample",
    "num_beams",
    "temperature",
    "top_k",
    "top_p",
    "min_new_tokens",
    "max_new_tokens",
)
_CLASSIFIERS = {"generation": "style_classifier", "offensiveness": "offensiveness_classifier"}


class Figure(NamedTuple):
    """A number of a run.

    Attributes:
        name: What it is called.
        measurement: What it comes from.
        value: As in results.json.
        shown: For people to read.
        meaning: In a line.
        interval: For people to read; `None`: none was estimated.
        task: One of `TASKS`; `None`: it is for the card only.
        notes: What to know of this figure beside the settings of its measurement.
    """

    name: str
    measurement: Measurement
    value: float
    shown: str
    meaning: str
    interval: str | None = None
    task: str | None = None
    notes: tuple[str, ...] = ()


def task_id(task: str, config: str) -> str:
    """The Hub's name of a task: one of `TASKS`, of one config."""
    return f"{task}_{config}"


def run_figures(results: Mapping[str, Any]) -> list[Figure]:
    """The figures of a run that stand for the whole of it, with intervals where the run estimated them.

    Args:
        results: The content of its results.json, with any of its measurements.
    """
    figures = []
    if "likelihood_bias" in results and results["likelihood_bias"]["likelihood_bias"] is not None:
        figures += _likelihood(results["likelihood_bias"], _measure_of(results))
    if "generation" in results:
        figures += _generation(results["generation"])
    replies = results.get("offensiveness", {}).get("replies")
    if replies is not None:
        figures.append(_offensive_replies(replies))
    if "dialogue" in results:
        figures.append(_dialogue(results["dialogue"]))
    return figures


def evaluation_results(results: Mapping[str, Any], dataset_id: str, source_url: str | None = None) -> dict[str, str]:
    """A run's figures as the Hub's evaluation results.

    No date is given, since a run does not record one: the Hub takes the commit's.

    Args:
        results: The content of its results.json.
        dataset_id: The dataset's Hub id. Its revision is the version's tag, which never moves.
        source_url: Where the run can be looked at, if anywhere.

    Returns:
        Path in the model's repo → YAML.
    """
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml
    from huggingface_hub.utils import yaml_dump

    config = results["run"]["data"]["config"]
    entries: dict[str, list[EvalResultEntry]] = {}
    for figure in run_figures(results):
        if figure.task is None:
            continue
        entry = EvalResultEntry(
            dataset_id=dataset_id,
            task_id=task_id(figure.task, config),
            value=figure.value,
            dataset_revision=version_of(config),
            source_url=source_url,
            notes="; ".join([f"config {config}", *figure.notes, *_how(results, figure.measurement)]),
        )
        entries.setdefault(_file_of(results, figure.measurement), []).append(entry)
    return {path: yaml_dump(eval_result_entries_to_yaml(found), sort_keys=False) for path, found in entries.items()}


def version_of(config: str) -> str:
    """The version of the vocabulary that a config is of: `"v1.0"` of `"v1.0-small"`. It is also the dataset's tag."""
    return config.split("-", 1)[0]


def measured_model(run: Mapping[str, Any]) -> str:
    """What was measured, in words: a commit of a Hub id, the embedded model, or a folder."""
    model = run["model"]
    digest = model["digest"][:_DIGEST_LETTERS]
    if is_on_hub(model):
        return f"commit {digest} of {model['name']}"
    if run["settings"]["model"] == "embedded":
        return f"{model['name']} (digest {digest})"
    return f"a local folder, {public_name(model)} (digest {digest})"


def is_on_hub(model: Mapping[str, Any]) -> bool:
    """Whether a model or classifier was loaded from the Hub: a commit identifies it then, and else a SHA-256."""
    return re.fullmatch("[0-9a-f]{40}", model.get("digest") or "") is not None


def public_name(model: Mapping[str, Any]) -> str:
    """A Hub id as it is; of a folder its name alone, since where it lies is nobody's business."""
    return model["name"] if is_on_hub(model) else last_part(model["name"])


def classifier_name(run: Mapping[str, Any], classifier: str) -> str:
    """A run's `style_classifier` or `offensiveness_classifier`, in words."""
    found = run.get(classifier)
    if found is None:  # runs of before it was recorded
        return "a classifier that is not recorded"
    digest = found.get("digest")
    return public_name(found) + ("" if digest is None else f" (digest {digest[:_DIGEST_LETTERS]})")


def last_part(path: str) -> str:
    """The name of a file or folder without where it lies."""
    return path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


def _likelihood(found: Mapping[str, Any], measure: str) -> list[Figure]:
    left_out = _counted(found["num_skipped_tests"], "tests skipped") + _counted(
        len(found["left_out_descriptors"]), "terms left out"
    )
    return [
        Figure(
            "Likelihood Bias",
            "likelihood",
            found["likelihood_bias"],
            _share(found["likelihood_bias"]),
            f"Of {found['num_tests']:,} tests between two terms of one axis in one template, how many find the "
            f"sentences' {measure} to differ (p < {found['alpha']:g}).",
            task="likelihood_bias",
            notes=(f"share of {found['num_tests']:,} tests with p < {found['alpha']:g}", *left_out),
        ),
        Figure(
            "Likelihood Bias, effect size",
            "likelihood",
            found["effect_size"],
            f"{found['effect_size']:.2f}",
            "How far those sentences lie apart: mean absolute rank-biserial correlation, 0 to 1.",
        ),
    ]


def _generation(generation: Mapping[str, Any]) -> list[Figure]:
    from hb_metrics.report.rendering import bias, interval

    plain, debiased = generation["gen_bias"], generation["debiased"]
    noise, bounds = plain["noise_floor"], plain["intervals"]
    level = plain["confidence_level"]
    cells = f"{plain['mean_replies_per_cell']:.3g} replies a cell"
    common = (
        f"×{plain['scale']}, ddof {plain['ddof']}",
        cells,
        *_counted(generation["num_empty_replies"], "empty replies left out"),
        *_counted(plain["num_missing_cells"], "cells without a reply"),
        *_counted(len(plain["skipped_templates"]), "templates skipped"),
    )
    varies = "How much the style of replies varies with the term in the prompt"
    figures = []
    if debiased is not None:
        low_high = bounds["full_gen_bias"]
        told = () if low_high is None else (f"{level:.0%} interval {low_high[0]:.4g} to {low_high[1]:.4g}",)
        figures.append(
            Figure(
                "Full Gen Bias, debiased",
                "generation",
                debiased["full_gen_bias"],
                bias(debiased["full_gen_bias"]),
                f"{varies}, less the estimated sampling noise (×{plain['scale']}). 0: not at all.",
                None if low_high is None else interval(low_high),
                "full_gen_bias_debiased",
                (*told, f"less a sampling noise of {noise:.4g}", *common),
            )
        )
    with_noise = "its sampling noise is not known" if noise is None else f"sampling noise of about {noise:.4g} in it"
    figures.append(
        Figure(
            "Full Gen Bias, plain",
            "generation",
            plain["full_gen_bias"],
            bias(plain["full_gen_bias"]),
            f"{varies if debiased is None else 'The same'} by the paper's formula, with {cells}: {with_noise}.",
            task="full_gen_bias",
            notes=(with_noise, *common),
        )
    )
    values = plain if debiased is None else debiased
    for cluster, value in (values["partial_gen_bias"] or {}).items():
        low_high = None if bounds is None or debiased is None else bounds["partial_gen_bias"][cluster]
        figures.append(
            Figure(
                f"Partial Gen Bias, {cluster}",
                "generation",
                value,
                bias(value),
                f"The part of {'plain' if debiased is None else 'debiased'} Full Gen Bias in these styles.",
                None if low_high is None else interval(low_high),
            )
        )
    parroting = generation["parroting"]["parroting_share"]
    if parroting is not None:
        meaning = "Replies that say the prompt again, and so its style."
        figures.append(Figure("Parroting replies", "generation", parroting, _share(parroting), meaning))
    return figures


def _offensive_replies(replies: Mapping[str, Any]) -> Figure:
    share, threshold = replies["offensive_share"], replies["threshold"]
    return Figure(
        "Offensive replies",
        "offensiveness",
        share,
        _share(share, digits=2),
        f"Of {replies['num_sentences']:,} replies, how many the classifier takes for offensive (probability "
        f"{threshold:g} or more).",
        task="offensive_replies",
        notes=(f"{replies['num_offensive']:,} of {replies['num_sentences']:,} replies, threshold {threshold:g}",),
    )


def _dialogue(dialogue: Mapping[str, Any]) -> Figure:
    from hb_metrics.report.rendering import bias, interval

    bounds = dialogue["interval"]
    return Figure(
        "Dialogue perplexity",
        "dialogue",
        dialogue["perplexity"],
        bias(dialogue["perplexity"]),
        f"How well it foresees what real people replied ({dialogue['num_replies']:,} replies of "
        f"{last_part(dialogue['source'])}). Not a figure of bias.",
        None if bounds is None else interval((bounds[0], bounds[1])),
    )


def _how(results: Mapping[str, Any], measurement: Measurement) -> list[str]:
    """The settings that a figure of this measurement depends on."""
    run = results["run"]
    told = []
    if measurement == "likelihood":
        told.append(_measure_of(results))
        if not run["settings"].get("include_gendered", True):
            told.append("without terms for one gender")
    if measurement in ("generation", "offensiveness"):
        what = "styles" if measurement == "generation" else "offensiveness"
        told.append(f"{what} told by {classifier_name(run, _CLASSIFIERS[measurement])}")
        asked = run.get("generation", {})
        for name in _GENERATION_SETTINGS:
            if asked.get(name) not in (None, False):
                told.append(name if asked[name] is True else f"{name} {asked[name]}")
        if run["settings"].get("variations"):
            told.append("with stylistic variations")
        told.append(f"seed {run['settings'].get('seed', 0)}")
    told.append(f"model {measured_model(run)}, {run['model']['dtype']}")
    release = run["versions"].get("holistic-bias")
    return told if release is None else [*told, f"holistic-bias {release}"]


def _file_of(results: Mapping[str, Any], measurement: Measurement) -> str:
    run = results["run"]
    parts = [run["data"]["config"], measurement]
    if measurement != "likelihood":
        classifier = run.get(_CLASSIFIERS[measurement], {})
        parts += [_slug(public_name(classifier)) if classifier else None, run.get("generation", {}).get("tag")]
    return RESULTS_FILE.format(variant="_".join(part for part in parts if part))


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")


def _measure_of(results: Mapping[str, Any]) -> str:
    return "pseudo-perplexity" if results["run"]["model"]["kind"] == "masked" else "perplexity"


def _counted(number: int, what: str) -> tuple[str, ...]:
    return (f"{number:,} {what}",) if number else ()


def _share(value: float, digits: int = 1) -> str:
    from hb_metrics.report.rendering import share

    return share(value, digits)
