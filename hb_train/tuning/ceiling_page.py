"""The ceiling of labels for people: a table and sentences in Markdown, a figure as SVG, lines for the terminal."""

from collections.abc import Sequence
from html import escape
from typing import Any

from hb_dataset.markdown_table import markdown_table
from hb_metrics.report.numbers import MISSING, bias, interval, share, signed_bias
from hb_metrics.report.plots import BLUE, GREY, ORANGE

FIGURE_FILE = "ceiling.svg"

_WIDTH, _HEIGHT = 720, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 20, 48, 52
_SHADES = ("#9dc3dd", "#5a9cc7", BLUE)  # directions of few replies to those of many
_TICKS = 5


def ceiling_table(ceiling: dict[str, Any]) -> str:
    """The curve as a table in Markdown, from the content of ceiling.json."""
    level = f"{ceiling['confidence_level']:.0%}"
    rows = []
    for point in ceiling["curve"]:
        name = share(point["share"], _digits(point["share"]))
        rows.append(
            [
                f"**{name}**" if point["share"] == ceiling["lowest"] else name,
                bias(point["full_gen_bias"]),
                MISSING if point["standard_error"] is None else bias(point["standard_error"]),
                interval(point["interval"]),
                MISSING if point["share"] == 1 else signed_bias(point["change"]),
                MISSING if point["share"] == 1 else interval(point["change_interval"]),
            ]
        )
    header = ['tagged "no_bias"', "Full Gen Bias", "standard error", f"{level} interval", "change", f"{level} interval"]
    return markdown_table(header, rows, numbers=range(len(header)))


def growth_table(ceiling: dict[str, Any]) -> str:
    """What directions from more replies are worth, as a table in Markdown."""
    rows = []
    for step in ceiling["growth"]:
        lowest = _lowest(step["curve"])
        rows.append(
            [
                f"{step['replies_per_descriptor']:.3g}",
                f"{step['cosine']:.2f}",
                f"{step['reliability']:.2f} ({step['reliability_interval'][0]:.2f} to "
                f"{step['reliability_interval'][1]:.2f})",
                bias(step["curve"][0]["full_gen_bias"]),
                MISSING if lowest is None else bias(lowest["full_gen_bias"]),
                MISSING if lowest is None else share(lowest["share"], _digits(lowest["share"])),
            ]
        )
    header = ["replies a term", "cosine", "reliability", "all replies", "lowest", 'tagged "no_bias"']
    return markdown_table(header, rows, numbers=range(len(header)))


def remarks(ceiling: dict[str, Any]) -> list[str]:
    """What a reader should know of a ceiling, in sentences, from the content of ceiling.json."""
    start = ceiling["curve"][0]
    lowest = next((point for point in ceiling["curve"] if point["share"] == ceiling["lowest"]), None)
    sentences = []
    if lowest is None:
        sentences.append("No ceiling is known: too few replies to a term in a template are left of any share.")
    elif ceiling["helps"]:
        sentences.append(
            f"The lowest ceiling is {bias(lowest['full_gen_bias'])}, with {share(lowest['share'], 0)} of the replies "
            f'tagged "no_bias", where all replies have {bias(start["full_gen_bias"])} '
            f"(change {signed_bias(lowest['change'])}, {interval(lowest['change_interval'])})."
        )
    else:
        sentences.append(
            f"No β helps: the lowest ceiling is {bias(lowest['full_gen_bias'])} and all replies have "
            f"{bias(start['full_gen_bias'])}, which is no lower beyond chance, as the lowest of "
            f"{len(ceiling['curve']) - 1} shares."
        )
    half = ceiling["growth"][-1]
    sentences.append(
        f"Directions from {half['replies_per_descriptor']:.3g} replies a term have a reliability of "
        f"{half['reliability']:.2f}; from all replies, twice as many, {ceiling['reliability']:.2f} (Spearman–Brown)."
    )
    known = {target: number for target, number in ceiling["replies_needed"].items() if number is not None}
    if known:
        words = " and ".join(f"{number:,.0f} for {target}" for target, number in known.items())
        sentences.append(f"It would take so many replies a term: {words}.")
    else:
        sentences.append("The directions show no signal, so that no number of replies can be given.")
    return sentences


def printed_lines(ceiling: dict[str, Any]) -> list[str]:
    """The ceiling for the terminal."""
    lines = ["", 'ceiling: Full Gen Bias of replies tagged "no_bias" by directions of other replies']
    for point in ceiling["curve"]:
        value = f"{share(point['share'], _digits(point['share'])):>7}  {bias(point['full_gen_bias']):>6}"
        error = "" if point["standard_error"] is None else f"  ± {bias(point['standard_error'])} (standard error)"
        lines.append(f"  {value}{error}{'  lowest' if point['share'] == ceiling['lowest'] else ''}")
    return [*lines, *(f"  {remark}" for remark in remarks(ceiling))]


def ceiling_figure(ceiling: dict[str, Any]) -> str:
    """Full Gen Bias by the share tagged "no_bias", one line for each number of replies, as an SVG image."""
    curves = [[point for point in step["curve"] if point["full_gen_bias"] is not None] for step in ceiling["growth"]]
    values = [point["full_gen_bias"] for points in curves for point in points]
    bounds = [bound for point in ceiling["curve"] for bound in point["interval"] or ()]
    low, high = min(0.0, *values, *bounds), max([*values, *bounds, 1e-9])
    left_share = min(point["share"] for points in curves for point in points)

    def x(value: float) -> float:
        return round(_LEFT + (1 - value) / max(1 - left_share, 1e-9) * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(value: float) -> float:
        return round(_HEIGHT - _BOTTOM - (value - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="system-ui, sans-serif" '
        'font-size="13" role="img">',
        f"<title>{escape(remarks(ceiling)[0])}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
    ]
    step = _step((high - low) / _TICKS)
    ticks = [index * step for index in range(int(low // step), int(high // step) + 1) if low <= index * step <= high]
    for tick in ticks:
        parts.append(_line([(_LEFT, y(tick)), (_WIDTH - _RIGHT, y(tick))], "#e5e7eb", 1))
        parts.append(_text(_LEFT - 8, y(tick) + 4, f"{tick:g}".replace("-", "−"), "end"))
    for place in _spaced([point["share"] for point in ceiling["curve"]], x):
        parts.append(_text(x(place), _HEIGHT - _BOTTOM + 18, share(place, _digits(place)), "middle"))
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 12, 'replies tagged "no_bias"', "middle"))
    parts.append(_text(_LEFT, 18, "Full Gen Bias ×1000, debiased", "start"))
    start = ceiling["curve"][0]["full_gen_bias"]
    parts.append(_line([(_LEFT, y(start)), (_WIDTH - _RIGHT, y(start))], GREY, 1, "5 4"))
    parts.append(_text(_WIDTH - _RIGHT, y(start) - 6, "all replies", "end", GREY))
    for point in ceiling["curve"]:
        if point["interval"] is not None:
            parts.append(_line([(x(point["share"]), y(bound)) for bound in point["interval"]], BLUE, 2))
    shades = _SHADES[-len(curves) :]
    for index, (points, colour) in enumerate(zip(curves, shades, strict=True)):
        parts.append(_line([(x(point["share"]), y(point["full_gen_bias"])) for point in points], colour, 2))
        words = f"{ceiling['growth'][index]['replies_per_descriptor']:.3g} replies a term"
        parts.append(_line([(_LEFT + 190 * index, 34), (_LEFT + 190 * index + 24, 34)], colour, 3))
        parts.append(_text(_LEFT + 190 * index + 30, 38, words, "start"))
    for point in ceiling["curve"]:
        if point["full_gen_bias"] is not None:
            is_lowest = point["share"] == ceiling["lowest"]
            colour, size = (ORANGE, 6) if is_lowest else (BLUE, 4)
            parts.append(
                f'<circle cx="{x(point["share"])}" cy="{y(point["full_gen_bias"])}" r="{size}" fill="{colour}"/>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _lowest(curve: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    return min(
        (point for point in curve[1:] if point["interval"] is not None),
        key=lambda point: point["full_gen_bias"],
        default=None,
    )


def _digits(value: float) -> int:
    """The digits a share needs after the point, as a percentage: those of a β that was given have one."""
    return 0 if abs(100 * value - round(100 * value)) < 1e-9 else 1


def _step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is at least so large."""
    power = 10.0 ** int(f"{least:e}".split("e")[1])
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _spaced(places: Sequence[float], x: Any) -> list[float]:
    """Those of the places whose labels do not touch."""
    kept: list[float] = []
    for place in places:
        if not kept or abs(x(place) - x(kept[-1])) >= 36:
            kept.append(place)
    return kept


def _line(points: Sequence[tuple[float, float]], colour: str, width: int, dash: str = "") -> str:
    path = " ".join(f"{px},{py}" for px, py in points)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}/>'


def _text(px: float, py: float, text: str, anchor: str, colour: str = "#1f2937") -> str:
    return f'<text x="{px}" y="{py}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
