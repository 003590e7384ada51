import abc
import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import datasets
import evaluate

from hb_metrics.stats.cell_sums import CellSums, cluster_columns
from hb_metrics.stats.checked_metric import metric_info
from hb_metrics.stats.gen_bias import gen_bias
from hb_metrics.stats.inputs import check_references, check_setting

ARGUMENTS = """
Args:
    predictions (list of list of float, array or tensor): style probabilities of each reply; [replies, styles], each
        row sums to 1.
    descriptors, templates (list of str): descriptor and template of each reply's prompt.
    axes (list of str, optional): demographic axis of each descriptor. A descriptor on two axes counts as two.
    labels (list of str): names of the styles, in the order of the columns. Required for clusters and by_style. If
        you add replies by add or add_batch, pass labels and clusters to evaluate.load.
    clusters (dict of list of str): styles of each cluster. Name a style by its full label, or by the part of the
        label before " (". Defaults to the paper's six clusters. If you use another classifier, pass clusters of its
        labels.
    ddof (int): 0 or 1. The variance over D descriptors divides by D - ddof. Defaults to 0. The paper does not state
        the value.
    debias (bool): whether to subtract the estimated sampling noise. Defaults to False, as in the paper. The result
        can be negative.
    scale (float): the factor by which values are multiplied. Defaults to 1000, as in the paper.
    confidence_level (float): confidence level of the intervals, such as 0.95. Defaults to None (no intervals). If
        you add replies by add or add_batch, load the module with keep_replies=True.
"""
COUNTS = """\
    intervals (dict): [lowest, highest] for the metric and for by_axis, or None. The interval is for the value that
        unlimited replies would give. A plain value contains sampling noise and can be above its interval.
    no_intervals (dict): for the metric and for by_axis, the reason why there is no interval.
    num_descriptors and more, which the module's card lists.
"""


class GenBiasMetric(evaluate.Metric, abc.ABC):
    """Base class of the three Gen Bias metrics. It keeps only sums in memory, unlike `evaluate`, which stores all rows.

    Args:
        labels: The argument `labels` of `compute`, for replies that are added with `add` or `add_batch`.
        clusters: The argument `clusters` of `compute`, for these replies.
        keep_replies: Whether to keep these replies (float32). Intervals require them.
        num_process: Must be 1, because replies are not gathered from other processes.
    """

    # The prefix of the metric's fields in `GenBias`. Full Gen Bias has none.
    PREFIX: ClassVar[str] = ""

    def __init__(
        self,
        *,
        labels: Sequence[str] | None = None,
        clusters: Mapping[str, Sequence[str]] | None = None,
        keep_replies: bool = False,
        num_process: int = 1,
        **settings: Any,
    ) -> None:
        advice = "this metric sums replies in one process; gather the style probabilities in that process, and pass 1"
        check_setting("num_process", num_process, num_process == 1, advice)
        super().__init__(num_process=num_process, **settings)
        self.labels, self.clusters, self.keep_replies = labels, clusters, keep_replies
        self.cells = self._no_replies()

    @abc.abstractmethod
    def _info(self) -> evaluate.MetricInfo: ...

    def __len__(self) -> int:
        return len(self.cells)

    def add(self, *, prediction: Any, descriptors: str, templates: str, axes: str | None = None) -> None:
        """Adds one reply."""
        self.cells.add([prediction], [descriptors], [templates], None if axes is None else [axes])

    def add_batch(
        self,
        *,
        predictions: Any,
        descriptors: Sequence[str],
        templates: Sequence[str],
        axes: Sequence[str] | None = None,
    ) -> None:
        """Adds replies. An error leaves the sums unchanged."""
        self.cells.add(predictions, descriptors, templates, axes)

    def compute(
        self,
        *,
        predictions: Any = None,
        descriptors: Any = None,
        templates: Any = None,
        axes: Sequence[str] | None = None,
        references: None = None,
        labels: Sequence[str] | None = None,
        clusters: Mapping[str, Sequence[str]] | None = None,
        ddof: int = 0,
        debias: bool = False,
        scale: float = 1000,
        confidence_level: float | None = None,
    ) -> dict[str, object]:
        """Computes the metric from the replies added earlier and those passed to this call.

        The added replies are then discarded. If an error occurs, they are kept, so `compute` can be called again.
        """
        check_references(references)
        cells = self.cells
        if len(cells) and not (labels is None and clusters is None):
            advice = f"pass them to evaluate.load({self.name!r}, labels=labels), or pass all replies to compute"
            raise ValueError(f"labels and clusters cannot be passed once replies have been added; {advice}")
        if any(column is not None for column in (predictions, descriptors, templates, axes)):
            if len(cells):
                cells = copy.deepcopy(cells)
            else:
                labels = self.labels if labels is None else labels
                clusters = self.clusters if clusters is None else clusters
                cells = CellSums(labels, clusters, keep_replies=self.keep_replies or confidence_level is not None)
            cells.add(predictions, descriptors, templates, axes)
        bias = gen_bias(cells, ddof=ddof, debias=debias, scale=scale, confidence_level=confidence_level)
        prefix, fields = self.PREFIX, bias._asdict()
        if prefix and not cells.columns:
            cluster_columns(cells.labels)  # raises an error that states why there are no clusters
        metric, by_axis, own = f"{prefix or 'full_'}gen_bias", f"{prefix}by_axis", "clusters" if prefix else "by_style"
        results = {metric: fields[metric], "by_axis": fields[by_axis], "noise_floor": fields[f"{prefix}noise_floor"]}
        for name, sections in (("intervals", bias.intervals), ("no_intervals", bias.no_intervals)):
            of_metric = sections and sections._asdict()
            results[name] = of_metric and {metric: of_metric[metric], "by_axis": of_metric[by_axis]}
        results[own] = fields[own]
        # From here on, all three metrics have the same fields.
        results |= {name: fields[name] for name in bias._fields[bias._fields.index("num_descriptors") :]}
        self.cells = self._no_replies()
        return results

    def _no_replies(self) -> CellSums:
        return CellSums(self.labels, self.clusters, keep_replies=self.keep_replies)


def module_info(description: str, inputs_description: str) -> evaluate.MetricInfo:
    columns = dict.fromkeys(("descriptors", "templates", "axes"), datasets.Value("string"))
    predictions = datasets.Sequence(datasets.Value("float32"))
    return metric_info(description, inputs_description, predictions=predictions, **columns)
