"""Plots of two runs side by side."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from hb_metrics.display.figures import BLUE, ORANGE, add_intervals, finished

_APART = 0.16  # of a row, the offset that keeps the two runs' intervals from covering each other


class Change(NamedTuple):
    """A value of two runs.

    Attributes:
        name: What the value is of, such as an axis.
        first: The first run's; `None`: not measured.
        second: The second run's.
        first_interval: Lowest and highest of the first; `None`: not known.
        second_interval: Lowest and highest of the second; `None`: not known.
    """

    name: str
    first: float | None
    second: float | None
    first_interval: tuple[float, float] | None = None
    second_interval: tuple[float, float] | None = None

    @property
    def change(self) -> float | None:
        """The second less the first; `None`: one is not measured."""
        return None if self.first is None or self.second is None else self.second - self.first

    @property
    def reduction(self) -> float | None:
        """How much lower the second is, as a share of the first: at most all of it.

        `None`: one is missing, or the first is not above 0, or its interval is not, so that it may be nothing.
        """
        if self.change is None or self.first is None or min((self.first, *(self.first_interval or ()))) <= 0:
            return None
        return min(-self.change / self.first, 1.0)

    @property
    def apart(self) -> bool | None:
        """Whether the two intervals do not overlap; `None`: one is not known."""
        if self.first_interval is None or self.second_interval is None:
            return None
        (low, high), (other_low, other_high) = self.first_interval, self.second_interval
        return high < other_low or other_high < low


def named_changes(
    first: Mapping[str, float | None], second: Mapping[str, float | None], label: Callable[[str], str]
) -> list[Change]:
    """Changes of values by name, also of those that only one run has; `label` writes a name for people."""
    return [Change(label(name), first.get(name), second.get(name)) for name in {**first, **second}]


def change_figure(rows: Sequence[Change], title: str, names: tuple[str, str], tickformat: str | None) -> go.Figure:
    """Plots both runs' values and intervals in each row, the highest of the first on top."""
    rows = sorted(rows, key=lambda row: (row.first or 0, row.second or 0))
    figure = go.Figure()
    for name, colour, symbol, offset, run in (
        (f"first: {names[0]}", BLUE, "circle", _APART, 0),
        (f"second: {names[1]}", ORANGE, "diamond", -_APART, 1),
    ):
        known = [
            (index + offset, row.name, value, bounds)
            for index, row in enumerate(rows)
            for value, bounds in [((row.first, row.first_interval), (row.second, row.second_interval))[run]]
            if value is not None
        ]
        spans = [(height, *bounds) for height, _, _, bounds in known if bounds is not None]
        add_intervals(figure, spans, colour)
        form = "%{x:.2f}" if tickformat is None else f"%{{x:{tickformat}}}"
        figure.add_scatter(
            x=[value for _, _, value, _ in known],
            y=[height for height, _, _, _ in known],
            customdata=[label for _, label, _, _ in known],
            mode="markers",
            name=name,
            marker={"size": 9, "color": colour, "symbol": symbol},
            hovertemplate=f"%{{customdata}}: {form}<extra>{name.split(':')[0]}</extra>",
        )
    figure.update_yaxes(
        tickvals=list(range(len(rows))), ticktext=[row.name for row in rows], range=[-0.6, len(rows) - 0.4]
    )
    figure.update_xaxes(title=title, tickformat=tickformat)
    finished(figure, height=130 + 30 * len(rows))
    figure.update_yaxes(zeroline=False)
    return figure.update_xaxes(zeroline=True, zerolinecolor="#9ca3af")
