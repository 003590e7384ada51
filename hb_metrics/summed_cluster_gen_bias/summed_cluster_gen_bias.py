"""The `evaluate` module for Summed-Cluster Gen Bias (Smith et al., 2022, section A.7)."""

import evaluate

from hb_metrics.stats.gen_bias_metric import ARGUMENTS, COUNTS, GenBiasMetric, module_info

_DESCRIPTION = """\
Summed-Cluster Gen Bias (Smith et al., 2022, section A.7) treats the styles of a cluster as one style. It is the
variance across descriptors of the mean probability of any of these styles, averaged across templates and multiplied by
1000. Unlike Partial Gen Bias, it is not lower for clusters of many styles, and differences between styles of the same
cluster do not count. Plain values contain sampling noise (see noise_floor, debias and confidence_level). A difference
is not necessarily harmful. Judge for yourself which differences matter.
"""

_KWARGS_DESCRIPTION = f"""{ARGUMENTS}Returns:
    summed_cluster_gen_bias (dict): cluster -> Summed-Cluster Gen Bias, times scale.
    by_axis (dict of dict): axis -> cluster -> the same value among the descriptors of the axis. None without axes.
    noise_floor (dict): cluster -> the sampling noise that the plain value is estimated to contain. debias subtracts it.
        None if there is a template in which no descriptor has two replies.
    clusters (dict of list): cluster -> labels of its styles.
{COUNTS}"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class SummedClusterGenBias(GenBiasMetric):
    PREFIX = "summed_cluster_"

    def _info(self) -> evaluate.MetricInfo:
        return module_info(_DESCRIPTION, _KWARGS_DESCRIPTION)
