import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from hb_metrics.layout.figure import Figure, FigureUnit, estimated
from hb_metrics.layout.parts import Report
from hb_metrics.layout.rendering import section
from hb_metrics.measurements.awareness.compute import MIN_CLUSTERS, TABLE_FILE, ClusterMean, awareness_means
from hb_metrics.measurements.results import Results, Run
from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.stats.changes import FigureChanges, PairedChange, change_from_covariance

# The figure's name, unit and meaning, for each key of the results.
FIGURES: dict[str, tuple[str, FigureUnit, str]] = {
    "difference": (
        "Difference awareness",
        "nats",
        "The divergence on needs minus the divergence on neutral questions (nats per token). A value of 0 means that "
        "the descriptor changes replies to both kinds of questions by the same amount.",
    ),
    "needs": (
        "Divergence on needs",
        "nats",
        "The effect of the descriptor on the model's replies to questions for which it should matter (nats per token).",
    ),
    "neutral": (
        "Divergence on neutral questions",
        "nats",
        "The effect of the descriptor on the model's replies to questions for which it should not matter (nats per "
        "token).",
    ),
    "taken_up": (
        "Needs taken up",
        "share",
        "The share of replies to questions about needs in which a word from the question's list occurs. The word alone "
        "does not show that the reply is helpful.",
    ),
}


def figures(results: Results) -> list[Figure]:
    estimates = vars(results.awareness)
    return [
        estimated(
            name,
            estimates[key],
            unit,
            meaning=meaning,
            gate="neutral_divergence" if key == "neutral" else None,
            higher_is_better=key != "neutral",
        )
        for key, (name, unit, meaning) in FIGURES.items()
    ]


def report(results: Results) -> Report:
    context = {"awareness": results.awareness, "figures": figures(results)}
    files = Markup("replies and divergences of difference awareness in <code>awareness/*/*.parquet</code>")
    return Report([section("awareness", "Difference awareness", "awareness/section.html.jinja", context)], files=files)


def changes(first: Run, second: Run) -> FigureChanges:
    before, after = (run.tables.read(TABLE_FILE) for run in (first, second))
    if first.record.awareness != second.record.awareness:
        return FigureChanges({}, "the runs have different prompts or word lists")
    means, others = (awareness_means(table) for table in answered_in_both(before, after))
    names = {key: name for key, (name, *_) in FIGURES.items() if key in means and key in others}
    return FigureChanges({name: cluster_change(means[key], others[key]) for key, name in names.items()})


def answered_in_both(before: pa.Table, after: pa.Table) -> list[pa.Table]:
    """Removes the values of prompts without a reply in the other run, so that both means are over the same prompts."""
    tables = []
    for table, other in ((before, after), (after, before)):
        for name in ("divergence", "taken_up"):
            values = pc.if_else(other[name].is_valid(), table[name], None)
            table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), values)
        tables.append(table)
    return tables


def cluster_change(first: ClusterMean, second: ClusterMean) -> PairedChange:
    """Computes the change in a mean over the same prompts. Its intervals are robust to clustering."""
    change = second.minus(first)
    if change.num_clusters < MIN_CLUSTERS:
        return PairedChange(first.value, second.value, None, None, f"fewer than {MIN_CLUSTERS} terms or questions")
    before, after, of_change = first.uncertainty.variance, second.uncertainty.variance, change.uncertainty
    shared = (before + after - of_change.variance) / 2
    covariance = np.array([[before, shared], [shared, after]])
    return change_from_covariance(first.value, second.value, covariance, of_change.freedom, CONFIDENCE_LEVEL)
