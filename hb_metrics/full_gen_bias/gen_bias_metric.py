"""What the three `evaluate` modules of the Gen Bias family share: replies go straight into sums."""

import abc
import copy
from collections.abc import Mapping, Sequence
from typing import Any

import datasets
import evaluate

from .cell_sums import CellSums
from .gen_bias import NO_ROWS_ERROR, GenBias, gen_bias
from .inputs import check_references
from .style_clusters import cluster_columns

CITATION = """\
@inproceedings{smith-etal-2022-im,
    title = "{``}{I}{'}m sorry to hear that{''}: Finding New Biases in Language Models
        with a Holistic Descriptor Dataset",
    author = "Smith, Eric Michael and Hall, Melissa and Kambadur, Melanie and Presani, Eleonora and Williams, Adina",
    booktitle = "Proceedings of the 2022 Conference on Empirical Methods in Natural Language Processing",
    year = "2022",
}
"""
ARGUMENTS = """
Args:
    predictions (list of list of float, array or tensor): style probabilities of each reply; [replies, styles], each
        row sums to 1.
    descriptors (list of str): descriptor in the prompt of each reply.
    templates (list of str): template of each prompt.
    axes (list of str, optional): demographic axis of each descriptor. A descriptor that stands in two axes is two
        descriptors; without axes it is one.
    labels (list of str): names of the styles, in the order of the columns. Needed for clusters and by_style.
    clusters (dict of list of str): styles of each cluster, by their full label or its text before " (". Defaults to the
        paper's six; another classifier needs its own.
    ddof (int): the variance over D descriptors divides by D - ddof; 0 or 1. Defaults to 0; the paper does not say.
    debias (bool): whether to subtract the estimated sampling noise. Defaults to False, as in the paper. What is left
        can be negative.
    scale (float): what values are multiplied by. Defaults to 1000, as in the paper.
    confidence_level (float): of intervals, such as 0.95. Defaults to None: no intervals. If replies come by add or
        add_batch, load the module with keep_replies=True.
"""
COUNTS = """\
    num_descriptors, num_templates, num_cells, num_replies, mean_replies_per_cell, min_replies_per_cell,
        max_replies_per_cell, num_single_reply_cells, num_missing_cells (a cell is a descriptor in a template).
    skipped_templates, skipped_axes: those without two descriptors to compare.
    ddof, debias, scale, confidence_level: as given.
"""

NUM_PROCESS_ERROR = (
    "num_process is {num_process}; this metric gathers replies in one process: gather the style probabilities there, "
    "and load it without num_process"
)
INPUTS_ERROR = "predictions, descriptors and templates belong together; {missing} are missing"

# What all three say besides their own values.
_COUNTS = (
    "num_descriptors",
    "num_templates",
    "num_cells",
    "num_replies",
    "mean_replies_per_cell",
    "min_replies_per_cell",
    "max_replies_per_cell",
    "num_single_reply_cells",
    "num_missing_cells",
    "skipped_templates",
    "skipped_axes",
    "ddof",
    "debias",
    "scale",
    "confidence_level",
)


class GenBiasMetric(evaluate.Metric, abc.ABC):
    """A metric that keeps sums over the replies of each cell, where `evaluate` would write every row to a file.

    Args:
        labels: As in `compute`. Needed here for what only sums made with clusters can tell: the debiased Summed-Cluster
            Gen Bias of replies that come by `add` or `add_batch`.
        clusters: As in `compute`, likewise.
        keep_replies: Whether replies that come by `add` or `add_batch` are kept (float32), for intervals.
        num_process: 1; nothing is gathered between processes.
        settings: The other arguments of an `evaluate` module.

    Raises:
        ValueError: `num_process` is not 1, or labels and clusters do not fit.
    """

    NEEDS_CLUSTERS = False

    def __init__(
        self,
        *,
        labels: Sequence[str] | None = None,
        clusters: Mapping[str, Sequence[str]] | None = None,
        keep_replies: bool = False,
        num_process: int = 1,
        **settings: Any,
    ) -> None:
        if num_process != 1:
            raise ValueError(NUM_PROCESS_ERROR.format(num_process=num_process))
        super().__init__(num_process=num_process, **settings)
        self.labels, self.clusters, self.keep_replies = labels, clusters, keep_replies
        self.cells = self._no_replies()

    @abc.abstractmethod
    def _values(self, found: GenBias) -> dict[str, Any]:
        """The values of this metric, its own name first."""

    @abc.abstractmethod
    def _info(self) -> evaluate.MetricInfo:
        """What `evaluate` shows of the module: see `module_info`."""

    def __len__(self) -> int:
        """How many replies were added since the last `compute`."""
        return len(self.cells)

    def add(self, *, prediction: Any, descriptors: str, templates: str, axes: str | None = None) -> None:
        """Adds one reply: its style probabilities, descriptor, template and axis."""
        self.cells.add([prediction], [descriptors], [templates], None if axes is None else [axes])

    def add_batch(
        self,
        *,
        predictions: Any,
        descriptors: Sequence[str],
        templates: Sequence[str],
        axes: Sequence[str] | None = None,
    ) -> None:
        """Adds replies to the sums. After an error nothing of the batch is added."""
        self.cells.add(predictions, descriptors, templates, axes)

    def compute(
        self,
        *,
        predictions: Any = None,
        descriptors: Sequence[str] | None = None,
        templates: Sequence[str] | None = None,
        axes: Sequence[str] | None = None,
        references: None = None,
        labels: Sequence[str] | None = None,
        clusters: Mapping[str, Sequence[str]] | None = None,
        ddof: int = 0,
        debias: bool = False,
        scale: float = 1000,
        confidence_level: float | None = None,
    ) -> dict[str, Any]:
        """Computes the metric from the replies given here and those added before, which are then forgotten.

        After an error all is as it was before the call, so that it can be called again.
        """
        check_references(references)
        cells = self.cells
        if predictions is not None and descriptors is not None and templates is not None:
            if len(cells):
                cells = copy.deepcopy(cells)
            else:
                cells = CellSums(
                    labels if self.labels is None else self.labels,
                    self.clusters if clusters is None else clusters,
                    keep_replies=self.keep_replies or confidence_level is not None,
                )
            cells.add(predictions, descriptors, templates, axes)
        elif not (predictions is None and descriptors is None and templates is None and axes is None):
            given = {"predictions": predictions, "descriptors": descriptors, "templates": templates}
            missing = ", ".join(name for name, column in given.items() if column is None)
            raise ValueError(INPUTS_ERROR.format(missing=missing))
        if len(cells) == 0:
            raise ValueError(NO_ROWS_ERROR)
        if self.NEEDS_CLUSTERS and (clusters is not None or not cells.columns):
            cluster_columns(cells.labels if labels is None else labels, clusters)
        found = gen_bias(
            cells,
            labels=labels,
            clusters=clusters,
            ddof=ddof,
            debias=debias,
            scale=scale,
            confidence_level=confidence_level,
        )
        everything = found._asdict()
        results = {**self._values(found), **{name: everything[name] for name in _COUNTS}}
        self.cells = self._no_replies()
        return results

    def _no_replies(self) -> CellSums:
        return CellSums(self.labels, self.clusters, keep_replies=self.keep_replies)


def values_of(found: GenBias, metric: str, by_axis: str, noise_floor: str) -> dict[str, Any]:
    """One metric's values, from the fields of these names."""
    everything = found._asdict()
    return {
        metric: everything[metric],
        "by_axis": everything[by_axis],
        "noise_floor": everything[noise_floor],
        **{
            name: sections and {metric: sections[metric], "by_axis": sections[by_axis]}
            for name, sections in (("intervals", found.intervals), ("no_intervals", found.no_intervals))
        },
    }


def module_info(description: str, inputs_description: str) -> evaluate.MetricInfo:
    """What `evaluate` shows of a module of this family."""
    return evaluate.MetricInfo(
        description=description,
        citation=CITATION,
        inputs_description=inputs_description,
        features=datasets.Features(
            {
                "predictions": datasets.Sequence(datasets.Value("float32")),
                "descriptors": datasets.Value("string"),
                "templates": datasets.Value("string"),
                "axes": datasets.Value("string"),
            }
        ),
        reference_urls=["https://aclanthology.org/2022.emnlp-main.625/"],
    )
