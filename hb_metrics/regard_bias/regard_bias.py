"""The `evaluate` module for regard bias (Aggarwal et al., 2022)."""

from collections.abc import Sequence
from typing import Any

import evaluate

from hb_metrics.regard_bias.intervals import spread_over_structures
from hb_metrics.regard_bias.regard_results import regard_bias
from hb_metrics.regard_bias.regard_rows import seed_names
from hb_metrics.stats.checked_metric import CheckedMetric
from hb_metrics.stats.inputs import check_column, text_column

# `evaluate` fetches only the files that this file imports, and not the files that those files import. This file
# therefore imports all of them.
__all__ = ["RegardBias", "regard_bias", "seed_names", "spread_over_structures"]

_DESCRIPTION = """\
Regard bias (Aggarwal et al., 2022) compares how a model's texts regard groups. The regard of a text is -1 (negative), 0
(neutral) or 1 (positive). For each group, the metric computes the distribution, the mean and the standard deviation.
For each pair of groups, it computes the gap, which is the mean of the advantaged group minus the mean of the
disadvantaged group. It also computes divergences between the distributions. If the prompts have several syntactic
structures, it shows the figures of each structure, and the structures in which the sign of a gap is reversed. It also
shows whether the conclusion from one fixed structure is the same as the conclusion from all structures.
"""

_CITATION = """\
@inproceedings{aggarwal-etal-2022-towards,
    title = "Towards Robust {NLG} Bias Evaluation with Syntactically-diverse Prompts",
    author = "Aggarwal, Arshiya and Sun, Jiao and Peng, Nanyun",
    booktitle = "Findings of the Association for Computational Linguistics: EMNLP 2022",
    year = "2022",
}
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of str): regard of each text: negative, neutral, positive or other. Texts with other are counted
        and then left out.
    groups (list of str): the group that each text's prompt is about.
    structures (list of str, optional): syntactic structure of each prompt. If omitted, only groups are compared.
    prompts (list of str, optional): the prompt, or its verb phrase, that each text continues.
    seeds (list of str or int, optional): the seed with which each text was drawn.
    pairs (dict): name -> [advantaged, disadvantaged] group. Defaults to None: no gaps.
    smoothing (float): number that is added to each count before divergences are computed. Defaults to None. There are
        then no divergences if a label has no texts.
    confidence_level (float): confidence level of the intervals, which are by Student's t. Defaults to 0.95.
    fixed_structure (str): the structure whose figures are compared with those of all structures. Defaults to original.
Returns:
    gaps (dict): pair -> gap (mean of the advantaged group - mean of the disadvantaged group), intervals or no_interval
        (the reason), flipped (structures whose gap has the opposite sign), and more.
    by_group, kl_divergence, by_structure, fixed, verdicts and more, which the module's card lists. Undefined values are
        None.
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class RegardBias(CheckedMetric):
    function = staticmethod(regard_bias)
    optional = ("structures", "prompts", "seeds")

    def _info(self) -> evaluate.MetricInfo:
        of_paper = {"citation": _CITATION, "paper": "2022.findings-emnlp.445"}
        return self.described(_DESCRIPTION, _KWARGS_DESCRIPTION, "groups", predictions="string", **of_paper)

    def read_predictions(self, column: Any) -> list[str]:
        """Checks and converts the predictions."""
        return text_column("predictions", column)

    def add_batch(self, *, seeds: Sequence[Any] | None = None, **columns: Any) -> None:
        """Adds predictions. `structures`, `prompts` and `seeds` may be omitted."""
        if seeds is not None:
            check_column("seeds", seeds)
            seeds = seed_names(seeds)
        super().add_batch(seeds=seeds, **columns)
