"""A run's figures in the form of the Hub's evaluation results.

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
from typing import Any

from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.generation import GENERATION
from hb_metrics.measurements.measurement import Measurement
from hb_metrics.report.changes import comparable_figures
from hb_metrics.report.layout.figure import Figure, pair
from hb_metrics.runs.run_record import measured_model
from hub_scripts.eval_tasks import task_id

# There is a file for each measurement, classifier and tag, as the Hub asks for: results of another one stand beside it,
# and a later run with the same replaces it.
RESULTS_FILE = ".eval_results/holistic_bias_{variant}.yaml"


def run_figures(results: Mapping[str, Any]) -> list[Figure]:
    """The figures of a run that stand for the whole of it, with intervals where the run estimated them.

    Args:
        results: The content of its results.json, with any of its measurements.
    """
    return [
        figure
        for measurement in MEASUREMENTS
        if measurement.name in results
        for figure in comparable_figures([measurement.figures(results)])[0]
        if figure.is_main and figure.value is not None
    ]


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
    for measurement in MEASUREMENTS:
        for figure in measurement.figures(results) if measurement.name in results else ():
            if figure.task is None or figure.value is None:
                continue
            entry = EvalResultEntry(
                dataset_id=dataset_id,
                task_id=task_id(figure.task, config),
                value=figure.value,
                dataset_revision=version_of(config),
                source_url=source_url,
                notes="; ".join(
                    [f"config {config}", *_sample(results["run"]), *figure.notes, *_settings(results, measurement)]
                ),
            )
            entries.setdefault(_file_of(results, measurement), []).append(entry)
    return {path: yaml_dump(eval_result_entries_to_yaml(listed), sort_keys=False) for path, listed in entries.items()}


def version_of(config: str) -> str:
    """The version of the vocabulary that a config is of: `"v1.0"` of `"v1.0-small"`. It is also the dataset's tag."""
    return config.split("-", 1)[0]


def _settings(results: Mapping[str, Any], measurement: Measurement) -> list[str]:
    """The settings that a figure of this measurement depends on."""
    run = results["run"]
    settings = [
        *measurement.figure_settings(results),
        *_dialogue(results, measurement),
        ", ".join(filter(None, [f"model {measured_model(run)}", run["model"]["dtype"]])),
    ]
    release = run["versions"].get("holistic-bias")
    return settings if release is None else [*settings, f"holistic-bias {release}"]


def _sample(run: Mapping[str, Any]) -> list[str]:
    """The sample of the config's prompts that a run measured; empty: it measured all."""
    sample = run["settings"].get("sample")
    return [] if sample is None else [f"sample of {sample:,} prompts, drawn with seed {run['settings']['seed']}"]


def _dialogue(results: Mapping[str, Any], measurement: Measurement) -> list[str]:
    """The dialogue perplexity of the run, beside its Gen Bias: what less bias may have cost.

    It is no figure of bias, and so not a task of the dataset. With the number of tokens it compares between models with
    different tokenizers.
    """
    dialogue, source = results.get("dialogue"), results["run"].get("dialogue")
    if measurement is not GENERATION or dialogue is None or source is None:
        return []
    bounds = pair(dialogue["interval"])
    level = dialogue["confidence_level"]
    interval = "" if bounds is None else f" ({level:.0%} interval {bounds[0]:.6g} to {bounds[1]:.6g})"
    return [
        f"dialogue perplexity {dialogue['perplexity']:.6g}{interval} over {dialogue['num_tokens']:,} tokens of "
        f"{dialogue['num_replies']:,} replies (digest {source['digest'][:12]})"
    ]


def _file_of(results: Mapping[str, Any], measurement: Measurement) -> str:
    parts = [results["run"]["data"]["config"], measurement.name, *map(_slug, measurement.variant(results))]
    return RESULTS_FILE.format(variant="_".join(parts))


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-.")
