"""Computes win rates and agreement from the ratings of a human evaluation, and writes them to JSON and a page.

holistic-bias human-eval analyse ratings/*.jsonl --study runs/raters/study.json
"""

from collections.abc import Sequence
from pathlib import Path

from hb_dataset.command_line import CommandParser
from hb_dataset.whole_files import write_text
from hb_metrics.human_eval.analysis import HumanEvaluation, analyse
from hb_metrics.human_eval.ratings import read_ratings
from hb_metrics.human_eval.section import answers, human_evaluation_section
from hb_metrics.human_eval.study import STUDY_FILE, beside_answers, read_study
from hb_metrics.layout.rendering import render
from hb_metrics.run.run_folder import write_json
from hb_metrics.run.typed_json import to_json

RESULTS_FILE, PAGE_FILE = "human_evaluation.json", "human_evaluation.html"


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "ratings",
        type=Path,
        nargs="+",
        metavar="RATINGS",
        help="The files that the raters saved, or a crowdsourcing platform's JSON Lines file with the fields study, "
        "task, rater and choice.",
    )
    parser.add_argument(
        "--study",
        type=Path,
        help=f"The {STUDY_FILE} that `human-eval export` wrote. Default: the {STUDY_FILE} in the folder of the ratings "
        "or in its parent folder.",
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
        help="The number of attention checks that a rater may fail. Raters who failed more checks are excluded. "
        "Default: %(default)s.",
    )
    arguments = parser.parse_args(argv)
    path = arguments.study or beside_answers(arguments.ratings[0], STUDY_FILE)
    if not path.is_file():
        parser.error(f"'{path}' does not exist; set --study to the {STUDY_FILE} to which these ratings belong")
    output = arguments.output_dir or path.parent
    study = read_study(path)
    ratings = read_ratings(arguments.ratings, study)
    results = analyse(study, ratings, max_failed_checks=arguments.max_failed_checks)
    output.mkdir(parents=True, exist_ok=True)
    write_json(output / RESULTS_FILE, to_json(results))
    names = {"before": results.runs[0].name, "after": results.runs[1].name}
    context = {"section": human_evaluation_section(results), "terms": "null"}
    write_text(output / PAGE_FILE, render("human_eval/results.html.jinja", {**context, **names}))
    print("\n".join(summary_lines(results)))
    print(f"results: {(output / RESULTS_FILE).resolve()}")
    print(f"page: {(output / PAGE_FILE).resolve()}")


def summary_lines(results: HumanEvaluation) -> list[str]:
    number = results.num_raters
    line = f"{results.num_ratings:,} ratings of {number} rater{'' if number == 1 else 's'}"
    if left_out := [repr(rater.rater) for rater in results.raters if not rater.included]:
        line += f"; excluded for failed attention checks: {', '.join(left_out)}"
    return [line, *answers(results)]
