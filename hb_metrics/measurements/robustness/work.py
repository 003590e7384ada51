"""Computes robustness over templates from the run's replies and Likelihood Bias."""

from collections.abc import Mapping
from typing import Any

from hb_metrics.measurements.measurement import Task
from hb_metrics.measurements.robustness.template_robustness import gen_bias_robustness, likelihood_robustness
from hb_metrics.runs.finished_run import StyleShards, read_stored_replies
from hb_metrics.runs.run_folder import STYLES

OTHER_REPLIES_ERROR = "the style vectors in '{folder}' are not those of its replies; measure again in a new folder"


def measure_robustness(task: Task, results: Mapping[str, Any]) -> dict[str, Any]:
    """Robustness of Likelihood Bias and of Full Gen Bias, of those that the run has.

    Args:
        task: What all measurements start from.
        results: The results of likelihood and generation.
    """
    seed = task.settings.run.seed
    robustness: dict[str, Any] = {}
    if "generation" in results:
        replies = read_stored_replies(task.folder, task.prompts)
        assert replies is not None  # generation comes first
        styles = StyleShards(task.folder / STYLES)
        if styles.ids != replies.ids:
            raise ValueError(OTHER_REPLIES_ERROR.format(folder=task.folder))
        labels = [row["style"] for row in results["generation"]["styles"]]
        robustness |= gen_bias_robustness(replies, styles, labels, seed=seed)
    if "likelihood" in results:
        likelihood = results["likelihood"]["likelihood_bias"]
        robustness |= likelihood_robustness(likelihood, task.prompts, seed=seed)
    return robustness
