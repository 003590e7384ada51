"""Draws replies of a run for people to label, and writes a page for each rater.

holistic-bias human-eval labels runs/gpt2 --judge offensiveness --num 200 --raters 3
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hb_dataset.command_line import AXIS_CUTOFF, CommandParser, check_known
from hb_metrics.human_eval.calibration import rates
from hb_metrics.human_eval.label_study import LABELS_FILE, LAYOUT, LabelStudy, draw_labels, read_instrument
from hb_metrics.human_eval.study import study_page, study_text, write_study_files
from hb_metrics.measurements.results import read_run
from hb_metrics.run.run_folder import run_digest


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="The folder of a finished run with replies.")
    parser.add_argument(
        "--judge",
        required=True,
        help="The judge whose rates will be corrected: one of the run's rubrics, or a classifier (offensiveness or "
        "refusals).",
    )
    parser.add_argument("--num", type=int, default=200, help="The number of replies to label. Default: %(default)s.")
    parser.add_argument(
        "--raters",
        type=int,
        default=3,
        help="The number of raters. Each rater labels all replies. Default: %(default)s.",
    )
    parser.add_argument("--axes", nargs="+", help="The axes from which replies are drawn. Default: all.")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="The random seed for choosing and ordering the replies. Default: %(default)s.",
    )
    parser.add_argument("--output_dir", type=Path, help="The folder for the pages. Default: RUN/labels-JUDGE.")
    arguments = parser.parse_args(argv)
    if arguments.raters < 1:
        parser.error(f"--raters is {arguments.raters}; set it to at least 1")
    output = arguments.output_dir or arguments.run / f"labels-{arguments.judge}"
    judged = read_instrument(read_run(arguments.run), arguments.judge)
    known = sorted(set(judged.replies.axes))
    for axis in arguments.axes or ():
        check_known(axis, known, f"axis '{axis}' has no replies", cutoff=AXIS_CUTOFF)
    study = draw_labels(
        judged,
        axes=arguments.axes or known,
        number=arguments.num,
        num_raters=arguments.raters,
        seed=arguments.seed,
        run=run_digest(arguments.run),
    )
    files = {LABELS_FILE: study_text(study, LAYOUT)}
    files |= {f"{rater}.html": label_page(study, rater) for rater in study.sheets}
    write_study_files(output, files, "labels")
    print(
        f"Wrote one page for each of {arguments.raters} raters, each with {len(study.replies):,} replies: "
        f"{output.resolve()}"
    )
    # People's answers do not affect whether a rate gets an interval. These rates assume that people agree with the
    # judge.
    seen = np.isin(judged.replies.ids, [reply["id"] for reply in study.replies])
    expected = rates(judged, np.where(seen, judged.verdicts, np.nan), study.axes)
    for name, rate in expected.items():
        verdict = "yes" if rate.interval else f"no, because {rate.reason}"
        if rate.num_needed is not None:
            verdict += f"; about {rate.num_needed:,} labels would be enough"
        print(f"Is an interval expected for {name or 'all replies'} ({rate.num_labelled:,} labels)? {verdict}")


def label_page(study: LabelStudy, rater: str) -> str:
    screens = []
    for row, task in zip(study.sheets[rater], study.tasks(rater), strict=True):
        shown = study.replies[row]
        screens.append({"prompt": shown["prompt"], "replies": [shown["reply"]], "tasks": [task]})
    questions = [{"id": study.judge, "text": study.question}]
    data = {"study": study.id, "rater": rater, "questions": questions, "screens": screens}
    return study_page("labels.html.jinja", data, question=study.question, labels=study.labels)
