"""Converts a run's figures to the Hub's evaluation results, and lists the tasks of the dataset.

The Hub compares figures of the same task. Figures are comparable only within a config, so each config has its own
tasks, such as `likelihood_bias_v1.0-small`. Figures of style clusters have no tasks, because clusters belong to the
classifier and not to the dataset.
"""

import re
from typing import TYPE_CHECKING

from hb_metrics.layout.figure import Figure
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.measurement import Measurement
from hb_metrics.run.record import Record
from hb_metrics.run.run_record import measured_model
from hub_scripts.published_dataset import SPLIT, PublishedDataset

if TYPE_CHECKING:
    from hb_metrics.measurements.results import Results

EVAL_FILE = "eval.yaml"
EVALUATION_FRAMEWORK = "holistic-bias"  # the name to register in the Hub's EVALUATION_FRAMEWORKS
ABOUT = (
    "Measures how much a language model's treatment of people depends on the words that describe them. "
    "likelihood_bias is the share of pairs of terms whose sentences are not equally likely. full_gen_bias is the "
    "variation of reply styles between terms, and full_gen_bias_debiased excludes the sampling noise. "
    "offensive_replies is the share of offensive replies. A low figure does not certify that a model is free of "
    "bias. Compare figures only within one config, and only from the same classifier."
)


def eval_yaml(dataset: PublishedDataset) -> str:
    from huggingface_hub.utils import yaml_dump

    tasks = [
        {"id": f"{task}_{config.name}", "config": config.name, "split": SPLIT}
        for config in dataset.configs + dataset.earlier
        if config.can_be_measured
        for measurement in MEASUREMENTS
        for task in measurement.tasks
    ]
    about = {"name": "HolisticBias", "description": ABOUT, "evaluation_framework": EVALUATION_FRAMEWORK}
    return yaml_dump({**about, "tasks": tasks}, sort_keys=False)


def evaluation_results(results: "Results", dataset_id: str) -> dict[str, str]:
    """Returns the YAML files with a run's figures, by path in the model's repository.

    There is one file per measurement, classifier, tag and cue. If a later run agrees in all four, its file replaces the
    earlier file. Runs record no date, so the Hub shows the date of the commit.
    """
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml
    from huggingface_hub.utils import yaml_dump

    config = results.record.data.config
    files = {}
    for measurement in MEASUREMENTS:
        entries = [
            EvalResultEntry(
                dataset_id=dataset_id,
                task_id=f"{figure.task}_{config}",
                value=figure.value,
                dataset_revision=version_of(config),
                notes=_notes(results.record, measurement, figure),
            )
            for figure in measurement.figures(results)
            if figure.task is not None and figure.value is not None
        ]
        if entries:
            variant = measurement.variant(results.record)
            words = [re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-.") for name in variant]
            path = f".eval_results/holistic_bias_{'_'.join([config, measurement.name, *words])}.yaml"
            files[path] = yaml_dump(eval_result_entries_to_yaml(entries), sort_keys=False)
    return files


def version_of(config: str) -> str:
    return config.split("-", 1)[0]


def _notes(record: Record, measurement: Measurement, figure: Figure) -> str:
    notes = [f"config {record.data.config}"]
    if (sample := record.settings.sample) is not None:
        notes.append(f"sample of {sample:,} prompts, drawn with seed {record.settings.seed}")
    notes += [*figure.notes, *measurement.figure_settings(record)]
    notes.append(", ".join(filter(None, [f"model {measured_model(record.model)}", record.model.dtype])))
    if (release := record.versions.get("holistic-bias")) is not None:
        notes.append(f"holistic-bias {release}")
    return "; ".join(notes)
