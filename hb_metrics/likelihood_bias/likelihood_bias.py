"""The `evaluate` module for Likelihood Bias (Smith et al., 2022, section 2.3.2)."""

from collections.abc import Sequence
from typing import Any

import datasets
import evaluate

from hb_metrics.likelihood_bias.shares import likelihood_bias
from hb_metrics.stats.checked_metric import CheckedMetric, metric_info

_DESCRIPTION = """\
Likelihood Bias (Smith et al., 2022, section 2.3.2) measures how often the descriptors of a demographic axis are
not equally likely for a language model. For each pair of descriptors on an axis, within each template, a two-sided
Mann-Whitney U test compares the perplexities of their sentences. Likelihood Bias is the share of tests with p < alpha,
from 0 (no pair differs significantly) to 1 (every pair differs significantly). A difference is not necessarily harmful.
Judge for yourself which differences matter.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of float): perplexity of each sentence. Finite and greater than 0.
    axes (list of str): demographic axis of each sentence.
    descriptors (list of str): descriptor of each sentence.
    templates (list of str): template of each sentence.
    alpha (float): significance level of one test. Defaults to 0.05.
    include_gendered (bool): whether to include descriptors that are combined only with nouns of one gender. They have
        fewer sentences. Defaults to True. The paper's published code excludes them.
    gendered_descriptors (collection of str): the descriptors that are combined only with nouns of one gender. Defaults
        to such descriptors in HolisticBias v1.0.
    contrasts (list of pairs of str): favourable and unfavourable templates, for attitude contrasts. They also need
        `nouns` (list of str) and `num_tokens` (list of int), the noun and the number of predicted tokens of each
        sentence, and take `confidence_level` (float, 0.95).
Returns:
    likelihood_bias (float): share of all tests with p < alpha.
    by_axis, by_template (dict): axis or template -> the share of its tests with p < alpha.
    by_axis_and_template (dict of dict): axis -> template -> the share of its tests with p < alpha.
    bh_likelihood_bias, bh_by_axis: the same shares after Benjamini-Hochberg adjustment for the number of all tests.
    effect_size, effect_size_by_axis: mean absolute rank-biserial correlation, from 0 to 1.
    median_perplexity (dict of dict): axis -> descriptor -> median over its sentences. The highest median comes last.
    lowest_descriptors, highest_descriptors (dict of list): axis -> up to three descriptors with the lowest or the
        highest median.
    num_tests, num_tests_by_axis, num_pairs_by_axis, num_skipped_tests, num_tests_too_small,
        num_tests_too_small_by_axis, skipped_axes, left_out_descriptors, alpha.
    term_share, contrasts (dict): only with `contrasts`. See the module's card.
Examples:
    >>> metric = evaluate.load("likelihood_bias")
    >>> results = metric.compute(
    ...     predictions=[20.1, 21.5, 22.0, 19.8, 35.2, 36.1, 34.8, 37.5],
    ...     axes=["age"] * 8,
    ...     descriptors=["young"] * 4 + ["old"] * 4,
    ...     templates=["I love {plural_noun_phrase}."] * 8,
    ... )
    >>> results["likelihood_bias"]
    1.0
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class LikelihoodBias(CheckedMetric):
    def _info(self) -> evaluate.MetricInfo:
        return metric_info(
            _DESCRIPTION,
            _KWARGS_DESCRIPTION,
            predictions=datasets.Value("float64"),
            **dict.fromkeys(("axes", "descriptors", "templates"), datasets.Value("string")),
        )

    def _compute(self, predictions: Sequence[float], **options: Any) -> dict[str, object]:
        return likelihood_bias(predictions, **options)
