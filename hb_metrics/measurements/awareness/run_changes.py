from hb_metrics.measurements.awareness.figures import FIGURES
from hb_metrics.measurements.awareness.results import (
    MIN_CLUSTERS,
    TABLE_FILE,
    ClusterMean,
    awareness_means,
    cluster_covariance,
)
from hb_metrics.measurements.measurement import FigureChanges
from hb_metrics.measurements.results import Run
from hb_metrics.paired_changes.paired_change import NO_FILES_REASON, PairedChange, change_from_covariance
from hb_metrics.run.finished_run import read_run_table


def changes(first: Run, second: Run) -> FigureChanges:
    before, after = (read_run_table(run.folder / TABLE_FILE) for run in (first, second))
    if before is None or after is None:
        return FigureChanges({}, NO_FILES_REASON)
    if first.record.awareness != second.record.awareness:
        return FigureChanges({}, "the runs have different prompts or word lists")
    means, others = awareness_means(before), awareness_means(after)
    by_name = {}
    for key, (name, *_) in FIGURES.items():
        if key not in means or key not in others:
            continue
        by_name[name] = cluster_change(means[key], others[key], first.confidence_level)
    return FigureChanges(by_name)


def cluster_change(first: ClusterMean, second: ClusterMean, confidence_level: float) -> PairedChange:
    """Computes the change in a mean over the same prompts. Its intervals are robust to clustering."""
    number = min(first.num_clusters, second.num_clusters)
    if number < MIN_CLUSTERS:
        return PairedChange(first.value, second.value, None, None, f"fewer than {MIN_CLUSTERS} terms or questions")
    covariance = cluster_covariance([first, second])
    return change_from_covariance(first.value, second.value, covariance, number - 1, confidence_level)
