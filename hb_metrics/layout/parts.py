from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from markupsafe import Markup

    from hb_metrics.layout.plots import Plot


Differs = Literal["yes", "no", "unknown", ""]


class Side(NamedTuple):
    """One of two persons, the text about this person, and the model's answer. `note` describes the answer."""

    name: str
    prompt: str
    answer: str
    note: str = ""


class ShownPair(NamedTuple):
    """Two answers that show a difference. `caption` states how they were selected."""

    caption: str
    sides: tuple[Side, ...]


@dataclass(frozen=True)
class Section:
    """A section of a page, which is rendered when a page shows it.

    `id` is the id of its heading, for the table of contents.
    """

    id: str
    title: str
    render: "Callable[[], Markup]"

    @property
    def html(self) -> "Markup":
        return self.render()


class Report(NamedTuple):
    """A measurement's part of a run's report, whose first section is the main one, or of a comparison of two runs.

    Attributes:
        answer: Sentences on whether the model treats people differently, or `None` if the measurement does not show it.
        differs: Whether it does: "yes", "no" or "unknown". Empty if the measurement does not show it.
        headline: A clause on how people are treated differently, or on what is not known. May be empty.
        advice: How to get a firmer answer about decisions. Empty for other measurements.
        pair: Two answers that show it.
        chart: The chart that shows for whom, and its caption.
        files: The names of the files with the underlying numbers, as part of a sentence in HTML.
        embedded: The option that sets a better classifier, if the measurement used an embedded one.
        terms: The data about the terms from which readers choose one (see `page.js`).
    """

    sections: list[Section]
    answer: str | None = None
    differs: Differs = ""
    headline: str = ""
    advice: str = ""
    pair: ShownPair | None = None
    chart: "tuple[Plot, str] | None" = None
    reading: "Markup | None" = None
    files: "Markup | None" = None
    notes: tuple[str, ...] = ()
    embedded: str | None = None
    terms: Any = None
