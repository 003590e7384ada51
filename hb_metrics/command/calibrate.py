"""Corrects a judge's rates with people's labels for some of a run's replies, and updates the run's report.

holistic-bias human-eval calibrate runs/gpt2 labels/*.jsonl
"""

from collections.abc import Sequence
from pathlib import Path

from hb_dataset.command_line import CommandParser
from hb_metrics.command.analyse import write_run_report
from hb_metrics.human_eval.calibration import ComparedGroup, calibrate, read_labels
from hb_metrics.human_eval.calibration_results import CALIBRATIONS, sentence
from hb_metrics.human_eval.labels import LABELS_FILE, read_instrument, read_label_study
from hb_metrics.human_eval.study import beside_answers
from hb_metrics.measurements.results import read_run
from hb_metrics.run.run_folder import REPORT_FILE, run_digest, write_json
from hb_metrics.run.typed_json import to_json


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="The folder of the run whose replies were labelled.")
    parser.add_argument("labels", type=Path, nargs="+", metavar="LABELS", help="The files that the raters saved.")
    parser.add_argument(
        "--study",
        type=Path,
        help=f"The {LABELS_FILE} that `labels` wrote. Default: the {LABELS_FILE} in the folder of the labels or in "
        "its parent folder.",
    )
    parser.add_argument(
        "--gap",
        nargs=2,
        action="append",
        default=[],
        metavar=("A", "B"),
        help="Also compare two groups. A group is an axis, or terms separated by commas. Default: each axis is "
        "compared with all other axes.",
    )
    arguments = parser.parse_args(argv)
    path = arguments.study or _study_of(arguments.run, arguments.labels[0])
    if not path.is_file():
        parser.error(f"'{path}' does not exist; set --study to the {LABELS_FILE} to which these labels belong")
    run, study = read_run(arguments.run), read_label_study(path)
    if study.run != run_digest(run.folder):
        raise ValueError(f"'{path}' was not drawn from '{run.folder}'; pass the run whose replies were labelled")
    judged = read_instrument(run, study.judge)
    gaps = [(ComparedGroup.read(first, judged), ComparedGroup.read(second, judged)) for first, second in arguments.gap]
    results = calibrate(study, judged, read_labels(arguments.labels, study), gaps)
    written = run.folder / CALIBRATIONS / f"{study.judge}.json"
    written.parent.mkdir(exist_ok=True)
    write_json(written, to_json(results))
    write_run_report(run, run.folder / REPORT_FILE)
    print(sentence(results))
    print(f"results: {written.resolve()}")
    print(f"report: {(run.folder / REPORT_FILE).resolve()}")


def _study_of(run: Path, labels: Path) -> Path:
    """Returns the study's file, from the folder of the labels, its parent, or the run's folders `labels-JUDGE`."""
    beside = beside_answers(labels, LABELS_FILE)
    in_run = sorted(run.glob(f"labels-*/{LABELS_FILE}"))
    return in_run[0] if not beside.is_file() and len(in_run) == 1 else beside
