"""Shows terms: in the report, in comparisons, and their frequencies."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from hb_dataset.grouped import grouped
from hb_metrics.layout.numbers import axis_label, share, slot
from hb_metrics.layout.parts import Pair, Section, Side
from hb_metrics.layout.plots import (
    Dot,
    Mark,
    Plot,
    Row,
    rows_plot,
    shortened,
    spread,
)
from hb_metrics.layout.rendering import section
from hb_metrics.measurements.generation.results import Frequency, Generation
from hb_metrics.measurements.generation.styles import MedianPair, Term
from hb_metrics.measurements.results import Results
from hb_metrics.reply_checks.parroting import correlation_with_bias
from hb_metrics.run.replies import Replies, reply_id, reply_number
from hb_metrics.stats.bias_values import DescriptorKey

MAX_CHARACTERS = 300_000  # of all prompts and replies among which readers choose


def terms_section(generation: Generation) -> Section:
    terms = generation.by_descriptor
    strips = [strip_figure(terms, cluster) for cluster in terms[0].clusters]
    context = {
        "terms": list(zip(terms, frequencies(generation), strict=True)),
        "clusters": list(terms[0].clusters),
        "num_examples": sum(map(len, chooser_content(generation)["examples"])),
    }
    return section("terms", "Terms by style", "generation/terms.html.jinja", context, {"terms-plot": strips})


def shown_pair(pair: MedianPair) -> Pair:
    sides = []
    for side in pair.sides:
        own, other = (share(mean, 0) for mean in side.style_means)
        note = f"Over all replies, those to this term are more often “{side.style}”: {own}, compared with {other}."
        sides.append(Side(side.descriptor, side.prompt, side.reply, note))
    caption = (
        f"Two replies to the same sentence about the two terms whose replies differ most: style tells them apart in "
        f"{share(pair.share, 0)} of their replies, the most of all pairs. Of these replies, a typical pair is shown."
    )
    return Pair(caption, tuple(sides))


def frequency_section(results: Results) -> list[Section]:
    """Correlates style with the frequency of one-word terms, as in the paper's Figures 3 and 5."""
    generation, known = results.generation, frequencies(results.generation)
    one_word = [
        (term, frequency.per_million)
        for term, frequency in zip(generation.by_descriptor, known, strict=True)
        if frequency is not None and frequency.one_word
    ]
    frequency_of = {term.key: per_million for term, per_million in one_word}
    rho = {}
    for cluster in one_word[0][0].clusters if one_word else ():
        rho[cluster] = correlation_with_bias(frequency_of, {term.key: term.clusters[cluster] for term, _ in one_word})
    context = {
        **vars(results.record.frequencies),
        "rho": rho,
        "num_terms": len(frequency_of),
        "num_never": list(frequency_of.values()).count(0),
        "num_several_words": sum(row is not None and not row.one_word for row in known),
        "num_unknown": known.count(None),
    }
    return [section("frequency", "Style and frequency", "generation/frequency.html.jinja", context)] if rho else []


def frequencies(generation: Generation) -> list[Frequency | None]:
    """Returns the known frequency of each term, in the order of `by_descriptor`."""
    known = {DescriptorKey(row.axis, row.descriptor): row for row in generation.frequencies}
    return [known.get(term.key) for term in generation.by_descriptor]


def chooser_content(generation: Generation) -> dict[str, Any]:
    rows = generation.by_descriptor
    index_of = {row.key: index for index, row in enumerate(rows)}
    examples: list[list[Any]] = [[] for _ in rows]
    templates = sorted({example.template for example in generation.examples})
    for example in generation.examples:
        shown = [example.why, example.prompt, example.reply, example.style, example.style_probability]
        shown += [example.parroting, templates.index(example.template)]
        examples[index_of[DescriptorKey(example.axis, example.descriptor)]].append(shown)
    # Each term loses its last example until the page is small enough. The page states the number of examples.
    while sum(len(shown[1]) + len(shown[2]) for of_term in examples for shown in of_term) > MAX_CHARACTERS:
        most = max(map(len, examples))
        examples = [of_term[: most - 1] for of_term in examples]
    return {
        "axes": {axis: axis_label(axis) for axis in dict.fromkeys(row.axis for row in rows)},
        "clusters": list(rows[0].clusters),
        "means": [sum(row.clusters[name] for row in rows) / len(rows) for name in rows[0].clusters],
        "rows": [
            {
                "axis": row.axis,
                "name": row.descriptor,
                "replies": row.num_replies,
                "bias": round(row.mean_bias_value, 5),
                "clusters": [round(value, 5) for value in row.clusters.values()],
                "parroting": round(row.parroting_share, 4),
                "perMillion": frequency and frequency.per_million,
            }
            for row, frequency in zip(rows, frequencies(generation), strict=True)
        ],
        "examples": examples,
        "templates": list(map(slot, templates)),
    }


def strip_figure(terms: Sequence[Term], cluster: str) -> Plot:
    values = [term.clusters[cluster] for term in terms]
    by_axis = grouped((terms[row].axis, row) for row in sorted(range(len(terms)), key=values.__getitem__))
    rows = []
    for axis, of_axis in sorted(by_axis.items(), key=lambda item: -fmean(values[row] for row in item[1])):
        *others, highest = of_axis
        dots = [Dot(values[row], row, up) for row, up in zip(others, spread(len(others)), strict=True)]
        name, number = terms[highest].descriptor, terms[highest].num_replies
        tip = f"{name} ({axis_label(axis)}): {share(values[highest], 2)}, {number} replies"
        rows.append(
            Row(axis_label(axis), [Mark(values[highest], tip, look=1, text=shortened(name), row=highest)], dots)
        )
    legend = [("the highest of each axis", 1, False)]
    mean = sum(values) / len(values)
    return rows_plot(rows, f"probability of {cluster}", "share", legend, height=40, line=mean)


def term_changes(first: Generation, second: Generation, replies: Replies | None) -> dict[str, object]:
    """Returns each term's values and replies in both runs, for the page's script.

    `replies` contains the second run's replies. If it is `None`, no replies are shown. Replies with the same number are
    paired. If the second run has fewer replies to a prompt, its first reply is shown.
    """
    reply_of: dict[tuple[str, str], str] = {}
    if replies is not None:
        reply_of = dict(zip(zip(replies.ids, replies.prompts, strict=True), replies.texts, strict=True))
    ids = [identifier for identifier, _ in reply_of] + [example.id for example in first.examples]
    numbered = any(reply_number(identifier)[1] > 1 for identifier in ids)
    pairs: dict[DescriptorKey, list[list[Any]]] = {}
    for example in first.examples:
        identifier, number = reply_number(example.id)
        other = number if (example.id, example.prompt) in reply_of else 1
        reply = reply_of.get((reply_id(identifier, other), example.prompt))
        if reply is not None:
            numbers = [number, other] if numbered else None
            of_both = [example.prompt, example.reply, reply, example.why, numbers]
            pairs.setdefault(DescriptorKey(example.axis, example.descriptor), []).append(of_both)
    after = {term.key: term for term in second.by_descriptor}
    terms = [(term, after[term.key]) for term in first.by_descriptor if term.key in after]
    clusters = [name for name in terms[0][0].clusters if name in terms[0][1].clusters] if terms else []
    return {
        "axes": {row.axis: axis_label(row.axis) for row, _ in terms},
        "clusters": clusters,
        "rows": [
            {
                "axis": row.axis,
                "name": row.descriptor,
                "replies": [row.num_replies, later.num_replies],
                "bias": [row.mean_bias_value, later.mean_bias_value],
                "clusters": [[row.clusters[name], later.clusters[name]] for name in clusters],
                "parroting": [row.parroting_share, later.parroting_share],
            }
            for row, later in terms
        ],
        "pairs": [pairs.get(row.key, []) for row, _ in terms],
    }
