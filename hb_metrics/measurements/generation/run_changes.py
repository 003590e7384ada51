"""Computes the changes between two runs, and the intervals for other terms or templates."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hb_dataset.grouped import grouped
from hb_metrics.collect.classifiers.censoring import term_mentioned
from hb_metrics.layout.numbers import axis_groups, axis_label
from hb_metrics.measurements.generation.figures import CLUSTER_METRICS, EMPTY, UPTAKE, value_at
from hb_metrics.measurements.generation.nouns import Kernels, covariance, noun_kernels, nouns_of
from hb_metrics.measurements.generation.results import SHORT, SHORT_SHARE, Generation, refusal_flags
from hb_metrics.measurements.results import Run
from hb_metrics.measurements.shares import generalised_means, reply_share_changes
from hb_metrics.run.plurals import terms_of_prompts
from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.run.replies import RatedReplies, Replies, all_replies, chosen_replies, nonempty_replies
from hb_metrics.run.run_folder import STYLES
from hb_metrics.run.tables import has_pairs_of_terms
from hb_metrics.stats.cell_sums import CellSums, cluster_columns
from hb_metrics.stats.changes import NO_FILES_REASON, FigureChanges, PairedChange, change_from_covariance
from hb_metrics.stats.clusters import Generalised, Over, gen_bias_influences, generalised, uncertainty
from hb_metrics.stats.gen_bias import GenBias, plain_and_debiased
from hb_metrics.stats.gen_bias_intervals import (
    NO_VARIATION_REASON,
    CellKey,
    CellReplies,
    gen_bias_change,
    gen_bias_covariances,
)
from hb_metrics.stats.inputs import descriptor_codes, text_codes
from hb_metrics.stats.question_tables import row_means


class _Replies(NamedTuple):
    replies: Replies
    by_cell: CellReplies
    nouns: dict[str | None, Kernels]


def changes(first: Run, second: Run) -> FigureChanges:
    if first.record.cue != second.record.cue:
        return FigureChanges({}, "the runs describe the user with different cues")
    generations = first.results.generation, second.results.generation
    tables = first.tables.reply_table(), second.tables.reply_table()
    empty = reply_share_changes(EMPTY, all_replies(tables[0]), all_replies(tables[1])).by_name
    named = naming(tables[0]), naming(tables[1])
    of_naming = reply_share_changes(UPTAKE, *named)
    if of_naming.reason is not None:
        return FigureChanges(empty, of_naming.reason)
    by_name = of_naming.by_name | empty
    if generations[0].refusal_rules == generations[1].refusal_rules:
        others = refusal_flags(second.tables, named[1].replies)
        for name, flagged in refusal_flags(first.tables, named[0].replies).items():
            if name in others:
                by_name |= reply_share_changes(name, flagged, others[name]).by_name
    reason = _unlike(first, second)
    if reason is not None:
        return FigureChanges(by_name, reason)
    styled = [run.tables.styled_replies(table) for run, table in zip((first, second), tables, strict=True)]
    shared = _shared(*({*_cells_of(replies)} for replies in styled))
    before, after = (
        _replies(run, table, replies, shared)
        for run, table, replies in zip((first, second), tables, styled, strict=True)
    )
    if before is None or after is None:
        return FigureChanges(by_name, NO_FILES_REASON)
    clusters, unlike = generations[0].gen_bias.clusters or {}, None
    if clusters != (generations[1].gen_bias.clusters or {}):
        clusters, unlike = {}, "the runs have different clusters of styles"
    labels = [style.style for style in generations[0].styles]
    columns = cluster_columns(labels, clusters) if clusters else {}
    covariances = gen_bias_covariances(before.by_cell, after.by_cell, columns)
    debiased = [_debiased(run, labels, clusters) for run in (before, after)]
    for name, path, axis, metric in _figures(generations[0], list(columns)):
        values = [value_at(of_run, path) for of_run in debiased]
        if axis in covariances and None not in values:
            scale, covariance = generations[0].gen_bias.scale, covariances[axis][metric]
            by_name[name] = gen_bias_change(values[0], values[1], covariance, scale, CONFIDENCE_LEVEL)
    if not has_pairs_of_terms(tables[0]):
        by_name |= _noun_changes(before, after)
    return FigureChanges(by_name, unlike)


def _noun_changes(before: _Replies, after: _Replies) -> dict[str, PairedChange]:
    by_name = {}
    for gender, kernels in before.nouns.items():
        other = after.nouns.get(gender)
        if other is None or kernels.by_template.keys() != other.by_template.keys():
            continue
        if (known := covariance(kernels, other)) is not None:
            matrix, influences = known
            freedom = uncertainty(influences[1] - influences[0]).of_squares().freedom
            change = change_from_covariance(kernels.value, other.value, matrix, freedom, CONFIDENCE_LEVEL)
            by_name["Bias between nouns" if gender is None else f"Bias between nouns, {gender}"] = change
    return by_name


def naming(table: pa.Table) -> RatedReplies:
    replies = nonempty_replies(table)
    return RatedReplies(replies, term_mentioned(replies, terms_of_prompts(table)))


def _unlike(first: Run, second: Run) -> str | None:
    generations = first.results.generation, second.results.generation
    classifiers = [run.record.style_classifier for run in (first, second)]
    if any(generation.debiased is None for generation in generations):
        return "in a template of one of the runs, no term has a second reply, so sampling noise cannot be subtracted"
    if any(vars(classifiers[0])[name] != vars(classifiers[1])[name] for name in ("digest", "name", "temperature")):
        return "different classifiers classified the styles"
    if any(generation.short_share >= SHORT_SHARE for generation in generations):
        return f"many replies of a run have fewer than {SHORT} words, so their style shows little"
    reasons = [generation.gen_bias.no_intervals for generation in generations]
    if any(reason is not None and reason.full_gen_bias == NO_VARIATION_REASON for reason in reasons):
        return "in one of the runs, replies to the same prompt do not vary"
    return None


def _replies(run: Run, table: pa.Table, replies: Replies, chosen: Collection[CellKey]) -> _Replies | None:
    """Reads the style vectors of a run's replies, and keeps the replies in the chosen cells."""
    if not run.tables.has(STYLES):
        return None
    styles = run.tables.vectors(STYLES)
    if set(replies.ids) != set(styles.ids):
        return None
    replies = chosen_replies(replies, np.array([cell in chosen for cell in _cells_of(replies)], bool))
    vectors = styles.of(replies.ids).astype(np.float32, copy=False)
    cells: dict[CellKey, list[int]] = grouped((cell, row) for row, cell in enumerate(_cells_of(replies)))
    terms = list(zip(replies.axes, replies.descriptors, strict=True))
    kernels = noun_kernels(vectors, nouns_of(table, replies.ids), replies.templates, terms)
    return _Replies(replies, CellReplies(vectors, np.array(replies.ids), cells), kernels)


def _cells_of(replies: Replies) -> list[CellKey]:
    return list(zip(replies.templates, replies.axes, replies.descriptors, strict=True))


def _shared(before: set[CellKey], after: set[CellKey]) -> set[CellKey]:
    """Returns the cells of both runs, in templates with at least two of them.

    Figures of other cells may differ, even if the runs' models are the same.
    """
    shared = before & after
    numbers = Counter(template for template, _, _ in shared)
    return {cell for cell in shared if numbers[cell[0]] > 1}


def _debiased(run: _Replies, labels: Sequence[str], clusters: Mapping[str, Sequence[str]]) -> GenBias | None:
    """Computes the debiased values. The result is `None` if there are no cells, or if the sampling noise is unknown."""
    replies, cells = run.replies, CellSums(labels, clusters or None)
    if not replies.ids:
        return None
    cells.add(run.by_cell.vectors, replies.descriptors, replies.templates, replies.axes)
    return plain_and_debiased(cells, None)[1]


def _figures(generation: Generation, clusters: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...], str | None, int]]:
    """Yields the name of each figure, its path in the results, its axis, and its place among the metrics."""
    yield "Full Gen Bias, debiased", ("full_gen_bias",), None, 0
    parts = [(heading, metric, cluster) for heading, metric in CLUSTER_METRICS.items() for cluster in clusters]
    for place, (heading, metric, cluster) in enumerate(parts, start=1):
        yield f"{heading}, {cluster}", (metric, cluster), None, place
    for axis in generation.gen_bias.by_axis or {}:
        yield f"Full Gen Bias, {axis_label(axis)}", ("by_axis", axis), axis, 0


def generalise(run: Run, over: Over) -> dict[str, Generalised]:
    table = run.tables.reply_table()
    generation = run.results.generation
    by_name = generalised_means(UPTAKE, naming(table), over) | generalised_means(EMPTY, all_replies(table), over)
    for name, flagged in refusal_flags(run.tables, nonempty_replies(table)).items():
        by_name |= generalised_means(name, flagged, over)
    if generation.debiased is not None:
        replies = run.tables.styled_replies(table)
        vectors = run.tables.vectors_of(STYLES, replies.ids)
        by_name |= _generalised_bias(replies, vectors, over, generation.gen_bias.scale)
    return by_name


def _generalised_bias(replies: Replies, styles: np.ndarray, over: Over, scale: float) -> dict[str, Generalised]:
    cells = CellSums()
    cells.add(styles, replies.descriptors, replies.templates, replies.axes)
    listed = cells.cells()
    moments = cells.moments(listed)
    rows, templates = text_codes("template", [cell.template for cell in listed])
    columns, terms = descriptor_codes([cell.descriptor for cell in listed], [str(cell.axis) for cell in listed])
    shape = len(templates), len(terms)
    means = np.full((*shape, moments.means.shape[1]), np.nan)
    variances, counts = np.full(shape, np.nan), np.zeros(shape)
    means[rows, columns], counts[rows, columns] = moments.means, cells.counts(listed)
    variances[rows, columns] = moments.variances.sum(axis=1)
    axes, names = text_codes("axis", [term.axis for term in terms])
    groups = axis_groups("Full Gen Bias", axes, names, whole="Full Gen Bias, debiased")
    by_name = {}
    for name, members in groups.items():
        used = (counts[:, members] > 0).sum(axis=1) > 1
        if not used.any():
            continue
        # A cell with a single reply shows no variance. Its variance is set to the mean variance of the template's other
        # cells on the same axis or, if these cells show no variance, on all axes.
        own, rest, numbers = variances[used][:, members], variances[used], counts[used][:, members]
        guess = row_means(own)
        guess = np.where(np.isnan(guess), row_means(rest), guess)
        noise = np.where(np.isnan(own), guess[:, None], own) / np.where(numbers > 0, numbers, np.nan)
        influences = gen_bias_influences(means[used][:, members], noise, axes[members])
        interval, reason = generalised(influences, over, CONFIDENCE_LEVEL)
        bounds = None if interval is None else (scale * interval[0], scale * interval[1])
        by_name[name] = Generalised(bounds, reason)
    return by_name
