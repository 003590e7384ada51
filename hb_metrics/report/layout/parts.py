"""The parts of a page."""

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from markupsafe import Markup


class Tile(NamedTuple):
    """A number at the top of a page, with lines such as its interval below it."""

    label: str
    value: str
    details: tuple[str, ...] = ()


class Section(NamedTuple):
    """A section of a page.

    `id` is the id of the section's heading, to which the table of contents links. `figures` maps the id of an element
    to the Plotly figures to draw in that element. If there are several, readers choose one.
    """

    id: str
    title: str
    html: "Markup"
    figures: dict[str, list[dict[str, Any]]]


class Report(NamedTuple):
    """A measurement's part of a run's report. The first section is the main one.

    Attributes:
        answer: Sentences on whether the model treats people differently, or `None` if the measurement does not show
            this.
        reading: Items of the list "How to read this".
        files: The names of the files with the underlying numbers, as part of a sentence.
        notes: Sentences on its classifier or its control tag.
        embedded: The option that sets a better classifier, if the measurement used an embedded one.
        terms: The data for the term chooser (`page.js`).
    """

    sections: list[Section]
    answer: str | None = None
    reading: "Markup | None" = None
    files: "Markup | None" = None
    notes: tuple[str, ...] = ()
    embedded: str | None = None
    terms: Any = None


class Details(NamedTuple):
    """A measurement's part of the page that compares two runs, besides its figures. Fields are as in `Report`."""

    sections: list[Section]
    reading: "Markup | None" = None
    terms: Any = None
