"""Shows terms: in the report, in comparisons, and their frequencies."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from hb_dataset.grouped import grouped
from hb_metrics.layout.numbers import axis_label, share, slot
from hb_metrics.layout.parts import Section, ShownPair, Side
from hb_metrics.layout.plots import (
    Dot,
    Mark,
    Plot,
    PlotAxis,
    Row,
    drawn_mark,
    frame,
    point_path,
    rows_plot,
    shortened,
    spread,
    tick_label,
)
from hb_metrics.layout.rendering import section
from hb_metrics.measurements.generation.results import Frequency, Generation
from hb_metrics.measurements.generation.styles import MedianPair, TermStyle
from hb_metrics.measurements.results import Results
from hb_metrics.run.replies import Replies, reply_id, reply_number
from hb_metrics.stats.inputs import DescriptorKey
from hb_metrics.stats.rank_correlation import rank_correlation

MAX_CHARACTERS = 300_000  # of all prompts and replies among which readers choose
NUM_NAMED = 6
_NEVER = 12  # the percentage of the plot's width that is reserved for terms that never occur
_HEIGHT = 340


def terms_section(generation: Generation) -> Section:
    terms = generation.by_descriptor
    strips = [strip_figure(terms, cluster) for cluster in terms[0].clusters]
    context = {
        "terms": list(zip(terms, frequencies(generation), strict=True)),
        "clusters": list(terms[0].clusters),
        "num_examples": sum(map(len, chooser_content(generation)["examples"])),
    }
    return section("terms", "Terms by style", "generation/terms.html.jinja", context, {"terms-plot": strips})


def shown_pair(pair: MedianPair) -> ShownPair:
    sides = []
    for side in pair.sides:
        own, other = (share(mean, 0) for mean in side.style_means)
        note = f"Over all replies, those to this term are more often “{side.style}”: {own}, compared with {other}."
        sides.append(Side(side.descriptor, side.prompt, side.reply, note))
    of_axis = "" if pair.axis is None else f" of the axis {axis_label(pair.axis)}"
    caption = (
        f"Two replies to the same sentence about the two terms{of_axis} whose replies differ most: style tells them "
        f"apart in {share(pair.share, 0)} of their replies, the most of all {'' if pair.axis is None else 'its '}pairs "
        "and therefore partly by chance. Of these replies, a typical pair is shown."
    )
    return ShownPair(caption, tuple(sides))


def frequency_section(results: Results) -> list[Section]:
    """Correlates style with the frequency of one-word terms, as in the paper's Figures 3 and 5."""
    terms, known = results.generation.by_descriptor, frequencies(results.generation)
    per_million = {
        row: frequency.per_million
        for row, frequency in enumerate(known)
        if frequency is not None and frequency.one_word
    }
    rho, plots = {}, []
    for cluster in terms[0].clusters if per_million else ():
        rho[cluster] = rank_correlation([*per_million.values()], [terms[row].clusters[cluster] for row in per_million])
        plots.append(frequency_figure(terms, per_million, cluster))
    context = {
        **vars(results.record.frequencies),
        "rho": rho,
        "num_terms": len(per_million),
        "num_never": list(per_million.values()).count(0),
        "num_several_words": sum(row is not None and not row.one_word for row in known),
        "num_unknown": known.count(None),
    }
    template, drawn = "generation/frequency.html.jinja", {"frequency-plot": plots}
    return [section("frequency", "Style and frequency", template, context, drawn)] if rho else []


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


def strip_figure(terms: Sequence[TermStyle], cluster: str) -> Plot:
    values = [term.clusters[cluster] for term in terms]
    by_axis = grouped((terms[row].axis, row) for row in sorted(range(len(terms)), key=values.__getitem__))
    rows = []
    for axis, of_axis in sorted(by_axis.items(), key=lambda item: -fmean(values[row] for row in item[1])):
        *others, highest = of_axis
        dots = [Dot(values[row], row, up) for row, up in zip(others, spread(len(others)), strict=True)]
        rows.append(Row(axis_label(axis), [_named(terms, highest, values[highest])], dots))
    legend = [("the highest of each axis", 1, False)]
    mean = sum(values) / len(values)
    return rows_plot(rows, f"probability of {cluster}", "share", legend, height=40, line=mean)


def frequency_figure(terms: Sequence[TermStyle], per_million: Mapping[int, float], cluster: str) -> Plot:
    """Plots terms by their frequency and their mean probability of a style cluster (the paper's Figures 3 and 5).

    `per_million` contains the frequencies by the row of the term. The frequency axis is logarithmic. Terms that never
    occur are in a separate column on the left.
    """
    values = {row: terms[row].clusters[cluster] for row in per_million}
    heights = PlotAxis(0.0, 1.05 * max(values.values()) or 1.0)
    seen = [number for number in per_million.values() if number > 0] or [1.0]
    often = PlotAxis(min(seen) / 1.5, max(seen) * 1.5, is_log=True)
    never = [row for row, number in per_million.items() if number == 0]
    places = dict(zip(never, spread(len(never), 0.8), strict=True))
    named = sorted(values, key=lambda row: -values[row])[:NUM_NAMED]
    dots, body = [], []
    for row, value in values.items():
        x = _NEVER * (0.5 + places[row]) if row in places else _right(often.at(per_million[row]))
        y = _HEIGHT * (1 - heights.at(value) / 100)
        if row in named:
            body += drawn_mark(x, y, _named(terms, row, value))
        else:
            dots.append((x, y, row))
    ticks = [
        (_NEVER / 2, "never seen"),
        *((_right(often.at(tick)), tick_label(tick, "count")) for tick in often.ticks()),
    ]
    labels = [(_HEIGHT * (1 - heights.at(tick) / 100), [tick_label(tick, "share")]) for tick in heights.ticks()]
    title = f"uses in a million examples (log); height: probability of {cluster}"
    return frame(labels, ticks, title, _HEIGHT, [*point_path(dots, _HEIGHT), *body], left=14)


def _right(position: float) -> float:
    return _NEVER + 3 + (97 - _NEVER) * position / 100


def _named(terms: Sequence[TermStyle], row: int, value: float) -> Mark:
    term = terms[row]
    tip = f"{term.descriptor} ({axis_label(term.axis)}): {share(value, 2)}, {term.num_replies} replies"
    return Mark(value, tip, look=1, text=shortened(term.descriptor), row=row)


def term_changes(first: Generation, second: Generation, replies: Replies | None) -> dict[str, object]:
    """Returns each term's values and replies in both runs, for the page's script.

    `replies` contains the second run's replies. If it is `None`, no replies are shown. Replies to a prompt are
    paired by their number. If the second run has no reply with this number, its first reply to the prompt is shown.
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
