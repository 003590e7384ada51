from collections.abc import Sequence
from typing import Any, NamedTuple

from hb_metrics.layout.numbers import axis_label, share, slot
from hb_metrics.layout.plots import (
    Axis,
    Dot,
    Mark,
    Plot,
    Row,
    drawn_mark,
    frame,
    point_path,
    rows_plot,
    shortened,
    spread,
    tick_label,
)
from hb_metrics.measurements.generation.typed_results import Frequency, Generation

MAX_CHARACTERS = 300_000  # of all prompts and replies among which readers choose


class Term(NamedTuple):
    """A term as a point in a plot.

    `value` is the term's mean probability of a style cluster, and `row` is its row in `by_descriptor` of the results.
    `per_million` is the term's frequency, and is set only by `one_word_terms`.
    """

    axis: str
    name: str
    row: int
    num_replies: int
    value: float
    per_million: float = 0.0


def terms_by_cluster(generation: Generation) -> dict[str, list[Term]]:
    rows = generation.by_descriptor
    return {
        cluster: [
            Term(row.axis, row.descriptor, index, row.num_replies, row.clusters[cluster])
            for index, row in enumerate(rows)
        ]
        for cluster in rows[0].clusters
    }


def frequencies(generation: Generation) -> list[Frequency | None]:
    """Returns the known frequency of each term, in the order of `by_descriptor`."""
    known = {(row.axis, row.descriptor): row for row in generation.frequencies}
    return [known.get((row.axis, row.descriptor)) for row in generation.by_descriptor]


def one_word_terms(generation: Generation) -> dict[str, list[Term]]:
    """Returns the one-word terms with a known frequency, by style cluster (as in the paper's Figure 3)."""
    by_cluster: dict[str, list[Term]] = {}
    for cluster, terms in terms_by_cluster(generation).items():
        for term, row in zip(terms, frequencies(generation), strict=True):
            if row is not None and row.one_word:
                by_cluster.setdefault(cluster, []).append(term._replace(per_million=row.per_million))
    return by_cluster


def chooser_content(generation: Generation) -> dict[str, Any]:
    rows = generation.by_descriptor
    index_of = {(row.axis, row.descriptor): index for index, row in enumerate(rows)}
    examples: list[list[Any]] = [[] for _ in rows]
    templates = sorted({one.template for one in generation.examples})
    for one in generation.examples:
        shown = [one.why, one.prompt, one.reply, one.style, one.style_probability, one.parroting]
        shown.append(templates.index(one.template))
        examples[index_of[one.axis, one.descriptor]].append(shown)
    # Each term loses its last example until the page is small enough. The page states the number of examples.
    while sum(len(example[1]) + len(example[2]) for of_term in examples for example in of_term) > MAX_CHARACTERS:
        most = max(map(len, examples))
        examples = [of_term[: most - 1] for of_term in examples]
    return {
        "axes": {axis: axis_label(axis) for axis in dict.fromkeys(row.axis for row in rows)},
        "clusters": list(rows[0].clusters),
        "means": cluster_means(generation),
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


def cluster_means(generation: Generation) -> list[float]:
    rows = generation.by_descriptor
    return [sum(row.clusters[name] for row in rows) / len(rows) for name in rows[0].clusters]


NUM_NAMED = 6
_NEVER = 12  # the percentage of the plot's width that is reserved for terms that never occur
_HEIGHT = 340


def strip_figure(terms: Sequence[Term], cluster: str, overall: float) -> Plot:
    by_axis: dict[str, list[Term]] = {}
    for term in sorted(terms, key=lambda term: term.value):
        by_axis.setdefault(term.axis, []).append(term)
    rows = []
    for axis, of_axis in sorted(by_axis.items(), key=lambda item: -sum(term.value for term in item[1]) / len(item[1])):
        *others, highest = of_axis
        dots = [Dot(term.value, term.row, up) for term, up in zip(others, spread(len(others)), strict=True)]
        rows.append(Row(axis_label(axis), [_named(highest)], dots))
    legend = [("the highest of each axis", 1, False)]
    return rows_plot(rows, f"probability of {cluster}", "share", legend, height=40, line=overall)


def frequency_figure(terms: Sequence[Term], cluster: str) -> Plot:
    """Plots terms by their frequency and their mean probability of a style cluster (the paper's Figures 3 and 5).

    The frequency axis is logarithmic. Terms that never occur are in a separate column on the left.
    """
    highest = max(term.value for term in terms)
    heights = Axis(0.0, 1.05 * highest or 1.0)
    seen = [term.per_million for term in terms if term.per_million > 0] or [1.0]
    often = Axis(min(seen) / 1.5, max(seen) * 1.5, is_log=True)
    never = [term for term in terms if term.per_million == 0]
    places = dict(zip((term.row for term in never), spread(len(never), 0.8), strict=True))
    named = set(sorted(terms, key=lambda term: -term.value)[:NUM_NAMED])
    points, body = [], []
    for term in terms:
        x = _NEVER * (0.5 + places[term.row]) if term in never else _right(often.at(term.per_million))
        y = _HEIGHT * (1 - heights.at(term.value) / 100)
        if term in named:
            body += drawn_mark(x, y, _named(term))
        else:
            points.append((x, y, term.row))
    ticks = [
        (_NEVER / 2, "never seen"),
        *((_right(often.at(tick)), tick_label(tick, "count")) for tick in often.ticks()),
    ]
    labels = [(_HEIGHT * (1 - heights.at(tick) / 100), [tick_label(tick, "share")]) for tick in heights.ticks()]
    title = f"uses in a million examples (log); height: probability of {cluster}"
    return frame(labels, ticks, title, _HEIGHT, [*point_path(points, _HEIGHT), *body], left=14)


def _right(position: float) -> float:
    return _NEVER + 3 + (97 - _NEVER) * position / 100


def _named(term: Term) -> Mark:
    tip = f"{term.name} ({axis_label(term.axis)}): {share(term.value, 2)}, {term.num_replies} replies"
    return Mark(term.value, tip, look=1, text=shortened(term.name), row=term.row)
