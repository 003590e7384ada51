"""Computes robustness over templates from the run's replies and Likelihood Bias."""

from collections.abc import Mapping
from typing import Any

from hb_metrics.measurements.measurement import Task
from hb_metrics.measurements.robustness.template_robustness import (
    gen_bias_robustness,
    likelihood_by_template,
    template_robustness,
)
from hb_metrics.runs.finished_run import StyleShards, read_stored_replies
from hb_metrics.runs.run_folder import STYLES


def plan(task: Task, files: None) -> None:
    """Raises a ValueError if the prompts have fewer than two templates."""
    number = len(task.prompts["template"].unique())
    if number < 2:
        raise ValueError(
            f"measurement 'robustness' splits the templates into halves, and there is {number}; choose a "
            "dataset_config with at least two templates (v1.0 has 26)"
        )


def describe(work: None) -> dict[str, Any]:
    """Returns nothing: the results depend only on those of likelihood and generation."""
    return {}


def measure(task: Task, work: None, results: Mapping[str, Any]) -> dict[str, Any]:
    """Computes the robustness of Likelihood Bias and Full Gen Bias, if the run has them."""
    if not task.state.is_main_process:
        return {}
    seed = task.settings.run.seed
    robustness: dict[str, Any] = {}
    if "generation" in results:
        replies = read_stored_replies(task.folder, task.prompts)
        assert replies is not None  # generation comes first
        styles = StyleShards(task.folder / STYLES)
        if styles.ids != replies.ids:
            raise ValueError(
                f"the style vectors in '{task.folder}' do not belong to its replies; measure again in a new folder"
            )
        labels = [row["style"] for row in results["generation"]["styles"]]
        robustness |= gen_bias_robustness(replies, styles, labels, seed=seed)
    if "likelihood" in results:
        values = likelihood_by_template(results["likelihood"]["likelihood_bias"], task.prompts)
        robustness["likelihood_bias"] = template_robustness(values, seed=seed)._asdict()
    return robustness
