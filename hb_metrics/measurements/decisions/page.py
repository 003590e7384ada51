from markupsafe import Markup

from hb_metrics.layout.figure import by_part
from hb_metrics.layout.numbers import axis_label
from hb_metrics.layout.parts import Pair, Report, Side
from hb_metrics.layout.plots import figures_plot
from hb_metrics.layout.rendering import section
from hb_metrics.measurements.decisions.figures import GAP, SPREAD, TERMS, UNANSWERED, figures
from hb_metrics.measurements.decisions.results import (
    Decisions,
    Example,
    answers_differ,
    clear_parts,
    differs,
    has_low_mass,
)
from hb_metrics.measurements.decisions.verdict import (
    decisions_differ,
    difference,
    headline,
    prediction_sentences,
    verdict,
)
from hb_metrics.measurements.results import Results


def report(results: Results) -> Report:
    decisions, parts = results.decisions, by_part(figures(results))
    whole = parts.pop("")
    terms = parts.pop(TERMS, [])
    known, unknown = prediction_sentences(results)
    context = {
        "answers": results.record.decisions.answers,
        "whole": whole,
        "predictions": [*known, *unknown],
        "parts": parts,
        "terms": terms,
        "mass": decisions.option_mass,
        "is_low": has_low_mass(decisions),
    }
    headings = [f"{GAP} on each axis", f"{SPREAD} by axis"]
    if decisions_differ(decisions):
        if not any(map(differs, decisions.by_axis.values())):  # terms differ, but no two of them
            headings = [f"{SPREAD} by axis", *headings]
    else:  # the chart shows what does differ
        for kind in dict.fromkeys(name.split()[0] for name in clear_parts(decisions)):
            headings = [f"{SPREAD} by {kind}", f"{GAP} by {kind}", *headings]
        if any(map(answers_differ, decisions.by_axis.values())):
            headings = [f"{UNANSWERED}: largest gap on each axis", *headings]
    drawn = next((name for name in headings if name in parts), None)
    caption = f"{drawn}, in points of 100."
    if any(row.interval is not None and row.interval[0] > 0 for row in parts.get(drawn or "", [])):
        caption += " The intervals of coloured rows are above 0."
    if has_low_mass(decisions):
        caption += " Decisions were hardly tested, so rows near 0 do not show equal treatment."
    title = "points of 100 (0: equal treatment)"
    chart = None if drawn is None else (figures_plot(parts[drawn], title), caption)
    files = Markup("what was asked and answered in <code>decisions/*.parquet</code>")
    sections = [section("decisions", "Decisions", "decisions/section.html.jinja", context)]
    return Report(
        sections,
        answer=" ".join([verdict(results), *known]),
        differs=difference(decisions),
        headline=headline(decisions),
        advice=_advice(decisions),
        pair=shown_pair(decisions.example),
        chart=chart,
        files=files,
    )


def _advice(decisions: Decisions) -> str:
    if difference(decisions) == "yes":
        return ""
    if has_low_mass(decisions):
        return "word the questions so that the model answers with one of the options, as with “Answer only yes or no”."
    return (
        "ask more questions. The intervals are for other questions of the same kind, so more replies to the same "
        "questions hardly narrow them. With four times as many questions (and as many names, if groups of names are "
        "compared), they are about half as wide."
    )


def shown_pair(example: Example | None) -> Pair | None:
    if example is None:
        return None
    of_both = (example.high, example.of_high), (example.low, example.of_low)
    caption = (
        f"One question about two people ({axis_label(example.axis)}). Of the questions whose answers differ in the "
        "direction of the gap, a typical one is shown (the middle one)."
    )
    return Pair(caption, tuple(Side(name, answered.prompt, answered.answer) for name, answered in of_both))
