"""The parts of a page."""

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from markupsafe import Markup


class Tile(NamedTuple):
    """A number at the top of a page, with lines below it, such as its interval."""

    label: str
    value: str
    details: tuple[str, ...] = ()


class Section(NamedTuple):
    """A section of a page.

    `id` is the id of its heading, to which the contents link. `figures` maps the id of an element to the Plotly figures
    to draw there; if there are several, readers choose one.
    """

    id: str
    title: str
    html: "Markup"
    figures: dict[str, list[dict[str, Any]]]


class Report(NamedTuple):
    """A measurement's part of the report of a run; the first section is the main one.

    Attributes:
        answer: Sentences on whether the model treats people differently; `None` if not measured.
        reading: Items of the list "How to read this".
        files: The files with the underlying numbers, as part of a sentence.
        notes: Sentences on its classifier or its control tag.
        embedded: The option that sets a better classifier, if its own is an embedded one.
        terms: The data of the chooser of terms (`page.js`).
    """

    sections: list[Section]
    answer: str | None = None
    reading: "Markup | None" = None
    files: "Markup | None" = None
    notes: tuple[str, ...] = ()
    embedded: str | None = None
    terms: Any = None


class Details(NamedTuple):
    """A measurement's part of the page of two runs, beside its figures; fields as in `Report`."""

    sections: list[Section]
    reading: "Markup | None" = None
    terms: Any = None
