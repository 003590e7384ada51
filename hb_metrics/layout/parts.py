from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from markupsafe import Markup


class Tile(NamedTuple):
    label: str
    value: str
    details: tuple[str, ...] = ()


class Section(NamedTuple):
    """A section of a page. `id` is the id of its heading, for the table of contents."""

    id: str
    title: str
    html: "Markup"


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
