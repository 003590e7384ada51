from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from markupsafe import Markup


class Tile(NamedTuple):
    label: str
    value: str
    details: tuple[str, ...] = ()


class Section(NamedTuple):
    """A section of a page.

    `id` is the id of the section's heading, for the table of contents. `figures` maps the id of each HTML element to
    its Plotly figures. If an element has several figures, readers choose the one to show.
    """

    id: str
    title: str
    html: "Markup"
    figures: dict[str, list[dict[str, Any]]]


class Report(NamedTuple):
    """A measurement's part of a run's report, whose first section is the main one, or of a comparison of two runs.

    Attributes:
        answer: Sentences on whether the model treats people differently, or `None` if the measurement does not show it.
        files: The names of the files with the underlying numbers, as part of a sentence in HTML.
        embedded: The option that sets a better classifier, if the measurement used an embedded one.
        terms: The data about the terms from which readers choose one (see `page.js`).
    """

    sections: list[Section]
    answer: str | None = None
    reading: "Markup | None" = None
    files: "Markup | None" = None
    notes: tuple[str, ...] = ()
    embedded: str | None = None
    terms: Any = None
