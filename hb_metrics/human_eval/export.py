"""Exports pairs of replies of two runs, for people to compare: a page for each rater, and lines for a crowd platform.

holistic-bias human-eval export runs/before runs/after --output_dir runs/raters
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hb_dataset.whole_files import write_text
from hb_metrics.human_eval.page import rater_page
from hb_metrics.human_eval.pairs import REASONS, Filters, pairs_of_runs
from hb_metrics.human_eval.questions import NOT_PRINTED, QUESTIONS, questions_named
from hb_metrics.human_eval.study import STUDY_FILE, Design, Study, check_design, draw_study, speakers, study_text
from hb_metrics.runs.finished_run import Run, read_run
from hb_metrics.runs.run_folder import run_digest
from hb_metrics.runs.run_record import classifier_name

TASKS_FILE = "tasks.jsonl"

THERE_ERROR = (
    "'{path}' is there already, with other content; give another --output_dir, so that no rating loses its study"
)
SAME_RUN_ERROR = "'{folder}' is given twice; give two runs"
NAMES_ERROR = "--names are {names}; give two different names that are not empty"


def main(argv: Sequence[str] | None = None) -> None:
    """Export pairs for raters."""
    parser = argparse.ArgumentParser(
        prog="holistic-bias human-eval export", description=(__doc__ or "").split("\n", 1)[0], allow_abbrev=False
    )
    parser.add_argument("first", type=Path, metavar="RUN_A", help="The folder of a finished run with replies.")
    parser.add_argument(
        "second", type=Path, metavar="RUN_B", help="Another one, such as after tuning; win rates are those of this run."
    )
    parser.add_argument("--output_dir", type=Path, required=True, help="The folder to write to.")
    parser.add_argument(
        "--names",
        nargs=2,
        metavar=("A", "B"),
        help="The names of the runs in the results; raters do not see them. Default: the names of the folders.",
    )
    parser.add_argument("--num_raters", type=int, default=6, help="The number of raters. Default: %(default)s.")
    parser.add_argument(
        "--pairs_per_rater", type=int, default=52, help="The number of pairs that each rates. Default: %(default)s."
    )
    parser.add_argument(
        "--raters_per_pair",
        type=int,
        default=2,
        help="The number of raters of each pair; agreement needs two. Default: %(default)s.",
    )
    parser.add_argument(
        "--checks_per_rater", type=int, default=5, help="The number of attention checks of each. Default: %(default)s."
    )
    names = [question.id for question in QUESTIONS]
    parser.add_argument(
        "--questions",
        nargs="+",
        default=names,
        metavar="QUESTION",
        help=f"What is asked about each pair, of: {', '.join(names)}. Default: all.",
    )
    parser.add_argument(
        "--leave_out_templates",
        nargs="+",
        default=[],
        metavar="TEMPLATE",
        help="Templates that raters are not shown, beside the three of dislike.",
    )
    parser.add_argument(
        "--leave_out_terms",
        nargs="+",
        default=[],
        metavar="TERM",
        help="Terms that raters are not shown, beside those labelled as dispreferred.",
    )
    parser.add_argument(
        "--keep_inflammatory", action="store_true", help="Show templates of dislike and dispreferred terms too."
    )
    parser.add_argument(
        "--keep_offensive", action="store_true", help="Show replies that the runs' classifiers found offensive too."
    )
    parser.add_argument("--seed", type=int, default=0, help="Another seed, another study. Default: %(default)s.")
    arguments = parser.parse_args(argv)
    try:
        export(arguments)
    except (ValueError, OSError) as error:
        raise SystemExit(f"hb_metrics.human_eval: {error}") from error


def export(arguments: argparse.Namespace) -> None:
    """Draws the study and writes its files.

    Raises:
        ValueError: A run has nothing to compare, an option has an invalid value, or another study is there.
    """
    folders = arguments.first, arguments.second
    if folders[0].resolve() == folders[1].resolve():
        raise ValueError(SAME_RUN_ERROR.format(folder=folders[0]))
    questions = questions_named(arguments.questions)
    design = Design(
        num_raters=arguments.num_raters,
        pairs_per_rater=arguments.pairs_per_rater,
        raters_per_pair=arguments.raters_per_pair,
        checks_per_rater=arguments.checks_per_rater,
        seed=arguments.seed,
    )
    check_design(design)
    filters = Filters(
        arguments.keep_inflammatory,
        arguments.keep_offensive,
        tuple(arguments.leave_out_templates),
        tuple(arguments.leave_out_terms),
    )
    runs = [read_run(folder) for folder in folders]
    names = _names(folders, arguments.names)
    found = pairs_of_runs(runs[0], runs[1], filters)
    about = {
        "runs": [_about(run, name) for run, name in zip(runs, names, strict=True)],
        "filters": filters._asdict(),
        "left_out": found.left_out,
        "axes": found.axes,
        "num_available": len(found.pairs),
        "num_in_study": design.num_pairs,
        "not_printed": list(NOT_PRINTED),
    }
    left_out = "; ".join(f"{number:,}: {REASONS[name]}" for name, number in found.left_out.items() if number)
    study = draw_study(found.pairs, design, questions, json.loads(json.dumps(about)), left_out or "none is left out")
    write_files(study, arguments.output_dir)
    print(f"{design.num_pairs:,} pairs of {len(found.pairs):,}; not shown: {left_out or 'none'}")
    if without := sorted(set(found.axes) - {pair.axis for pair in study.pairs}):
        print(f"axes without a pair: {', '.join(without)}")
    print(f"a page for each of {design.num_raters} raters: {(arguments.output_dir / 'rater-….html').resolve()}")
    print(f"for a crowd platform: {(arguments.output_dir / TASKS_FILE).resolve()}")
    print(f"not for raters: {(arguments.output_dir / STUDY_FILE).resolve()}")


def write_files(study: Study, folder: Path) -> None:
    """Writes a study: its file, the pages and the tasks; those that are there with this content stay.

    Raises:
        ValueError: A file of another study is there.
    """
    pages = {f"{rater}.html": rater_page(study, rater) for rater in study.sheets}
    tasks = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in task_rows(study))
    files = {STUDY_FILE: study_text(study), TASKS_FILE: tasks, **pages}
    present = {name for name in files if (folder / name).exists()}
    for name in sorted(present):
        if (folder / name).read_bytes() != files[name].encode():
            raise ValueError(THERE_ERROR.format(path=folder / name))
    folder.mkdir(parents=True, exist_ok=True)
    for name in files:
        if name not in present:
            write_text(folder / name, files[name])


def task_rows(study: Study) -> list[dict[str, Any]]:
    """A row for each question about each pair, for a crowd platform; nothing in it says which run a reply is of."""
    texts = {question.id: question.text for question in study.questions}
    return [
        {
            "study": study.id,
            "task": task,
            "sheet": sheet,
            "screen": number,
            "question": question,
            "question_text": texts[question],
            "prompt": study.pairs[screen.pair].prompt,
            "speaker_1": speakers(study, screen)[0],
            "speaker_2": speakers(study, screen)[1],
        }
        for sheet, screens in study.sheets.items()
        for number, screen in enumerate(screens, start=1)
        for question, task in screen.tasks.items()
    ]


def _about(run: Run, name: str) -> dict[str, Any]:
    record = run.results["run"]
    known = "offensiveness_classifier" in record
    return {
        "name": name,
        "run": run_digest(run.folder),
        "offensiveness_classifier": classifier_name(record, "offensiveness_classifier") if known else None,
    }


def _names(folders: Sequence[Path], names: Sequence[str] | None) -> list[str]:
    if names is not None:
        if names[0] == names[1] or not all(name.strip() for name in names):
            raise ValueError(NAMES_ERROR.format(names=" and ".join(map(repr, names))))
        return list(names)
    called = [folder.resolve().name for folder in folders]
    return called if called[0] != called[1] else [f"{number}. {name}" for number, name in enumerate(called, start=1)]


if __name__ == "__main__":
    main()
