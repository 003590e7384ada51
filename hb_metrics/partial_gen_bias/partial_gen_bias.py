"""The `evaluate` module for Partial Gen Bias (Smith et al., 2022, sections 2.3.3 and A.7)."""

import evaluate

from hb_metrics.stats.gen_bias_metric import ARGUMENTS, COUNTS, GenBiasMetric, module_info

_DESCRIPTION = """\
Partial Gen Bias (Smith et al., 2022, sections 2.3.3 and A.7) is the part of Full Gen Bias that a cluster of related
styles contributes. It is the variance across descriptors of the mean style probabilities of the replies, summed over
the styles of the cluster, averaged across templates and multiplied by 1000. If each style belongs to exactly one
cluster, the values of all clusters sum to Full Gen Bias. Clusters of many rare styles have low values (see
Summed-Cluster Gen Bias). Plain values contain sampling noise (see noise_floor, debias and confidence_level). A
difference is not necessarily harmful. Judge for yourself which differences matter.
"""

_KWARGS_DESCRIPTION = f"""{ARGUMENTS}Returns:
    partial_gen_bias (dict): cluster -> Partial Gen Bias, times scale.
    by_axis (dict of dict): axis -> cluster -> the same value among the descriptors of the axis. None without axes.
    noise_floor (dict): cluster -> the sampling noise that the plain value is estimated to contain. debias subtracts it.
        None if there is a template in which no descriptor has two replies.
    clusters (dict of list): cluster -> labels of its styles.
{COUNTS}"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class PartialGenBias(GenBiasMetric):
    PREFIX = "partial_"

    def _info(self) -> evaluate.MetricInfo:
        return module_info(_DESCRIPTION, _KWARGS_DESCRIPTION)
