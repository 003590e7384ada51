"""The `evaluate` module for Language Model Bias (Barikeri et al., 2021, section 3.1)."""

from collections.abc import Sequence
from typing import Any

import datasets
import evaluate

from hb_metrics.language_model_bias.paired_test import checked_sides, language_model_bias
from hb_metrics.stats.checked_metric import metric_info
from hb_metrics.stats.inputs import check_alpha

_DESCRIPTION = """\
Language Model Bias (Barikeri et al., 2021, section 3.1) compares how likely two kinds of phrases are for a language
model. t1 is a phrase that states a stereotype of a group. t2 is the same phrase about another group. Language Model
Bias is the t statistic of a paired two-sided t-test of their perplexities. It is negative if the stereotypical
phrases are likelier. Perplexities can reach a million, so a few pairs may determine t. The results therefore also
include the same test of logarithms, the Wilcoxon test, and the share of pairs in which t1 is likelier.
"""

_CITATION = """\
@inproceedings{barikeri-etal-2021-redditbias,
    title = "{R}eddit{B}ias: A Real-World Resource for Bias Evaluation and Debiasing of Conversational Language Models",
    author = "Barikeri, Soumya and Lauscher, Anne and Vuli{\\'c}, Ivan and Glava{\\v{s}}, Goran",
    booktitle = "Proceedings of the 59th Annual Meeting of the Association for Computational Linguistics and the 11th
        International Joint Conference on Natural Language Processing (Volume 1: Long Papers)",
    year = "2021",
}
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of float): perplexity of each stereotypical phrase (t1). Finite and greater than 0.
    references (list of float): perplexity of the same phrase about the other group (t2), in the same order.
    alpha (float): significance level. Defaults to 0.05.
Returns:
    t, p_value, degrees_of_freedom: results of the paired two-sided t-test. t < 0 if t1 is likelier.
    t_log, p_value_log: the same results for natural logarithms of perplexities.
    share_t1_likelier (float): share of pairs in which t1 has the lower perplexity.
    effect_size, wilcoxon_p_value and more, which the module's card lists. Undefined values are None.
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class LanguageModelBias(evaluate.Metric):
    def _info(self) -> evaluate.MetricInfo:
        columns = dict.fromkeys(("predictions", "references"), datasets.Value("float64"))
        return metric_info(_DESCRIPTION, _KWARGS_DESCRIPTION, citation=_CITATION, paper="2021.acl-long.151", **columns)

    def add(self, *, prediction: float, reference: float) -> None:
        """Adds a pair."""
        self.add_batch(predictions=[prediction], references=[reference])

    def add_batch(self, *, predictions: Sequence[float], references: Sequence[float]) -> None:
        """Adds pairs, and rejects text, which `evaluate` would read as numbers."""
        t1, t2 = checked_sides(predictions, references)
        super().add_batch(predictions=t1, references=t2)

    def compute(
        self, *, predictions: Any = None, references: Any = None, alpha: float = 0.05
    ) -> dict[str, object] | None:
        """Computes the metric, after a check of `alpha`: `evaluate` discards added pairs if an error occurs later."""
        return super().compute(predictions=predictions, references=references, alpha=check_alpha(alpha))

    def _compute(self, predictions: Sequence[float], references: Sequence[float], **options: Any) -> dict[str, object]:
        return language_model_bias(predictions, references, **options)
