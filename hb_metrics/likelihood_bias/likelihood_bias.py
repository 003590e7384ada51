"""The `evaluate` module for Likelihood Bias (Smith et al., 2022, section 2.3.2)."""

import evaluate

from hb_metrics.likelihood_bias.shares import likelihood_bias
from hb_metrics.stats.checked_metric import CheckedMetric

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
    by_axis, by_template, by_axis_and_template (dict): the same share by axis and template.
    bh_likelihood_bias, effect_size, median_perplexity, num_tests and more, which the module's card lists.
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class LikelihoodBias(CheckedMetric):
    function = staticmethod(likelihood_bias)

    def _info(self) -> evaluate.MetricInfo:
        return self.described(_DESCRIPTION, _KWARGS_DESCRIPTION, "axes", "descriptors", "templates")
