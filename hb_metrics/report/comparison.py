"""Writes a page with runs side by side, such as before and after tuning; `comparison.html.jinja` lays it out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hb_metrics.display.parts import Section
from hb_metrics.display.rendering import write_page
from hb_metrics.display.run_changes import RunChanges, changes_section, joined_changes
from hb_metrics.human_eval.section import check_runs, human_evaluation_section, read_results
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.report.differences import Difference, differing_settings
from hb_metrics.report.run_names import run_names
from hb_metrics.runs.finished_run import Run, read_run
from hb_metrics.runs.run_folder import run_digest
from hb_metrics.runs.run_record import tag_of

_FOLDER = Path(__file__).parent

TOO_FEW_RUNS_ERROR = "{num_runs} run to compare; give the folders of two runs or more"
NOTHING_IN_COMMON_ERROR = (
    "'{first}' measured {before} and '{second}' {after}; give runs that have a measurement in common"
)
OTHER_PROMPTS_WARNING = "The runs have different prompts. Figures over all terms or all templates do not compare."


def write_comparison(
    runs: Sequence[Path],
    path: Path,
    names: Sequence[str] | None = None,
    labels: Path | None = None,
    human_evaluation: Path | None = None,
) -> None:
    """Writes a page with an overview of all runs, then the first and the second in detail.

    Args:
        runs: Folders of two runs or more, first the one that others are compared with, such as before tuning.
        path: The HTML file to write.
        names: What to call the runs; `None`: by their models, tags or folders.
        labels: The folder of the labels that a model was tuned on, whose ceiling and directions are shown; `None`: the
            directions are those of the first run.
        human_evaluation: The results of a human evaluation of two of the runs; `None`: there are none.

    Raises:
        ValueError: There are fewer than two runs, a folder is not that of a finished run, there is not one
            distinct name per run, a run has no measurement in common with the first, or the human evaluation is of
            other runs.
    """
    if len(runs) < 2:
        raise ValueError(TOO_FEW_RUNS_ERROR.format(num_runs=len(runs)))
    finished = [read_run(folder) for folder in runs]
    called = run_names(finished, names)
    for other in finished[1:]:
        _check_in_common(finished[0], other)
    results = [run.results for run in finished]
    differences = differing_settings([run["run"] for run in results])
    first, second = finished[:2]
    pair = called[0], called[1]
    overviews = [
        section for measurement in MEASUREMENTS if (section := measurement.overview(finished, called)) is not None
    ]
    overviews += [
        section for measurement in MEASUREMENTS if (section := measurement.tuned(finished, called, labels)) is not None
    ]
    overviews = [*_changes(finished, called), *overviews]
    compared = [
        measurement.compare(first, second, pair)
        for measurement in MEASUREMENTS
        if measurement.name in first.results and measurement.name in second.results
    ]
    sections = [section for comparison in compared for section in comparison.sections]
    if human_evaluation is not None:
        of_people = read_results(human_evaluation)
        check_runs(of_people, [run_digest(folder) for folder in runs], human_evaluation)
        sections.append(human_evaluation_section(of_people))
    context = {
        "names": called,
        "pair": pair,
        "runs": [run["run"] for run in results],
        "tags": [tag_of(run) for run in results],
        "differences": differences,
        "warnings": comparison_warnings(differences, results),
        "in_some": {
            measurement.title: [name for name, run in zip(called, results, strict=True) if measurement.name in run]
            for measurement in MEASUREMENTS
            if 0 < sum(measurement.name in run for run in results) < len(results)
        },
        "overviews": overviews,
        "tiles": [tile for comparison in compared for tile in comparison.tiles],
        "sections": sections,
        "readings": [comparison.reading for comparison in compared if comparison.reading is not None],
    }
    figures = {id: plots for section in (*overviews, *sections) for id, plots in section.figures.items()}
    terms = next((comparison.terms for comparison in compared if comparison.terms is not None), None)
    write_page(_FOLDER / "comparison.html.jinja", path, context, figures, terms)


def comparison_warnings(differences: Sequence[Difference], runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences on what the differing settings mean for the comparison.

    Args:
        differences: The settings that differ.
        runs: [runs] contents of their results.json.
    """
    changed = {difference.name for difference in differences if difference.contradicts}
    sentences = [OTHER_PROMPTS_WARNING] if changed & {"data.digest", "data.config"} else []
    measured = [measurement for measurement in MEASUREMENTS if any(measurement.name in run for run in runs)]
    return sentences + [text for measurement in measured for text in measurement.warnings(changed, runs)]


def run_changes(first: Run, second: Run, names: tuple[str, str]) -> RunChanges:
    """How all figures of two runs change, with intervals."""
    by_title = {
        measurement.title: changes
        for measurement in MEASUREMENTS
        if measurement.name in first.results and measurement.name in second.results
        if (changes := measurement.changes(first, second)) is not None
    }
    return joined_changes(*names, by_title)


def _changes(runs: Sequence[Run], names: Sequence[str]) -> list[Section]:
    """The section with the changes from the first run to each later one; none: there is nothing to show."""
    changes = [run_changes(runs[0], run, (names[0], name)) for run, name in zip(runs[1:], names[1:], strict=True)]
    shown = [of_run for of_run in changes if of_run.rows or of_run.missing]
    return [changes_section(shown)] if shown else []


def _check_in_common(first: Run, second: Run) -> None:
    measured = [
        [measurement.name for measurement in MEASUREMENTS if measurement.name in run.results] for run in (first, second)
    ]
    if not set(measured[0]) & set(measured[1]):
        before, after = (", ".join(names) or "nothing" for names in measured)
        raise ValueError(
            NOTHING_IN_COMMON_ERROR.format(first=first.folder, before=before, second=second.folder, after=after)
        )
