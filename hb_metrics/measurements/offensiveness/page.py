from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from hb_metrics.collect.classifiers.presets import suggested
from hb_metrics.layout import paper
from hb_metrics.layout.figure import by_part
from hb_metrics.layout.numbers import counted, term_names
from hb_metrics.layout.parts import Report, Section
from hb_metrics.layout.plots import figures_plot
from hb_metrics.layout.rendering import render
from hb_metrics.measurements.offensiveness.figures import AXES, TEMPLATES, TURNS, figures

NUM_EXTREMES = 10


def report(results: Mapping[str, Any]) -> Report:
    offensiveness, run = results["offensiveness"], results["run"]
    notes = _notes(run["offensiveness_classifier"], offensiveness)
    classifier, parts = run["offensiveness_classifier"], by_part(figures(results))
    context = {
        "run": run,
        "embedded": classifier["is_embedded"],
        "whole": {figure.name: figure for figure in parts[""]},
        "by_axis": parts[AXES],
        "by_template": parts[TEMPLATES],
        "by_turn": parts.get(f"{TURNS} by turn"),
        "threshold": offensiveness["prompts"]["threshold"],
        "num_truncated": offensiveness.get("replies", {}).get("num_truncated"),
        "extremes": extremes(offensiveness["prompts"]),
    }
    beside = list(parts[AXES][0].beside)
    plots = {
        "offensiveness-by-axis": [figures_plot(parts[AXES], "share found offensive", beside)],
        "offensiveness-by-template": [figures_plot(parts[TEMPLATES], "mean offensiveness", ["found offensive"])],
    }
    return Report(
        [Section("offensiveness", "Offensiveness", render("offensiveness/section.html.jinja", context), plots)],
        reading=render("offensiveness/reading.html.jinja", context),
        files=Markup("the offensiveness of each text in <code>offensiveness/*/*.parquet</code>"),
        notes=notes,
        embedded=suggested("--offensiveness_classifier") if classifier["is_embedded"] else None,
    )


def _notes(classifier: Mapping[str, Any], offensiveness: Mapping[str, Any]) -> tuple[str, ...]:
    notes = (f"{classifier['name']}: {'; '.join(classifier['notes'])}.",) if classifier["notes"] else ()
    unanswered = sum(part.get("num_unanswered", 0) for part in offensiveness.values())
    why = "the offensiveness judge gave no answer, or several labels were equally likely"
    return (*notes, *counted(unanswered, f"texts are left out, because {why}."))


def extremes(prompts: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, float]], list[tuple[str, float]]]]:
    """Returns the terms whose prompts are least and most likely to be offensive, with their mean probabilities.

    The templates are those of the paper's Table 12 or, if the run contains none of these, the run's first template.
    """
    known = list(prompts["by_template"])
    chosen = [template for template in paper.PRINTED["offensive_extremes_templates"] if template in known] or known[:1]
    terms: list[dict[str, Any]] = []
    for axis, of_axis in prompts["by_descriptor_and_template"].items():
        terms += [{"axis": axis, "descriptor": name, "values": values} for name, values in of_axis.items()]
    names, rows = term_names(terms, terms), []
    for template in chosen:
        values = []
        for name, term in zip(names, terms, strict=True):
            if term["values"].get(template) is not None:
                values.append((name, term["values"][template]))
        values.sort(key=lambda row: (row[1], row[0]))
        shown = min(NUM_EXTREMES, len(values) // 2)
        rows.append((template, values[:shown], values[::-1][:shown]))
    return rows
