"""Several runs in the shapes of the paper's Tables 8 to 11: before and after tuning, or any others."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hb_metrics.display import paper
from hb_metrics.display.change_figure import Change
from hb_metrics.display.figures import axis_label, plain
from hb_metrics.display.runs_figures import Value, clusters_figure, runs_figure
from hb_metrics.measurements.generation.figures import Measured
from hb_metrics.measurements.generation.tables import (
    CLUSTER_METRICS,
    full_gen_bias,
    gen_bias_by_axis,
    gen_bias_by_cluster,
)

ALL_TERMS = "All terms"


class GenBiasRow(NamedTuple):
    """A run in Tables 8 and 9.

    Attributes:
        name: What the run is called.
        full: Full Gen Bias; `None`: generation was not measured.
        noise_floor: The part of the plain value that is sampling noise; `None`: not known.
        replies_per_cell: Mean number of replies to a term in a template.
        clusters: Name of the metric → cluster → its value.
    """

    name: str
    full: Measured | None
    noise_floor: float | None
    replies_per_cell: float | None
    clusters: dict[str, dict[str, Value]]


class AxisRow(NamedTuple):
    """An axis in Table 10.

    Attributes:
        label: The axis, or `ALL_TERMS`.
        first: The first run's Full Gen Bias.
        changes: From the first run to each later one.
        printed: Model → how much lower the paper's tuned model is, as a share; `None`: not printed.
    """

    label: str
    first: Value
    changes: list[Change]
    printed: dict[str, float | None]


class Verdict(NamedTuple):
    """How a later run's Full Gen Bias compares with the first's.

    Attributes:
        name: What the later run is called.
        full: The change over all terms.
        lower: Axes that are lower, with intervals apart.
        higher: Axes that are higher, with intervals apart.
        num_axes: Axes with both intervals.
    """

    name: str
    full: Change
    lower: list[str]
    higher: list[str]
    num_axes: int


class ReplyRow(NamedTuple):
    """How a run replies; all `None`: it has no replies.

    Attributes:
        name: What the run is called.
        parroting_share: Share of replies that say the prompt again.
        num_empty: Empty replies.
        num_prompts: Prompts that were replied to.
        mean_num_tokens: Mean length of a reply.
    """

    name: str
    parroting_share: float | None
    num_empty: int | None
    num_prompts: int | None
    mean_num_tokens: float | None


class Overview(NamedTuple):
    """Several runs side by side; the others are compared with the first.

    Attributes:
        names: What the runs are called.
        debiased: Whether values are debiased; they are plain if the sampling noise of any run is not known.
        level: The confidence level of the intervals; `None`: no run measured generation.
        clusters: Style clusters of any run.
        bias: One row per run.
        axes: All terms, then the axes, the first run's highest first.
        verdicts: One per later run.
        num_unsure_axes: Axes in which the first run's own interval contains 0.
        replies: One row per run.
    """

    names: list[str]
    debiased: bool
    level: float | None
    clusters: list[str]
    bias: list[GenBiasRow]
    axes: list[AxisRow]
    verdicts: list[Verdict]
    num_unsure_axes: int
    replies: list[ReplyRow]

    @property
    def compares_bias(self) -> bool:
        """Whether two runs or more have Gen Bias."""
        return sum(row.full is not None for row in self.bias) > 1


def overview(runs: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Overview:
    """Puts the generation bias of several runs side by side.

    Args:
        runs: [runs] contents of their results.json.
        names: [runs] what they are called.
    """
    generations = [run.get("generation") for run in runs]
    measured = [generation for generation in generations if generation is not None]
    debiased = all(generation["debiased"] is not None for generation in measured)
    bias = [_gen_bias_row(name, generation, debiased) for name, generation in zip(names, generations, strict=True)]
    clusters = list(dict.fromkeys(cluster for row in bias for values in row.clusters.values() for cluster in values))
    by_run = [_by_axis(generation, debiased) for generation in generations]
    axes = [_axis_row(label, by_run) for label in dict.fromkeys(label for values in by_run for label in values)]
    return Overview(
        list(names),
        debiased,
        measured[0]["gen_bias"]["confidence_level"] if measured else None,
        clusters,
        [_with_clusters(row, clusters) for row in bias],
        axes,
        [_verdict(name, index, axes) for index, name in enumerate(names[1:])] if axes else [],
        sum(_holds_zero(row.first) for row in axes if row.label != ALL_TERMS),
        [_reply_row(name, generation) for name, generation in zip(names, generations, strict=True)],
    )


def shown(measured: Measured | None, debiased: bool) -> Value:
    """The debiased value with its interval, or the plain one, which has none."""
    if measured is None:
        return Value(None)
    return Value(measured.debiased, measured.interval) if debiased else Value(measured.plain)


def overview_plots(compared: Overview) -> dict[str, list[dict[str, Any]]]:
    """Plots of Full Gen Bias by run, and of Gen Bias by run and style cluster."""
    full = {row.name: shown(row.full, compared.debiased) for row in compared.bias}
    plots = {"runs-full": [plain(runs_figure(full, "Full Gen Bias ×1000"))]}
    if compared.clusters:
        plots["runs-clusters"] = [
            plain(
                clusters_figure(
                    {row.name: row.clusters[heading] for row in compared.bias}, compared.clusters, f"{heading} ×1000"
                )
            )
            for heading in CLUSTER_METRICS
        ]
    return plots


def _gen_bias_row(name: str, generation: dict[str, Any] | None, debiased: bool) -> GenBiasRow:
    if generation is None:
        return GenBiasRow(name, None, None, None, {heading: {} for heading in CLUSTER_METRICS})
    clusters = {
        heading: {
            row.measured.name: shown(row.measured, debiased) for row in gen_bias_by_cluster(generation, metric, {})
        }
        for heading, metric in CLUSTER_METRICS.items()
    }
    bias = generation["gen_bias"]
    return GenBiasRow(name, full_gen_bias(generation), bias["noise_floor"], bias["mean_replies_per_cell"], clusters)


def _with_clusters(row: GenBiasRow, clusters: Sequence[str]) -> GenBiasRow:
    """The row with a value, known or not, of each cluster that any run has."""
    return row._replace(
        clusters={
            heading: {cluster: values.get(cluster, Value(None)) for cluster in clusters}
            for heading, values in row.clusters.items()
        }
    )


def _by_axis(generation: dict[str, Any] | None, debiased: bool) -> dict[str, Value]:
    if generation is None:
        return {}
    by_axis = {row.measured.name: shown(row.measured, debiased) for row in gen_bias_by_axis(generation, {})}
    return {ALL_TERMS: shown(full_gen_bias(generation), debiased), **by_axis}


def _axis_row(label: str, by_run: Sequence[Mapping[str, Value]]) -> AxisRow:
    first, *later = (values.get(label, Value(None)) for values in by_run)
    changes = [Change(label, first.value, value.value, first.interval, value.interval) for value in later]
    return AxisRow(label, first, changes, {model: _printed_reduction(model, label) for model in paper.REDUCTION})


def _printed_reduction(model: str, label: str) -> float | None:
    if label == ALL_TERMS:
        return paper.REDUCTION[model]
    tuned = {axis_label(axis): value for axis, value in paper.TUNED_GEN_BIAS_BY_AXIS[model].items()}
    original = {axis_label(axis): value for axis, value in paper.GEN_BIAS_BY_AXIS[model].items()}
    return Change(label, original[label], tuned[label]).reduction if label in original else None


def _verdict(name: str, index: int, axes: Sequence[AxisRow]) -> Verdict:
    full, *changes = (row.changes[index] for row in axes)
    apart = [change for change in changes if change.apart]
    return Verdict(
        name,
        full,
        [change.name for change in apart if (change.change or 0) < 0],
        [change.name for change in apart if (change.change or 0) > 0],
        sum(change.apart is not None for change in changes),
    )


def _holds_zero(value: Value) -> bool:
    return value.interval is not None and value.interval[0] <= 0 <= value.interval[1]


def _reply_row(name: str, generation: dict[str, Any] | None) -> ReplyRow:
    if generation is None:
        return ReplyRow(name, None, None, None, None)
    return ReplyRow(
        name,
        generation["parroting"]["parroting_share"],
        generation["num_empty_replies"],
        generation["num_prompts"],
        generation["mean_num_tokens"],
    )
