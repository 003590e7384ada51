"""Measures whether two cues change the style of replies in the same direction.

A cell is a term, a template and a question. Under cue a, term d has a mean style vector over its cells. Let u_da be the
true value of this vector minus its mean over the D terms. The product P_ab is Σ_d ⟨u_da, u_db⟩ / (D − 1), and

    agreement of directions = P_ab / √(P_aa P_bb).

The agreement is a correlation between −1 (opposite directions) and 1 (the same direction). Sampling noise increases the
observed P_aa. It also increases the observed P_ab, because the replies to the same prompt under two cues share the noun
and may share random numbers. A product of two observed means is therefore reduced by their estimated covariance.

`term_agreement.py` derives the interval. A cue with names is compared with a cue that states the group: groups then
take the place of terms, names are the clusters, and P_aa uses only products of different names.

Runs that differ only in the cue are compared by term and template. Questions are ignored, because prompts without a cue
have no question. If one run uses names and the other uses terms, each group of names is compared with the term for that
group.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd

from hb_dataset.prompt_columns import NAMES_AXIS
from hb_dataset.slots import NAME_CUES
from hb_dataset.vocabulary_entries import AFTER_THE_NOUN
from hb_metrics.layout.figure import estimated
from hb_metrics.layout.parts import Section
from hb_metrics.layout.rendering import section
from hb_metrics.measurements.generation.name_groups import (
    MIN_NAMES,
    group_deviations,
    group_influences,
    group_variances,
)
from hb_metrics.measurements.results import Run
from hb_metrics.measurements.term_agreement import agreement, ratio_agreement
from hb_metrics.run.record import Record
from hb_metrics.run.run_folder import REPLIES, STYLES
from hb_metrics.run.tables import has_pairs_of_terms
from hb_metrics.stats.clusters import Estimate

NO_EFFECT_REASON = "under one of the cues, replies do not differ by more than chance, so they have no direction"


class CueReplies(NamedTuple):
    """The replies to the terms that both cues share: the ids of their prompts, and their style vectors.

    `terms` contains the codes of terms, which are the same under both cues. `cells` contains the codes of templates
    and questions. Each term has at least two replies in each cell.
    """

    ids: np.ndarray
    styles: np.ndarray
    terms: np.ndarray
    cells: np.ndarray


class _Means(NamedTuple):
    """The mean style vectors of terms [terms, styles], over `number` cells per term.

    For each reply, `residuals` is its style vector minus the mean of replies with the same code of term and cell.
    """

    replies: CueReplies
    means: np.ndarray
    residuals: np.ndarray
    codes: np.ndarray
    sizes: np.ndarray
    number: int


def cue_agreement(one: CueReplies, other: CueReplies, axes: np.ndarray, buckets: np.ndarray) -> Estimate:
    """Compares two cues. `axes` [terms] contains each term's axis, and `buckets` [terms] its cluster on this axis."""
    few = f"{len(axes)} terms with two replies to each shared template and question under both cues"
    if len(axes) < 2:
        return agreement(np.zeros((3, len(axes))), axes, buckets, few=few, no_effect=NO_EFFECT_REASON)
    number, sides = len(axes), [_means(cue, len(axes)) for cue in (one, other)]
    apart = [side.means - side.means.mean(axis=0) for side in sides]
    products = []  # of each term; their means over terms are P_aa, P_bb and P_ab
    for a, b in ((0, 0), (1, 1), (0, 1)):
        along = np.einsum("ds,ds->d", apart[a], apart[b]) * number / (number - 1)
        products.append(along - _shared(sides[a], sides[b], number))
    return agreement(np.stack(products), axes, buckets, few=few, no_effect=NO_EFFECT_REASON)


def group_agreement(names: CueReplies, groups: Sequence[str], statements: CueReplies) -> Estimate:
    """Compares names, which need one reply per cell, with statements of their `groups`, in alphabetical order."""
    kinds, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    number = len(kinds)
    if number < 2:
        return Estimate(None, None, "fewer than two groups of names are also terms")
    if sizes.min() < MIN_NAMES:
        return Estimate(None, None, f"each group needs at least {MIN_NAMES} names with replies")
    if len(names.ids) == 0 or len(statements.ids) == 0:
        return Estimate(None, None, "no template and question has replies to each name, and two replies to each group")
    members = np.eye(number)[codes]
    called, statement = _means(names, len(groups)).means, _means(statements, number)
    between, _ = group_variances(called @ called.T, members)
    named, stated = group_deviations(called, members), statement.means - statement.means.mean(axis=0)
    noise = (number - 1) / number**2 * float(_shared(statement, statement, number).sum())
    own = float((stated**2).sum()) / number - noise
    if min(between, own) <= 0:
        return Estimate(None, None, NO_EFFECT_REASON)
    size = math.sqrt(between * own)
    of_names = [group_influences(called, members, side) for side in (named * size / between, stated)]
    along = np.einsum("grs,rs->gr", np.stack([stated * size / own, named])[:, statements.terms], statement.residuals)
    along /= number * statement.number * statement.sizes
    samples = (np.stack(of_names) / 2, codes, None), (along, statement.codes, None)
    return ratio_agreement(size, float((named * stated).sum()) / number, *samples)


def _means(cue: CueReplies, number: int) -> _Means:
    num_cells = int(cue.cells.max()) + 1
    codes = cue.terms * num_cells + cue.cells
    counts = np.bincount(codes, minlength=number * num_cells)
    means = np.zeros((number * num_cells, cue.styles.shape[1]))
    np.add.at(means, codes, cue.styles)
    means /= counts[:, None]
    by_term = means.reshape(number, num_cells, -1).mean(axis=1)
    return _Means(cue, by_term, cue.styles - means[codes], codes, counts[codes], num_cells)


def _shared(one: _Means, other: _Means, number: int) -> np.ndarray:
    """Computes, for each term, the trace of the covariance of its observed means under two cues: [terms].

    If two cells have N and M replies, of which n belong to the same prompts, the expected product of two residuals is
    (1 − 1/N − 1/M + n/NM) times the covariance.
    """
    _, rows, others = np.intersect1d(one.replies.ids, other.replies.ids, assume_unique=True, return_indices=True)
    cells = one.codes[rows] * (int(other.codes.max()) + 1) + other.codes[others]
    _, inverse, counts = np.unique(cells, return_inverse=True, return_counts=True)
    products = np.einsum("ij,ij->i", one.residuals[rows], other.residuals[others])
    products /= (one.sizes[rows] - 1) * (other.sizes[others] - 1) + counts[inverse] - 1
    return np.bincount(one.replies.terms[rows], products, number) / (one.number * other.number)


# These settings depend on the cue, so they may differ.
_OF_CUE = {
    *("cue", "questions", "left_out_templates", "num_prompts", "prompts_digest", "personas_digest"),
    *("context_reason", "num_copied_replies", "num_left_out_prompts"),
}
# These may also differ between a run with names, which has no other measurements, and a run with terms.
_PEOPLE = {"axes", "dataset_config", "measurements", "names_file", "replies_per_cell", "sample"}
_PEOPLE |= {"terms", "vocabulary_dir"}


def cue_sections(runs: Sequence[Run]) -> list[Section]:
    figures = []
    for one, other in combinations(sorted(runs, key=lambda run: run.record.cue not in NAME_CUES), 2):
        frames = [cue_frame(run) for run in (one, other)] if differ_in_cue_alone(one.record, other.record) else [None]
        if any(frame is None for frame in frames):
            continue
        if (one.record.cue in NAME_CUES) == (other.record.cue in NAME_CUES):
            terms, detail = matched_terms(*frames)
            agreement = cue_agreement(*terms)
        else:
            people, detail = matched_groups(*frames)
            agreement = group_agreement(*people)
        name = f"Agreement of directions, {one.record.cue} and {other.record.cue}"
        figure = estimated(name, agreement, "effect", detail=detail)
        figures.append(figure._replace(part_of="Agreement of directions by pair of cues"))
    return [section("overview-cues", "Cues", "generation/cues.html.jinja", {"figures": figures})] if figures else []


def differ_in_cue_alone(one: Record, other: Record) -> bool:
    """Returns whether two runs differ only in the cue.

    A run with names and a run with terms may also differ in the people in their prompts.
    """
    cues, asked = (one.cue, other.cue), (one.generation.questions, other.generation.questions)
    if cues[0] == cues[1] or (None not in asked and asked[0] != asked[1]):
        return False
    is_mixed = (cues[0] in NAME_CUES) != (cues[1] in NAME_CUES)
    compared = one.content.keys() & other.content.keys() - {"layout", "versions", "left_out", *["data"] * is_mixed}
    ignored = _OF_CUE | (_PEOPLE if is_mixed else set())
    rest = [{name: record.content[name] for name in compared} for record in (one, other)]
    for record in rest:
        for name in ("settings", "generation"):
            record[name] = {key: value for key, value in record[name].items() if key not in ignored}
    return rest[0] == rest[1]


def matched_terms(
    one: pd.DataFrame, other: pd.DataFrame
) -> tuple[tuple[CueReplies, CueReplies, np.ndarray, np.ndarray], str]:
    """Selects the terms that have two replies to each shared template and question in both runs.

    Returns the arguments of `cue_agreement`, and what is compared. A name's axis is its group.
    """
    templates = set(one["template"]) & set(other["template"])
    frames = [frame[frame["template"].isin(templates)] for frame in (one, other)]
    every = frames[0].drop_duplicates(["axis", "term"]).set_index(["axis", "term"])
    counts = [frame.groupby(["axis", "term", "cell"]).size().unstack(fill_value=0).min(axis=1) for frame in frames]
    kept = sorted(set.intersection(*(set(number.index[number > 1]) for number in counts)))
    axes, buckets = [], []
    for (axis, term), bucket in zip(kept, every["bucket"].loc[kept], strict=True):
        axes.append(bucket if axis == NAMES_AXIS else axis)
        # Terms after the noun share a bucket because of their position, and not because they are similar.
        is_alone = axis == NAMES_AXIS or pd.isna(bucket) or bucket == AFTER_THE_NOUN
        buckets.append(f"{axis}\n{None if is_alone else bucket}\n{term if is_alone else None}")
    detail = f"terms: {len(kept)} of {len(every)}, templates: {len(templates)}"
    replies = [_cue_replies(frame, kept) for frame in frames]
    return (replies[0], replies[1], np.array(axes), np.array(buckets)), detail


def matched_groups(
    names: pd.DataFrame, statements: pd.DataFrame
) -> tuple[tuple[CueReplies, list[str], CueReplies], str]:
    """Selects the names of groups that are also terms, whose case is ignored, and the statements of these groups.

    A cell is omitted if a name has no reply in it, or if a group has fewer than two replies. Returns the arguments of
    `group_agreement`, and what is compared.
    """
    names = names.assign(group=names["bucket"].str.lower())
    statements = statements.assign(axis=NAMES_AXIS, term=statements["term"].str.lower())
    shared = set(names["group"]) & set(statements["term"])
    cues, num_left_out, names = [], 0, names[names["group"].isin(shared)]
    for frame, least in ((names, 1), (statements[statements["term"].isin(shared)], 2)):
        fewest = frame.groupby(["cell", "term"]).size().unstack(fill_value=0).min(axis=1)
        kept = frame[frame["cell"].isin(fewest.index[fewest >= least])]
        cues.append(_cue_replies(kept, sorted(set(zip(kept["axis"], kept["term"], strict=True)))))
        num_left_out += int((fewest < least).sum())
    groups: list[str] = names.drop_duplicates("term").sort_values("term")["group"].tolist()
    detail = ", ".join(f"{group} {groups.count(group)}" for group in sorted(set(groups)))
    left_out = f"; {num_left_out} combinations of template and question left out, because replies are missing"
    return (cues[0], groups, cues[1]), detail + (left_out if num_left_out else "")


def cue_frame(run: Run) -> pd.DataFrame | None:
    """Reads the non-empty replies and their style vectors. The cell of a reply is its template and question."""
    if not run.tables.has(REPLIES) or not run.tables.has(STYLES):
        return None
    table = run.tables.reply_table()
    if has_pairs_of_terms(table):
        return None  # pairs of terms with a term in common are not independent
    replies, vectors = run.tables.styled_replies(table), run.tables.vectors(STYLES)
    columns = table.select(["id", "template", "axis", "descriptor", "bucket"]).rename_columns({"descriptor": "term"})
    styles = list(vectors.of(replies.ids).astype(float))
    frame = columns.to_pandas().set_index("id").loc[replies.ids]
    return frame.assign(cell=replies.templates, style=styles).reset_index()


def _cue_replies(frame: pd.DataFrame, terms: Sequence[tuple[str, str]]) -> CueReplies:
    code_of = {term: code for code, term in enumerate(terms)}
    codes = np.array([code_of.get(term, -1) for term in zip(frame["axis"], frame["term"], strict=True)], int)
    frame = frame.assign(code=codes)[codes >= 0].sort_values(["code", "cell"], kind="stable")
    cells = np.unique(frame["cell"].to_numpy(str), return_inverse=True)[1]
    return CueReplies(frame["id"].to_numpy(str), np.array(frame["style"].tolist()), frame["code"].to_numpy(), cells)
