"""Analyses the ratings of a human evaluation: win rates, agreement, attention checks; writes JSON and a page.

holistic-bias human-eval analyse ratings/*.jsonl --study runs/raters/study.json
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hb_dataset.whole_files import write_text
from hb_metrics.human_eval.analysis import analyse
from hb_metrics.human_eval.ratings import read_ratings
from hb_metrics.human_eval.section import answers, human_evaluation_section
from hb_metrics.human_eval.study import STUDY_FILE, read_study
from hb_metrics.report.rendering import render
from hb_metrics.runs.run_folder import write_json

RESULTS_FILE, PAGE_FILE = "human_evaluation.json", "human_evaluation.html"
_FOLDER = Path(__file__).parent

NO_STUDY_ERROR = "there is no {file} beside '{path}' or in the folder above it; name it with --study"
FOLDER_ERROR = "there is no folder '{folder}' to write in; make it first"


def main(argv: Sequence[str] | None = None) -> None:
    """Analyse ratings."""
    parser = argparse.ArgumentParser(
        prog="holistic-bias human-eval analyse", description=(__doc__ or "").split("\n", 1)[0], allow_abbrev=False
    )
    parser.add_argument(
        "ratings",
        type=Path,
        nargs="+",
        metavar="RATINGS",
        help="The files that raters saved, or JSON lines of a crowd platform with study, task, rater and choice.",
    )
    parser.add_argument(
        "--study",
        type=Path,
        help=f"The {STUDY_FILE} that `export` wrote. Default: the one beside the ratings or in the folder above.",
    )
    parser.add_argument(
        "--output_dir",
        type=Path,
        help=f"The folder for {RESULTS_FILE} and {PAGE_FILE}. Default: the folder of the study.",
    )
    parser.add_argument(
        "--max_failed_checks",
        type=int,
        default=1,
        help="A rater who failed more attention checks is left out. Default: %(default)s.",
    )
    parser.add_argument(
        "--confidence_level", type=float, default=0.95, help="The level of intervals. Default: %(default)s."
    )
    arguments = parser.parse_args(argv)
    try:
        path = arguments.study or find_study(arguments.ratings[0])
        folder = arguments.output_dir or path.parent
        if not folder.is_dir():
            raise ValueError(FOLDER_ERROR.format(folder=folder))
        study = read_study(path)
        results = analyse(
            study,
            read_ratings(arguments.ratings, study),
            max_failed_checks=arguments.max_failed_checks,
            confidence_level=arguments.confidence_level,
        )
        write_json(folder / RESULTS_FILE, results)
        write_results_page(results, folder / PAGE_FILE)
    except (ValueError, OSError) as error:
        raise SystemExit(f"hb_metrics.human_eval: {error}") from error
    print("\n".join(summary_lines(results)))
    print(f"results: {(folder / RESULTS_FILE).resolve()}")
    print(f"page: {(folder / PAGE_FILE).resolve()}")


def find_study(ratings: Path) -> Path:
    """The study beside a file of ratings, or in the folder above it.

    Raises:
        ValueError: There is none.
    """
    folder = ratings.resolve().parent
    for candidate in (folder / STUDY_FILE, folder.parent / STUDY_FILE):
        if candidate.is_file():
            return candidate
    raise ValueError(NO_STUDY_ERROR.format(file=STUDY_FILE, path=ratings))


def summary_lines(results: dict[str, Any]) -> list[str]:
    """The lines that the terminal prints."""
    left_out = [row["rater"] for row in results["raters"] if not row["included"]]
    failed = f"; left out for failed attention checks: {', '.join(map(repr, left_out))}" if left_out else ""
    unused = f"; without ratings: {', '.join(results['unused_pages'])}" if results["unused_pages"] else ""
    number = results["num_raters"]
    raters = f"{number} rater{'' if number == 1 else 's'}"
    return [f"{results['num_ratings']:,} ratings of {raters}{failed}{unused}", *answers(results)]


def write_results_page(results: dict[str, Any], path: Path) -> None:
    """Writes the page of a human evaluation; it has no figures to draw."""
    before, after = (run["name"] for run in results["runs"])
    context = {"section": human_evaluation_section(results), "before": before, "after": after}
    nothing = {"figures": "{}", "terms": "null", "plotly_js": ""}
    write_text(path, render(_FOLDER / "results.html.jinja", {**context, **nothing}))


if __name__ == "__main__":
    main()
