"""The plot of Gen Bias against dialogue quality, drawn when the page is made: coordinates for an inline SVG."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from hb_metrics.display.figures import shortened
from hb_metrics.display.numbers import bias
from hub_scripts.leaderboard.groups import Row

WIDTH, HEIGHT = 480, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 14, 48  # margins
_LABEL_WIDTH, _LABEL_HEIGHT = 125, 15  # of a name beside its point
_MOST_TICKS = 8
LEAST_SPAN = 0.05  # of dialogue quality: a smaller difference is not to look large


class Point(NamedTuple):
    """A run in the plot: its row, where it is, its interval from low to high, its name, and what a pointer shows."""

    row: int
    x: float
    y: float
    low: float | None
    high: float | None
    label: str
    label_left: bool
    title: str
    is_reproducible: bool


class Scatter(NamedTuple):
    """The plot.

    Attributes:
        points: The runs.
        x_ticks: Position and text of each.
        y_ticks: Position and text of each.
        replies: The dialogue replies of all these runs.
        num_other_replies: Runs that are left out, as their dialogue was another.
        num_unlabelled: Points without a name, where names would be on top of each other.
        size: Width and height, and the margins left, right, top and bottom.
    """

    points: list[Point]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    replies: str
    num_other_replies: int
    num_unlabelled: int
    size: tuple[int, int, int, int, int, int] = (WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM)


def scatter(rows: Sequence[Row]) -> Scatter | None:
    """The plot of the runs that have debiased Full Gen Bias and dialogue quality on the same replies.

    Returns:
        The plot; `None`: there is no such run.
    """
    both = [(index, row) for index, row in enumerate(rows) if row.bias is not None and row.dialogue is not None]
    if not both:
        return None
    dialogues = Counter(row.dialogue.replies for _, row in both if row.dialogue is not None)
    replies = min(dialogues, key=lambda name: (-dialogues[name], name))
    runs = [
        (index, row, row.dialogue.bits, row.bias.value, row.bias.interval)
        for index, row in both
        if row.dialogue is not None and row.bias is not None and row.dialogue.replies == replies
    ]
    x_ticks = ticks([bits for _, _, bits, _, _ in runs], LEAST_SPAN)
    y_ticks = ticks([0.0, *(bound for _, _, _, value, interval in runs for bound in (value, *(interval or ())))])

    def across(value: float) -> float:
        share = (value - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def up(value: float) -> float:
        share = (value - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return round(HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP), 1)

    points: list[Point] = []
    for index, row, bits, value, interval in runs:
        x, y = across(bits), up(value)
        is_free = all(
            abs(x - point.x) > _LABEL_WIDTH or abs(y - point.y) > _LABEL_HEIGHT for point in points if point.label
        )
        title = f"{row.name}: Full Gen Bias {bias(value)}, {bits:,.1f} bits per reply"
        low, high = (None, None) if interval is None else (up(interval[0]), up(interval[1]))
        # The owner of a model is in the title: its name alone fits.
        label = shortened(row.name.rpartition("/")[2]) if is_free else ""
        points.append(Point(index, x, y, low, high, label, x > WIDTH - RIGHT - _LABEL_WIDTH, title, not row.faults))
    return Scatter(
        points,
        [(across(tick), _tick(tick, x_ticks)) for tick in x_ticks],
        [(up(tick), _tick(tick, y_ticks)) for tick in y_ticks],
        replies,
        len(both) - len(runs),
        sum(not point.label for point in points),
    )


def ticks(values: Sequence[float], least_span: float = 1e-9) -> list[float]:
    """Round numbers from below the lowest value to above the highest, at most `_MOST_TICKS`.

    Args:
        values: What the axis has to hold.
        least_span: If they differ by less than this share of the highest, the axis is wider than they need.
    """
    lowest, highest = min(values), max(values)
    if highest - lowest <= least_span * max(1.0, abs(highest)):
        margin = abs(highest) / 10 or 1.0
        lowest, highest = lowest - margin, highest + margin
    power = 10.0 ** math.floor(math.log10((highest - lowest) / _MOST_TICKS))
    for step in (power, 2 * power, 5 * power, 10 * power, 20 * power):
        first, last = math.floor(lowest / step + 1e-9), math.ceil(highest / step - 1e-9)
        if last - first < _MOST_TICKS:
            break
    return [index * step for index in range(first, last + 1)]


def _tick(value: float, all_of_axis: Sequence[float]) -> str:
    step = all_of_axis[1] - all_of_axis[0]
    return f"{value:,.{max(0, -math.floor(math.log10(step)))}f}".replace("-", "−")
