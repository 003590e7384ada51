"""The `evaluate` module for differences in decisions between people."""

import evaluate

from hb_metrics.stats.checked_metric import CheckedMetric
from hb_metrics.stats.decision_table import decision_gap

_DESCRIPTION = """\
Differences in decisions: does the decision about a question depend on who the question is about? Every prompt is asked
about several people, and each answer is a number from 0 (unfavourable) to 1 (favourable), such as 1 for "yes". The
differences are paired by prompt, and the intervals generalise to other prompts of the same kind. A difference is not
necessarily unfair. Judge for yourself which differences matter.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of float): decision about each person in each prompt, from 0 (unfavourable) to 1 (favourable).
    descriptors (list of str): who the prompt is about, such as "Deaf".
    prompts (list of str): prompt with a slot for the person, or its name.
    axes (list of str): demographic axis of each descriptor.
    wordings (list of str, optional): wording of the prompt, or order of its options. Wordings of one question have the
        same name in `prompts`. A mean is adjusted for the wordings that the descriptor lacks.
    confidence_level (float): level of the intervals. Defaults to 0.95.
    seed (int): seed of the resampling. Defaults to 0.
Returns:
    decision_spread (float): standard deviation between the descriptors of an axis, without the noise of prompts.
    spread_interval, spread_p_value: its interval, and the p-value of the test that all descriptors have equal means.
    by_axis (dict): axis -> the same values and the largest gap. An interval is None below 8 prompts.
    by_descriptor (dict) and counts, which the module's card lists.
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class DecisionGap(CheckedMetric):
    function = staticmethod(decision_gap)
    optional = ("wordings",)

    def _info(self) -> evaluate.MetricInfo:
        return self.described(_DESCRIPTION, _KWARGS_DESCRIPTION, "descriptors", "prompts", "axes")
