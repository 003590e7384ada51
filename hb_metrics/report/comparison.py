from collections.abc import Mapping, Sequence
from pathlib import Path

from hb_metrics.human_eval.analyse import human_evaluation_section, read_results
from hb_metrics.layout.figure import Figure, by_part, joined_names, missing_intervals
from hb_metrics.layout.parts import Section
from hb_metrics.layout.plots import runs_plot
from hb_metrics.layout.rendering import section, write_page
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.generation.both_runs import generation_details
from hb_metrics.measurements.generation.cue_agreement import cue_sections
from hb_metrics.measurements.results import Results, read_run
from hb_metrics.report.changes import changes_section, comparable_figures, run_changes
from hb_metrics.report.compared_runs import comparison_warnings, differing_settings, run_names
from hb_metrics.report.no_worse import MarginVerdict, read_margins, verdicts
from hb_metrics.report.page import not_tested, run_answer
from hb_metrics.report.sides import Sides, both_sides, sides_section
from hb_metrics.run.run_folder import run_digest
from hb_metrics.run.run_record import model_title


def write_comparison(
    runs: Sequence[Path],
    path: Path,
    names: Sequence[str] | None = None,
    human_evaluation: Path | None = None,
    no_worse_than: Sequence[str] = (),
) -> tuple[Sides | None, list[MarginVerdict]]:
    """Writes a page that compares the first run (such as the run before tuning) with each later run.

    Args:
        runs: The folders of two or more finished runs.
        path: The HTML file to write.
        names: The names of the runs. Default: their models, tags or folders.
        human_evaluation: A file with the results of a human evaluation of these runs.
        no_worse_than: Margins, such as "dialogue_perplexity=5%" (see `read_margins`).

    Returns:
        The comparison of bias with uptake (`None` unless both were measured in the runs), and a verdict on each margin
        for each later run.

    Raises:
        ValueError: A folder contains no finished run, a name or margin is not valid, or the first run has no
            measurement in common with another run.
    """
    margins = read_margins(no_worse_than)
    finished = [read_run(folder) for folder in runs]
    called = run_names(finished, names)
    for other in finished[1:]:
        if not {*finished[0].results.measured} & {*other.results.measured}:
            raise ValueError(
                f"'{finished[0].folder}' and '{other.folder}' have no measurement in common; pass runs that share at "
                "least one measurement"
            )
    results = [run.results for run in finished]
    differences = differing_settings([run.record for run in results])
    first, second = finished[:2]
    changes = [run_changes(first, run, (called[0], name)) for run, name in zip(finished[1:], called[1:], strict=True)]
    sides = both_sides(finished, changes)
    overviews = overview_sections(results, called)
    overviews += cue_sections([run for run in finished if "generation" in run.results.measured])
    judged = [verdict for compared in changes for verdict in verdicts(compared, margins)]
    sections, terms = [changes_section(changes)], None
    if "generation" in first.results.measured and "generation" in second.results.measured:
        details, terms = generation_details(first, second, called[:2])
        sections += details
    if human_evaluation is not None:
        of_people = read_results(human_evaluation, [run_digest(folder) for folder in runs])
        sections.append(human_evaluation_section(of_people))
    some = {}
    for measurement in MEASUREMENTS:
        having = [name for name, run in zip(called, results, strict=True) if measurement.name in run.measured]
        if 0 < len(having) < len(called):
            some[measurement.title] = having
    context = {
        "names": called,
        "digests": " ".join(map(run_digest, runs)),
        "runs": [run.record for run in results],
        "titles": [model_title(run.record.model) for run in results],
        "tags": [run.record.tag for run in results],
        "differences": differences,
        "warnings": comparison_warnings(differences, results),
        "in_some": some,
        "overviews": overviews,
        "gates": judged,
        "verdicts": [compared.verdict(compared.main) for compared in changes] if sides is None else sides.verdicts,
        "sentences": [compared.sentence for compared in changes] if sides is None else sides.sentences,
        "not_tested": not_tested(set.intersection(*({*run.measured} for run in results))),
        "answers": [(answer.verdict, answer.sentences[:1]) for answer in map(run_answer, results)],
        "sides": None if sides is None else sides_section(sides),
        "sections": sections,
    }
    write_page("report/comparison.html.jinja", path, context, terms)
    return sides, judged


def overview_sections(runs: Sequence[Results], names: Sequence[str]) -> list[Section]:
    sections = []
    for measurement in MEASUREMENTS:
        of_runs = [measurement.figures(run) for run in runs]
        if sum(bool(figures) for figures in of_runs) < 2:
            continue
        comparable = comparable_figures(of_runs)
        left_out = _without_interval(comparable)
        shown = [[figure for figure in figures if figure.name not in left_out] for figures in comparable]
        by_run = dict(zip(names, shown, strict=True))
        listed = [figure for figures in shown for figure in figures]
        parts = list(dict.fromkeys(figure.part_of for figure in listed))
        meanings = {figure.name: figure.meaning for figure in listed[::-1] if figure.meaning and figure.is_main}
        tables, plots = [], []
        for part in parts:
            of_part = {name: by_part(figures).get(part, []) for name, figures in by_run.items()}
            tables.append((part, _rows(of_part)))
            known = any(figure.value is not None for figures in of_part.values() for figure in figures)
            if part and known:
                plots.append((part, runs_plot(of_part, part)))
        notes = [f"{name}: {note}" for name, figures in by_run.items() for note in missing_intervals(figures)]
        if left_out:
            notes.append(f"Parts that have no interval in any run are left out: {joined_names(left_out)}.")
        context = {
            "id": measurement.name,
            "title": measurement.title,
            "names": names,
            "tables": tables,
            "choices": [part for part, _ in plots],
            "notes": notes,
            "meanings": meanings,
        }
        drawn = {f"runs-{measurement.name}": [plot for _, plot in plots]}
        name = f"overview-{measurement.name}"
        sections.append(section(name, measurement.title, "report/overview.html.jinja", context, drawn))
    return sections


def _without_interval(runs: Sequence[Sequence[Figure]]) -> list[str]:
    parts = [figure for figures in runs for figure in figures if figure.part_of]
    known = {figure.name for figure in parts if figure.interval is not None or not figure.no_interval}
    return [name for name in dict.fromkeys(figure.name for figure in parts) if name not in known]


def _rows(by_run: Mapping[str, Sequence[Figure]]) -> list[tuple[str, list[Figure | None]]]:
    of_run = [{figure.name: figure for figure in figures} for figures in by_run.values()]
    labels = {figure.name: figure.label for figures in by_run.values() for figure in figures}
    return [(label, [figures.get(name) for figures in of_run]) for name, label in labels.items()]
