from markupsafe import Markup

from hb_metrics.collect.classifiers.presets import suggested
from hb_metrics.layout import paper
from hb_metrics.layout.figure import by_part
from hb_metrics.layout.numbers import counted, term_names
from hb_metrics.layout.parts import Report
from hb_metrics.layout.plots import figures_plot
from hb_metrics.layout.rendering import render, section
from hb_metrics.measurements.offensiveness.figures import AXES, TEMPLATES, TURNS, figures
from hb_metrics.measurements.offensiveness.results import Offensiveness, Texts
from hb_metrics.measurements.results import Results
from hb_metrics.run.record import UsedClassifier
from hb_metrics.stats.bias_values import DescriptorKey

NUM_EXTREMES = 10


def report(results: Results) -> Report:
    offensiveness, classifier = results.offensiveness, results.record.offensiveness_classifier
    parts = by_part(figures(results))
    context = {
        "run": results.record,
        "embedded": classifier.is_embedded,
        "whole": {figure.name: figure for figure in parts[""]},
        "by_axis": parts[AXES],
        "by_template": parts[TEMPLATES],
        "by_turn": parts.get(f"{TURNS} by turn"),
        "threshold": offensiveness.prompts.threshold,
        "num_truncated": offensiveness.replies and offensiveness.replies.num_truncated,
        "extremes": extremes(offensiveness.prompts),
    }
    beside = list(parts[AXES][0].beside)
    plots = {
        "offensiveness-by-axis": [figures_plot(parts[AXES], "share found offensive", beside)],
        "offensiveness-by-template": [figures_plot(parts[TEMPLATES], "mean offensiveness", ["found offensive"])],
    }
    return Report(
        [section("offensiveness", "Offensiveness", "offensiveness/section.html.jinja", context, plots)],
        reading=render("offensiveness/reading.html.jinja", context),
        files=Markup("the offensiveness of each text in <code>offensiveness/*/*.parquet</code>"),
        notes=_notes(classifier, offensiveness),
        embedded=suggested("--offensiveness_classifier") if classifier.is_embedded else None,
    )


def _notes(classifier: UsedClassifier, offensiveness: Offensiveness) -> tuple[str, ...]:
    notes = (f"{classifier.name}: {'; '.join(classifier.notes)}.",) if classifier.notes else ()
    unanswered = sum(part.num_unanswered or 0 for part in (offensiveness.prompts, offensiveness.replies) if part)
    why = "the offensiveness judge gave no answer, or several labels were equally likely"
    return (*notes, *counted(unanswered, f"texts are left out, because {why}."))


def extremes(prompts: Texts) -> list[tuple[str, list[tuple[str, float]], list[tuple[str, float]]]]:
    """Returns the terms whose prompts are least and most likely to be offensive, with their mean probabilities.

    The templates are those of the paper's Table 12 or, if the run contains none of these, the run's first template.
    """
    known = list(prompts.by_template)
    chosen = [template for template in paper.PRINTED.offensive_extremes_templates if template in known] or known[:1]
    values_of: dict[DescriptorKey, dict[str, float]] = {}
    for axis, of_axis in prompts.by_descriptor_and_template.items():
        values_of |= {DescriptorKey(axis, name): by_template for name, by_template in of_axis.items()}
    names, rows = term_names(list(values_of), list(values_of)), []
    for template in chosen:
        values = []
        for name, by_template in zip(names, values_of.values(), strict=True):
            if template in by_template:
                values.append((name, by_template[template]))
        values.sort(key=lambda row: (row[1], row[0]))
        shown = min(NUM_EXTREMES, len(values) // 2)
        rows.append((template, values[:shown], values[::-1][:shown]))
    return rows
