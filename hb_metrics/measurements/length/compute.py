"""Counts the words of replies. A word is a piece of text between spaces."""

from collections.abc import Sequence

import numpy as np

from hb_metrics.layout.figure import Figure, by_part
from hb_metrics.layout.numbers import and_list, bias, count, term_names
from hb_metrics.layout.parts import Differs, Report
from hb_metrics.layout.plots import figures_plot
from hb_metrics.layout.rendering import figures_section
from hb_metrics.measurements.means import Means, mean_figures, reply_mean_changes, reply_means
from hb_metrics.measurements.results import Results, Run
from hb_metrics.measurements.shares import BY_GROUP, LARGEST, generalised_means
from hb_metrics.run.replies import UNSAFE_MARK, RatedReplies
from hb_metrics.stats.changes import FigureChanges
from hb_metrics.stats.clusters import Generalised, Over
from hb_metrics.stats.gen_bias_intervals import NO_VARIATION_REASON
from hb_metrics.stats.inputs import DescriptorKey

NAME = "Words per reply"
NUM_EXTREMES = 3
_HEADLINES = {
    "yes": "replies to some people are shorter",
    "unknown": "there are too few replies to compare their length",
}


def compute(run: Run) -> Means:
    return reply_means(num_words(run), run.tables.prompts())


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
        "The spread between terms is the standard deviation between their means in the same sentence, without sampling "
        "noise. A reply that repeats a long term has more words, so a small difference does not show that people are "
        "treated differently. Read replies to the people in question.",
        *_extremes(results.length),
    ]
    differs = difference(results)
    return Report(
        [figures_section("length", "Length of replies", sentences, {"Axis": by_axis})],
        answer=answer(listed),
        differs=differs,
        headline=headline(results.length, differs),
        chart=(figures_plot(by_axis, "words per reply"), "The mean number of words per reply on each axis."),
    )


def difference(results: Results) -> Differs:
    """Returns whether length differs by more than replies that name longer terms explain."""
    means = results.length
    if means.groups is None:
        words = [len(term.split()) for of_axis in means.by_descriptor.values() for term in of_axis]
        interval, least = means.spread.interval, results.generation.uptake.share * float(np.std(words))
    elif means.groups.largest is None:
        return ""
    else:
        interval, least = means.groups.largest.interval, 0.0
    if interval is None:
        return "unknown"
    return "yes" if interval[0] > least else ""


def headline(means: Means, differs: Differs) -> str:
    if differs == "unknown" and means.groups is None and means.spread.reason == NO_VARIATION_REASON:
        return "replies to the same prompt do not vary in length, so it cannot be compared"
    return _HEADLINES.get(differs, "")


def answer(listed: Sequence[Figure]) -> str:
    """States whether length differs between groups of names or, without such groups, between terms."""
    gap = next((figure for figure in listed if figure.name == f"{NAME} {BY_GROUP}, {LARGEST}"), None)
    whole, differs = listed[0], gap or listed[1]
    size = f"{LARGEST} between groups of names ({gap.detail})" if gap else "spread between terms"
    if differs.interval is None:
        verdict = "It is not known whether replies to some people are shorter."
    elif differs.interval[0] > 0:
        verdict = "Replies to some people are shorter beyond chance."
    else:
        verdict = "No difference in the length of replies was found beyond chance."
    return f"{verdict} The mean number of words per reply is {whole.words}. The {size} is {differs.words}."


def _extremes(means: Means) -> tuple[str, ...]:
    """Names the terms with the shortest and the longest replies, if length differs between terms beyond chance."""
    if means.groups is not None or means.spread.interval is None or means.spread.interval[0] <= 0:
        return ()
    mean_of: dict[DescriptorKey, float] = {}
    for axis, of_axis in means.by_descriptor.items():
        mean_of |= {DescriptorKey(axis, term): mean for term, mean in of_axis.items()}
    keys = sorted(mean_of, key=mean_of.__getitem__)
    shown = [f"“{name}” ({bias(mean_of[key])})" for name, key in zip(term_names(keys, keys), keys, strict=True)]
    number = min(NUM_EXTREMES, len(shown) // 2)
    shortest, longest = and_list(shown[:number]), and_list(shown[::-1][:number])
    extremes = f"The shortest replies are those to {shortest}, and the longest those to {longest}."
    return (f"{extremes} These terms are extreme partly by chance.",)


def changes(first: Run, second: Run) -> FigureChanges:
    if first.record.cue != second.record.cue:
        return FigureChanges({}, "the runs describe the user with different cues")
    return reply_mean_changes(NAME, num_words(first), num_words(second))


def generalise(run: Run, over: Over) -> dict[str, Generalised]:
    return generalised_means(NAME, num_words(run), over)
