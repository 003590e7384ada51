"""Counts the words of replies. A word is a piece of text between spaces."""

from collections.abc import Sequence

import numpy as np

from hb_metrics.layout.figure import Figure, by_part, missing_intervals
from hb_metrics.layout.numbers import count
from hb_metrics.layout.parts import Report
from hb_metrics.layout.plots import figures_plot
from hb_metrics.layout.rendering import figures_section
from hb_metrics.measurements.means import Means, mean_figures, reply_means
from hb_metrics.measurements.measurement import FigureChanges
from hb_metrics.measurements.results import Results, Run
from hb_metrics.measurements.shares import BY_GROUP, generalised_means
from hb_metrics.paired_changes.paired_change import OTHER_TERMS_REASON, reply_mean_changes
from hb_metrics.run.replies import UNSAFE_MARK, RatedReplies
from hb_metrics.stats.generalising import Generalised, Over

NAME = "Words per reply"


def compute(run: Run) -> Means:
    return reply_means(num_words(run), run.tables.prompts(), run.confidence_level)


def num_words(run: Run) -> RatedReplies:
    replies = run.tables.replies()
    return RatedReplies(replies, np.array([len(text.replace(UNSAFE_MARK, "").split()) for text in replies.texts]))


def figures(results: Results) -> list[Figure]:
    whole, spread, *rest = mean_figures(NAME, results.length, "The mean number of words of the replies.")
    return [whole, spread._replace(gate="words_spread"), *rest]


def report(results: Results) -> Report:
    listed, cut = figures(results), results.generation.num_truncated_replies
    by_axis = by_part(listed)[f"{NAME} by axis"]
    number = "an unknown number" if cut is None else count(cut)
    sentences = [
        "A word is a piece of text between spaces, so these figures suit languages that write spaces between words. "
        f"Replies are counted as they are: {number} of them were cut at the maximum length, and would have had more "
        "words. Empty replies are left out.",
        "A reply that repeats a long term has more words, so a small difference does not show that people are treated "
        "differently. Read replies to the terms in question.",
        *missing_intervals(listed),
    ]
    return Report(
        [figures_section("length", "Length of replies", sentences, {"Axis": by_axis})],
        answer=answer(listed),
        chart=(figures_plot(by_axis, "words per reply"), "The mean number of words per reply on each axis."),
    )


def answer(listed: Sequence[Figure]) -> str:
    """States the mean, and whether length differs between groups of names or, without such groups, between terms."""
    groups = [figure for figure in listed if figure.part_of == f"{NAME} {BY_GROUP}"]
    whole, differs = listed[0], groups[-1] if groups else listed[1]
    of_what = f"groups of names ({differs.detail})" if groups else "terms"
    first = f"Replies have {whole.words} words on average."
    if differs.interval is None:
        return f"{first} Whether replies to some people are shorter is unknown ({differs.interval_words})."
    if differs.interval[0] > 0:
        size = "difference" if groups else "standard deviation"
        return f"{first} Their length differs between {of_what} beyond chance, with a {size} of {differs.words} words."
    return f"{first} No difference in length between {of_what} was found beyond chance ({differs.interval_words})."


def changes(first: Run, second: Run) -> FigureChanges:
    if first.record.cue != second.record.cue:
        return FigureChanges({}, "the runs describe the user with different cues")
    by_name = reply_mean_changes(NAME, num_words(first), num_words(second), first.confidence_level)
    return FigureChanges({}, OTHER_TERMS_REASON) if by_name is None else FigureChanges(by_name)


def generalise(run: Run, over: Over) -> dict[str, Generalised]:
    return generalised_means(NAME, num_words(run), over, run.confidence_level)
