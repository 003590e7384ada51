"""Compares pairs of runs that differ only in the cue, to show whether both cues affect replies in the same way.

Runs are compared by term and template. Questions are ignored, because prompts without a cue have no question. If one
run uses names and the other uses terms, each group of names is compared with the term for that group.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from hb_dataset.names import NAME_CUES, NAMES_AXIS
from hb_dataset.vocabulary_entries import AFTER_THE_NOUN
from hb_metrics.layout.figure import Figure, missing_intervals
from hb_metrics.layout.parts import Section
from hb_metrics.layout.rendering import section
from hb_metrics.measurements.generation.cue_agreement import CueReplies, cue_agreement, group_agreement
from hb_metrics.measurements.results import Run
from hb_metrics.run.finished_run import has_pairs_of_terms, read_reply_table, read_vectors
from hb_metrics.run.record import Record
from hb_metrics.run.replies import nonempty_replies
from hb_metrics.run.run_folder import STYLES

# These settings depend on the cue, so they may differ.
_OF_CUE = {
    *("cue", "cue_questions", "questions", "left_out_templates", "num_prompts", "prompts_digest", "personas_digest"),
    *("context_reason", "num_copied_replies", "num_left_out_prompts"),
}
# These may also differ between a run with names, which has no other measurements, and a run with terms.
_PEOPLE = {"axes", "dataset_config", "measurements", "names_file", "replies_per_cell", "sample"}
_PEOPLE |= {"terms", "vocabulary_dir"}


def cue_sections(runs: Sequence[Run]) -> list[Section]:
    figures = []
    for one, other in combinations(sorted(runs, key=lambda run: run.record.cue not in NAME_CUES), 2):
        if not differ_in_cue_alone(one.record, other.record):
            continue
        frames = [frame for frame in map(cue_frame, (one, other)) if frame is not None]
        if len(frames) < 2:
            continue
        level, cues = one.confidence_level, (one.record.cue, other.record.cue)
        if (cues[0] in NAME_CUES) == (cues[1] in NAME_CUES):
            terms, detail = matched_terms(*frames)
            agreement = cue_agreement(*terms, level)
        else:
            people, detail = matched_groups(*frames)
            agreement = group_agreement(*people, level)
        figure = Figure(f"Agreement of directions, {' and '.join(cues)}", agreement.value, "effect", detail=detail)
        shown = figure._replace(interval=agreement.interval, no_interval=agreement.reason, confidence_level=level)
        figures.append(shown._replace(part_of="Agreement of directions by pair of cues"))
    context = {"figures": figures, "missing": missing_intervals(figures)}
    return [section("overview-cues", "Cues", "generation/cues.html.jinja", context)] if figures else []


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
    table = read_reply_table(run.folder)
    if table is None or has_pairs_of_terms(table) or not any((run.folder / STYLES).glob("*.parquet")):
        return None  # pairs of terms with a term in common are not independent
    replies, vectors = nonempty_replies(table), read_vectors(run.folder / STYLES)
    columns = table.select(["id", "template", "axis", "descriptor", "bucket"]).rename_columns({"descriptor": "term"})
    row_of = {identifier: row for row, identifier in enumerate(vectors.ids)}
    styles = list(vectors.values[[row_of[identifier] for identifier in replies.ids]].astype(float))
    frame = columns.to_pandas().set_index("id").loc[replies.ids]
    return frame.assign(cell=replies.templates, style=styles).reset_index()


def _cue_replies(frame: pd.DataFrame, terms: Sequence[tuple[str, str]]) -> CueReplies:
    code_of = {term: code for code, term in enumerate(terms)}
    codes = np.array([code_of.get(term, -1) for term in zip(frame["axis"], frame["term"], strict=True)], int)
    frame = frame.assign(code=codes)[codes >= 0].sort_values(["code", "cell"], kind="stable")
    cells = np.unique(frame["cell"].to_numpy(str), return_inverse=True)[1]
    return CueReplies(frame["id"].to_numpy(str), np.array(frame["style"].tolist()), frame["code"].to_numpy(), cells)
