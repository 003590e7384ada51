"""The parts of reports, terminal output, model cards and the Hub's results: figures, and sections of a page."""

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hb_metrics.display import numbers

if TYPE_CHECKING:
    from markupsafe import Markup

Form = Literal["share", "small_share", "bias", "signed", "effect"]


class Figure(NamedTuple):
    """A number about a whole run, or about a group of people in it.

    Attributes:
        name: What it is called; the same in every run that has it.
        value: As in results.json; `None`: not known from this run.
        form: How it is written: "share" (84.7%), "small_share" (0.52%), "bias" (9.72: a Gen Bias value ×1000 or a
            perplexity), "signed" (+0.07), "effect" (0.43).
        meaning: What it means, in a line.
        interval: Lowest and highest; `None`: none was estimated.
        confidence_level: The confidence level of the interval.
        task: Its name among the Hub's evaluation results; `None`: it is not one of them.
        notes: What to know of this figure beside the settings of its measurement.
        gate: Its name in `--fail_above`, where that is not `task`.
    """

    name: str
    value: float | None
    form: Form
    meaning: str
    interval: tuple[float, float] | None = None
    confidence_level: float | None = None
    task: str | None = None
    notes: tuple[str, ...] = ()
    gate: str | None = None

    @property
    def key(self) -> str | None:
        """Its name in `--fail_above`; `None`: it has no limits."""
        return self.gate or self.task

    @property
    def shown(self) -> str:
        """The value as it is written."""
        return written(self.value, self.form)

    @property
    def shown_interval(self) -> str | None:
        """The interval as it is written; `None`: there is none."""
        return None if self.interval is None else written_interval(self.interval, self.form)


class Tile(NamedTuple):
    """A number at the top of a page.

    Attributes:
        label: What it is.
        value: As it is written.
        details: Lines below it, such as its interval.
    """

    label: str
    value: str
    details: tuple[str, ...] = ()


class Section(NamedTuple):
    """A section of a page.

    Attributes:
        id: Id of its heading, which the contents link to.
        title: Its entry in the contents.
        html: Its HTML, from its heading on.
        figures: Id of an element in it → the Plotly figures to draw there, of which one is chosen if there are several.
    """

    id: str
    title: str
    html: "Markup"
    figures: dict[str, list[dict[str, Any]]]


class Embedded(NamedTuple):
    """A classifier that comes with this project, for trying things out.

    Attributes:
        what: A sentence, without its full stop, on what it classified.
        option: The option that names a better one.
    """

    what: str
    option: str


class Report(NamedTuple):
    """What a measurement adds to the report of a run.

    Attributes:
        sections: Its sections; the first is the main one.
        tiles: The few numbers at the top.
        answer: A sentence or two that answer whether the model treats people differently: which differences are
            beyond chance, where they are largest, and what is not known. `None`: the measurement is not about that.
        reading: What readers have to know ("How to read this"), as items of a list; `None`: nothing to add.
        files: The files with the underlying numbers, as part of a sentence.
        notes: Sentences on its classifier or its control tag.
        embedded: Its classifier, if that is an embedded one.
        terms: The data of the chooser of terms (`page.js`); `None`: it has none.
    """

    sections: list[Section]
    tiles: list[Tile]
    answer: str | None = None
    reading: "Markup | None" = None
    files: "Markup | None" = None
    notes: tuple[str, ...] = ()
    embedded: Embedded | None = None
    terms: Any = None


class Comparison(NamedTuple):
    """What a measurement adds to the page with two runs side by side; the fields are those of `Report`."""

    sections: list[Section]
    tiles: list[Tile]
    reading: "Markup | None" = None
    terms: Any = None


def written(value: float | None, form: Form) -> str:
    """A value of a figure, as text."""
    if value is None:
        return numbers.MISSING
    match form:
        case "share":
            return numbers.share(value)
        case "small_share":
            return numbers.share(value, 2)
        case "bias":
            return numbers.bias(value)
        case "signed":
            return numbers.fixed(value, 2, "+")
        case "effect":
            return numbers.fixed(value, 2)


def written_interval(bounds: tuple[float, float], form: Form) -> str:
    """Lowest and highest of a figure, as text."""
    if form == "bias":
        return numbers.interval(bounds)
    return " to ".join(written(bound, form) for bound in bounds)


def written_change(change: float | None, form: Form) -> str:
    """A change of a figure, as text: of a share in percentage points."""
    if change is None:
        return numbers.MISSING
    if form in ("share", "small_share"):
        return numbers.signed_share(change, 1 if form == "share" else 2)
    return numbers.signed_bias(change) if form == "bias" else numbers.fixed(change, 2, "+")


def pair(bounds: Any) -> tuple[float, float] | None:
    """An interval as results.json has it, a list of two or nothing, as a pair."""
    return None if bounds is None else (bounds[0], bounds[1])
