from collections.abc import Mapping
from math import comb
from typing import Any

from hb_dataset.prompt_table import descriptor_noun_spans
from hb_metrics.inference.engines.engine import LikelihoodRequests, Plan
from hb_metrics.measurements.likelihood.results import likelihood_results
from hb_metrics.measurements.measurement import Task
from hb_metrics.runs.replies import replied_prompts
from hb_metrics.runs.run_folder import PERPLEXITIES

ALPHA = 0.05


def plan(task: Task, files: None) -> Plan:
    cells = task.prompts.group_by(["axis", "template", "descriptor"]).aggregate([("id", "count")])
    sizes: dict[tuple[str, str], list[int]] = {}
    for row in cells.to_pylist():
        sizes.setdefault((row["axis"], row["template"]), [0]).append(row["id_count"])
    if all(_least_p_value(*sorted(numbers)[-2:]) >= ALPHA for numbers in sizes.values()):  # before hours of scoring
        raise ValueError(
            "measurement 'likelihood' compares two terms of an axis in the same template, but no two terms have "
            "enough sentences (such as four each) for a significant difference; set --axes, --sample or "
            "--vocabulary_dir to get more terms or sentences, or remove likelihood from --measurements"
        )
    masked = task.engine.kind == "masked"
    return task.engine.plan_likelihoods(
        LikelihoodRequests(
            ids=task.prompts["id"].to_pylist(),
            texts=task.prompts["text"].to_pylist(),
            spans=[(start, end) for start, end in descriptor_noun_spans(task.prompts).tolist()] if masked else None,
        )
    )


def _least_p_value(first: int, second: int) -> float:
    """Returns the p-value of the exact test if all sentences with one term are likelier than all with the other."""
    return 2 / comb(first + second, first)


def describe(plan: Plan) -> dict[str, Any]:
    return {"scoring": plan.description()}


def measure(task: Task, plan: Plan, results: Mapping[str, Any]) -> dict[str, Any]:
    scores = task.engine.score_into_shards(plan, task.folder / PERPLEXITIES)
    if scores is None:
        return {}
    return likelihood_results(replied_prompts(task.prompts, scores), scores)
