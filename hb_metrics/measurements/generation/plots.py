from collections.abc import Sequence

from hb_metrics.layout.numbers import axis_label, share
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
from hb_metrics.measurements.generation.terms import Term

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
