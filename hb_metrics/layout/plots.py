"""Draws charts as SVG, in Okabe and Ito's colours, which colour-blind readers can distinguish.

Horizontal positions are percentages, so a chart fits any screen while its text keeps its size. The page's style sheet
replaces the colours in dark mode. A chart is also a valid SVG file.
"""

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from hb_metrics.layout.figure import PLAIN, Bounds, Figure, FigureUnit

Plot = Markup
LEFT = 29  # the width of the column of row labels, in percent
LABELLED_WIDTH = 18  # the maximum number of characters in a label beside a point
_LONG_WORD = re.compile(r"([\u2e80-\uffef]{7}|\S{18})(?=\S)")  # the page's edge would cut it
_LABEL_WIDTH = 13  # the maximum number of characters in a line of a row's label, which must fit on a phone's screen
_LINE, _ROW = 16, 30  # heights in pixels
_TICKS = 5
_GOLDEN = 0.6180339887498949
# Together, the colours (of Okabe and Ito) and the shapes distinguish 30 runs.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#6b7280")
_SHAPES = (
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0",
    "M-6 0L0-6 6 0 0 6z",
    "M-5-5H5V5H-5z",
    "M-6 5L0-6 6 5z",
    "M-5-2L-2-5 0-2 2-5 5-2 2 0 5 2 2 5 0 2-2 5-5 2-2 0z",
    "M0-7L2-2 7-2 3 1 5 7 0 3-5 7-3 1-7-2-2-2z",
)
_GREY_DIAMOND = 19  # the index of this combination
_SHARES = ("share", "small_share", "points")


class Mark(NamedTuple):
    """A value in a row of a chart.

    Attributes:
        look: The index of the colour and the shape.
        is_open: Whether the shape is not filled, as for values beside the main one.
        is_soft: Whether the mark is grey because the value could be 0.
        up: The distance from the middle of the row, in pixels.
        text: The label beside the mark.
        row: The index of the mark's name among the chart's names, if readers can choose it.
    """

    value: float
    tip: str
    interval: Bounds | None = None
    look: int = 0
    is_open: bool = False
    is_soft: bool = False
    up: float = 0.0
    text: str = ""
    row: int | None = None


class Dot(NamedTuple):
    """One of many small points. `row` is the index of its name in the chart, and `up` is in rows."""

    value: float
    row: int
    up: float = 0.0


class Row(NamedTuple):
    """`box` contains five quantiles, or nothing."""

    label: str
    marks: Sequence[Mark] = ()
    dots: Sequence[Dot] = ()
    box: Sequence[float] = ()


class PlotAxis(NamedTuple):
    low: float
    high: float
    is_log: bool = False

    def at(self, value: float) -> float:
        """Returns the position of a value, in percent."""
        if self.is_log:
            return 100 * math.log(value / self.low) / math.log(self.high / self.low)
        return 100 * (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Returns two or more ticks: if the axis is logarithmic, powers of ten, or finer ticks on a short axis."""
        if self.is_log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for factors in ((1,), (1, 2, 5)):
                ticks = [times * 10.0**power for power in powers for times in factors]
                ticks = [tick for tick in ticks if self.low <= tick <= self.high]
                if len(ticks) > 1:
                    return ticks
        size = 10.0 ** math.floor(math.log10((self.high - self.low) / _TICKS))
        step = next(times * size for times in (1, 2, 5, 10) if (self.high - self.low) / (times * size) <= _TICKS)
        return [number * step for number in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]


def shortened(name: str, width: int = LABELLED_WIDTH) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"


def spread(count: int, width: float = 0.62) -> list[float]:
    """Returns `count` offsets from −width/2 to width/2, which keep neighbouring points apart. They are not random."""
    return [((index * _GOLDEN + 0.5) % 1 - 0.5) * width for index in range(count)]


def figures_plot(
    figures: Sequence[Figure],
    title: str,
    beside: Sequence[str] = (),
    *,
    is_sorted: bool = True,
) -> Plot:
    """Draws figures as dots with intervals. Each figure has a row, and the highest value is on top.

    A figure that could be 0 is grey: its interval contains 0 or is missing. The numbers `beside` the figures are open
    marks.
    """
    rows = sorted(figures, key=lambda figure: math.inf if figure.known is None else -figure.known)
    looks = {name: (_GREY_DIAMOND, 1)[number % 2] for number, name in enumerate(beside)}
    drawn = []
    for row in rows if is_sorted else figures:
        marks = []
        for name, look in looks.items():
            other = row.beside.get(name)
            if other is not None and other.value is not None:
                marks.append(Mark(other.value, f"{row.label}, {name}: {other.shown}", look=look, is_open=True))
        if row.value is not None:
            is_soft = bool(row.no_interval) if row.interval is None else row.interval[0] <= 0 <= row.interval[1]
            marks.append(Mark(row.value, f"{row.label}: {row.words}", row.interval, is_soft=is_soft))
        drawn.append(Row(row.label, marks))
    legend = [(name if name != PLAIN else "plain, with sampling noise", look, True) for name, look in looks.items()]
    if legend:
        legend.insert(0, ("debiased" if PLAIN in beside else "this run", 0, False))
    return rows_plot(drawn, title, rows[0].unit, legend)


def runs_plot(runs: Mapping[str, Sequence[Figure]], title: str) -> Plot:
    labels = dict.fromkeys(figure.label for figures in runs.values() for figure in figures)
    marks: dict[str, list[Mark]] = {label: [] for label in labels}
    step = 11
    for look, (name, figures) in enumerate(runs.items()):
        for part in figures:
            if part.value is not None:
                up = step * ((len(runs) - 1) / 2 - look)
                tip = f"{part.label}, {name}: {part.words}"
                marks[part.label].append(Mark(part.value, tip, part.interval, look=look, up=up))
    unit = next(figure.unit for figures in runs.values() for figure in figures)
    rows = [Row(label, of_label) for label, of_label in marks.items()]
    legend = [(name, look, False) for look, name in enumerate(runs)]
    return rows_plot(rows, title, unit, legend, height=18 + 12 * len(runs))


def rows_plot(
    rows: Sequence[Row],
    title: str,
    unit: FigureUnit,
    legend: Sequence[tuple[str, int, bool]] = (),
    *,
    height: int = _ROW,
    is_log: bool = False,
    line: float | None = None,
    band: Bounds | None = None,
) -> Plot:
    """Draws rows over a common axis. `legend` contains names, looks, and whether marks are open. `line` is dotted.

    `band` is shaded.
    """
    values = [value for row in rows for value in _values(row)] + list(band or ())
    axis = _axis(values, is_log)
    body, labels, dots, top = [], [], [], 0.0
    for row in rows:
        wrapped = textwrap.wrap(_LONG_WORD.sub(r"\1 ", row.label), _LABEL_WIDTH, break_long_words=False) or [""]
        size = max(height, _LINE * len(wrapped) + 6)
        middle = top + size / 2
        labels.append((middle, wrapped))
        body += _box(axis, row.box, middle) if row.box else []
        dots += [(axis.at(dot.value), middle - size * dot.up, dot.row) for dot in row.dots]
        for mark in row.marks:
            y, colour = middle - mark.up, 4 if mark.is_soft else mark.look % len(_COLOURS)
            if mark.interval is not None:
                low, high = map(axis.at, mark.interval)
                body.append(_line(f"o{colour}", _COLOURS[colour], (low, high), (y, y), stroke_width=2))
            body += drawn_mark(axis.at(mark.value), y, mark, text_at=-9 if row.box else 4)  # a box has whiskers
        top += size
    if band is not None:
        low, high = axis.at(band[0]), axis.at(band[1])
        shade = {"class_": "c4", "fill": _COLOURS[4], "fill_opacity": 0.15}
        body.insert(0, _tag("rect", x=_percent(low), y=0, width=_percent(high - low), height=top, **shade))
    if line is not None:
        body.insert(0, _line("line", _COLOURS[4], (axis.at(line), axis.at(line)), (0, top), stroke_dasharray="2 3"))
    ticks = [(axis.at(tick), tick_label(tick, unit)) for tick in axis.ticks()]
    return frame(labels, ticks, title, top, [*point_path(dots, top), *body], legend)


def frame(
    labels: Sequence[tuple[float, Sequence[str]]],
    ticks: Sequence[tuple[float, str]],
    title: str,
    height: float,
    body: Sequence[str],
    legend: Sequence[tuple[str, int, bool]] = (),
    left: int = LEFT,
) -> Plot:
    """Draws a chart's labels (their heights and lines), ticks (in percent), title and legend around its body."""
    top, width, parts = 8 + 20 * len(legend), 96 - left, []
    for number, (name, look, is_open) in enumerate(legend):
        entry = _shape(look, is_open) + _tag("text", escape(shortened(name, 60)), x=14, y=4)
        parts.append(_tag("svg", entry, x=8, y=12 + 20 * number, overflow="visible"))
    for middle, lines in labels:
        first, spans = top + middle + 4.5 - _LINE * (len(lines) - 1) / 2, ""
        for number, text in enumerate(lines):
            spans += _tag("tspan", escape(text), x=f"{left - 1.5}%", y=first + _LINE * number)
        parts.append(_tag("text", spans, text_anchor="end"))
    area = []
    for position, text in ticks:
        name, colour = ("zero", _COLOURS[4]) if text in ("0", "0%") else ("grid", "#e5e7eb")
        area.append(_line(name, colour, (position, position), (0, height)))
        area.append(_tag("text", escape(text), x=_percent(position), y=height + 16, text_anchor="middle"))
    area += body
    parts.append(_tag("svg", "".join(area), x=f"{left}%", y=top, width=f"{width}%", height=height, overflow="visible"))
    parts.append(_tag("text", escape(title), x=f"{left + width / 2}%", y=top + height + 38, text_anchor="middle"))
    font = {"font_family": "system-ui, sans-serif", "font_size": 13, "fill": "#1f2937"}
    size = {"xmlns": "http://www.w3.org/2000/svg", "width": "100%", "height": top + height + 46}
    return Markup(_tag("svg", "".join(parts), class_="chart", **size, **font))


def point_path(points: Sequence[tuple[float, float, int]], height: float) -> list[str]:
    """Draws many points as one path. `points` contains positions in percent and in pixels, and indices of names."""
    if not points:
        return []
    path = _tag(
        "path",
        class_="dots",
        data_rows=" ".join(str(index) for *_, index in points),
        d="".join(f"M{10 * x:.0f} {y:.0f}h0" for x, y, _ in points),
        stroke=_COLOURS[0],
        stroke_opacity=0.55,
        stroke_width=7,
        stroke_linecap="round",
        vector_effect="non-scaling-stroke",
    )
    size = {
        "width": "100%",
        "height": height,
        "viewBox": f"0 0 1000 {height:g}",
        "preserveAspectRatio": "none",
    }
    return [_tag("svg", path, **size, overflow="visible")]


def tick_label(value: float, unit: FigureUnit) -> str:
    text = f"{100 * value:g}" if unit in _SHARES else f"{value:,.10g}"
    return f"{text}%".replace("-", "−") if unit in _SHARES[:2] else text.replace("-", "−")


def _axis(values: Sequence[float], is_log: bool) -> PlotAxis:
    low, high = min(values, default=0.0), max(values, default=1.0)
    if is_log:
        return PlotAxis(low / 1.2, high * 1.2, is_log=True)
    low, high = min(low, 0.0), max(high, 0.0)
    margin = 0.04 * (high - low)
    return PlotAxis(low - margin if low < 0 else 0.0, high + margin if high > 0 else 0.0 if low < 0 else 1.0)


def _values(row: Row) -> list[float]:
    values = [*row.box, *(dot.value for dot in row.dots)]
    for mark in row.marks:
        values += [mark.value, *(mark.interval or ())]
    return values


def drawn_mark(x: float, y: float, mark: Mark, *, text_at: int = 4) -> list[str]:
    """Draws a mark's shape and label. `x` is in percent, and `y` is in pixels, as is the label's height `text_at`."""
    inside = _tag("title", escape(mark.tip)) + _shape(mark.look, mark.is_open, 4 if mark.is_soft else None)
    if mark.text:
        side = {"x": -9, "text_anchor": "end"} if x > 70 else {"x": 9}
        inside += _tag("text", escape(mark.text), class_="c1", fill="#9a4200", y=text_at, font_size=11, **side)
    row = {} if mark.row is None else {"data_row": mark.row}
    return [_tag("svg", inside, x=_percent(x), y=y, overflow="visible", **row)]


def _shape(look: int, is_open: bool, colour: int | None = None) -> str:
    colour = look % len(_COLOURS) if colour is None else colour
    fill = {"class_": f"c{colour}", "fill": _COLOURS[colour]}
    if is_open:
        fill = {
            "class_": f"o{colour}",
            "fill": "none",
            "stroke": _COLOURS[colour],
            "stroke_width": "1.5",
        }
    return _tag("path", d=_SHAPES[look % len(_SHAPES)], **fill)


def _box(axis: PlotAxis, quantiles: Sequence[float], y: float) -> list[str]:
    low, lower, middle, upper, high = (axis.at(value) for value in quantiles)
    size = {"x": _percent(lower), "y": y - 8, "width": _percent(upper - lower), "height": 16}
    return [
        _line("o4", _COLOURS[4], (low, high), (y, y)),
        _tag("rect", class_="o4", **size, fill=_COLOURS[4], fill_opacity=0.12, stroke=_COLOURS[4]),
        _line("o4", _COLOURS[4], (middle, middle), (y - 8, y + 8)),
    ]


def _line(name: str, colour: str, x: tuple[float, float], y: tuple[float, float], **more: Any) -> str:
    ends = {"x1": _percent(x[0]), "x2": _percent(x[1]), "y1": y[0], "y2": y[1]}
    return _tag("line", class_=name, stroke=colour, **ends, **more)


def _percent(position: float) -> str:
    return f"{position:.2f}%"


def _tag(name: str, content: str = "", /, **attributes: object) -> str:
    """Writes an element. `content` is markup. In the names of attributes, "_" represents "-"."""
    written = ""
    for key, value in attributes.items():
        shown = f"{value:.6g}" if isinstance(value, float) else value
        written += f' {key.rstrip("_").replace("_", "-")}="{shown}"'
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"
