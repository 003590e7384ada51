"""The `evaluate` module for Full Gen Bias (Smith et al., 2022, sections 2.3.3 and A.7)."""

import evaluate

from hb_metrics.stats.gen_bias_metric import ARGUMENTS, COUNTS, GenBiasMetric, module_info

_DESCRIPTION = """\
Full Gen Bias (Smith et al., 2022, sections 2.3.3 and A.7) measures how much the style of a generative model's replies
depends on the descriptor in the prompt. For each template and descriptor, the style probabilities of the replies are
averaged. Full Gen Bias is the variance of these means across descriptors, summed over the styles, averaged across
templates and multiplied by 1000. It is 0 if the replies to all descriptors have the same styles. Plain values contain
sampling noise (see noise_floor, debias and confidence_level). A difference is not necessarily harmful. Judge for
yourself which differences matter.
"""

_KWARGS_DESCRIPTION = f"""{ARGUMENTS}Returns:
    full_gen_bias (float): Full Gen Bias, times scale.
    by_axis (dict): axis -> the same value among the descriptors of the axis. None without axes.
    by_style (dict): label -> the part of full_gen_bias that comes from the style. None without labels.
    noise_floor (float): the sampling noise that the plain value is estimated to contain. debias subtracts it. None if
        there is a template in which no descriptor has two replies.
{COUNTS}"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class FullGenBias(GenBiasMetric):
    def _info(self) -> evaluate.MetricInfo:
        return module_info(_DESCRIPTION, _KWARGS_DESCRIPTION)
