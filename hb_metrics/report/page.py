from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hb_metrics.human_eval.calibration_section import calibration_section, figures, sentence
from hb_metrics.layout.figure import Figure
from hb_metrics.layout.parts import Section, Tile
from hb_metrics.layout.rendering import write_page
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.measurement import Measurement
from hb_metrics.run.run_record import measured_model, model_title, served_sentence


def write_report(
    results: Mapping[str, Any],
    path: Path,
    *,
    to_come: Sequence[Measurement] = (),
    more: Sequence[Section] = (),
    calibrations: Sequence[Mapping[str, Any]] = (),
) -> list[str]:
    """Writes a run's report, and returns its sentences on whether the model treats people differently.

    If measurements are still `to_come`, the report is marked as incomplete. Sections for `calibrations` (the results of
    `human-eval calibrate`) come first if they have an interval, and the sections in `more` come last.
    """
    measured = [measurement for measurement in MEASUREMENTS if measurement.name in results]
    reports = [measurement.parts.report(results) for measurement in measured]
    # Labels that are too few for an interval are shown last.
    calibrations = sorted(calibrations, key=lambda calibration: figures(calibration)[0].interval is None)
    usable = [calibration for calibration in calibrations if figures(calibration)[0].interval is not None]
    sections = [calibration_section(calibration) for calibration in usable]
    sections += [section for report in reports for section in report.sections]
    sections += [*map(calibration_section, calibrations[len(usable) :]), *more]
    # Decisions are what affects people, so they come first.
    order = sorted(range(len(reports)), key=lambda number: measured[number].name != "decisions")
    answers = [answer for number in order if (answer := reports[number].answer) is not None]
    if "generation" in results and "decisions" not in results:
        answers.append("Decisions and facts were not tested.")
    main = [figures(calibration)[0] for calibration in usable]
    for measurement in measured:
        main += measurement.parts.figures(results)
    context = {
        "run": results["run"],
        "served": served_sentence(results["run"]),
        "title": model_title(results["run"]["model"]),
        "measured": measured_model(results["run"]),
        "to_come": [measurement.title for measurement in to_come],
        "words": [measurement.words for measurement in measured if not measurement.has_own_prompts],
        "other_words": [measurement.words for measurement in measured if measurement.has_own_prompts],
        "answers": [*map(sentence, usable), *answers],
        "tiles": tiles(main),
        "sections": sections,
        "embedded": [report.embedded for report in reports if report.embedded is not None],
        "readings": [report.reading for report in reports if report.reading is not None],
        "notes": list(dict.fromkeys(note for report in reports for note in report.notes)),
        "files": [report.files for report in reports if report.files],
    }
    plots = {id: plots for section in sections for id, plots in section.figures.items()}
    terms = next((report.terms for report in reports if report.terms is not None), None)
    write_page("report/report.html.jinja", path, context, plots, terms)
    return answers


def tiles(figures: Sequence[Figure]) -> list[Tile]:
    listed = []
    for figure in figures:
        if figure.is_main and not figure.part_of and figure.value is not None:
            words = "no interval" if figure.interval is None and figure.no_interval else figure.interval_words
            listed.append(Tile(figure.name, figure.shown, tuple(filter(None, (words, figure.detail)))))
    return listed
