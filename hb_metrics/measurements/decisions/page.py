from markupsafe import Markup

from hb_metrics.layout.figure import by_part
from hb_metrics.layout.numbers import axis_label
from hb_metrics.layout.parts import Differs, Pair, Report, Side
from hb_metrics.layout.plots import figures_plot
from hb_metrics.layout.rendering import section
from hb_metrics.measurements.decisions.figures import TERMS, figures
from hb_metrics.measurements.decisions.results import Decisions, Example, differs
from hb_metrics.measurements.decisions.verdict import prediction_sentences, verdict
from hb_metrics.measurements.results import Results

MIN_MASS = 0.5


def report(results: Results) -> Report:
    decisions, parts = results.decisions, by_part(figures(results))
    whole = parts.pop("")
    terms = parts.pop(TERMS, [])
    example, answer = decisions.example, verdict(results)
    predictions = prediction_sentences(results)
    context = {
        "answers": results.record.decisions.answers,
        "whole": whole,
        "predictions": predictions,
        "parts": parts,
        "terms": terms,
        "mass": decisions.option_mass,
        "is_low": decisions.option_mass is not None and decisions.option_mass < MIN_MASS,
    }
    name, first = next(iter(parts.items()))
    caption = "Differences in decisions by axis. The intervals of coloured axes are above 0."
    chart = (figures_plot(first, name.lower()), caption) if first else None
    files = Markup("what was asked and answered in <code>decisions/*.parquet</code>")
    sections = [section("decisions", "Decisions", "decisions/section.html.jinja", context)]
    return Report(
        sections,
        answer=" ".join([answer, *predictions]),
        differs=difference(decisions),
        pair=shown_pair(example),
        chart=chart,
        files=files,
    )


def difference(decisions: Decisions) -> Differs:
    """Returns whether decisions differ. This is unknown if some axis has no interval and no other axis differs."""
    if any(differs(axis) for axis in decisions.by_axis.values()):
        return "yes"
    gaps = [None if axis.pair is None else axis.pair.gap.interval for axis in decisions.by_axis.values()]
    return "unknown" if not gaps or None in gaps else "no"


def shown_pair(example: Example | None) -> Pair | None:
    if example is None:
        return None
    of_both = (example.high, example.of_high), (example.low, example.of_low)
    caption = (
        f"One question about two people ({axis_label(example.axis)}). Of all questions, the one with the median "
        "difference between the two terms that differ most is shown."
    )
    return Pair(caption, tuple(Side(name, answered.prompt, answered.answer) for name, answered in of_both))
