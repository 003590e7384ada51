"""Rewrites a run's report from its results.json, or writes a page that compares several runs.

holistic-bias report runs/gpt2
holistic-bias report runs/before runs/no_bias runs/bias --names before no_bias bias --output comparison.html
"""

from collections.abc import Sequence
from pathlib import Path

from hb_dataset.command_line import CommandParser, safe_terminal
from hb_metrics.command.analyse import write_run_report
from hb_metrics.command.gates import GATE_STATUS
from hb_metrics.measurements.results import read_run
from hb_metrics.report.changes import generalised_section
from hb_metrics.report.comparison import write_comparison
from hb_metrics.report.no_worse import MarginVerdict
from hb_metrics.report.sides import Sides, sides_lines
from hb_metrics.run.run_folder import REPORT_FILE, run_digest
from hb_metrics.stats.clusters import Over

COMPARISON_FILE = "comparison.html"


@safe_terminal()
def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(prog="holistic-bias report", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "runs",
        type=Path,
        nargs="+",
        metavar="RUN",
        help="The folders of one or more finished runs. With several runs, the page compares each later run with the "
        "first, and shows the second in the most detail.",
    )
    parser.add_argument(
        "--names",
        nargs="+",
        metavar="NAME",
        help="The names of the runs on the page, in the order of the folders. Default: their models, tags or folders.",
    )
    parser.add_argument(
        "--output",
        type=Path,
        help=f"The HTML file to write. Default: {REPORT_FILE} in the folder of a single run, or {COMPARISON_FILE} in "
        "the folder of the last of several runs.",
    )
    parser.add_argument(
        "--human_evaluation",
        type=Path,
        help="The human_evaluation.json that `human-eval analyse` wrote for two of these runs.",
    )
    parser.add_argument(
        "--no_worse_than",
        nargs="+",
        metavar="FIGURE=MARGIN",
        help="Exit with status 3 if a figure in any later run may be worse than in the first run by more than its "
        "margin. Write a margin in percent of the first run's value (dialogue_perplexity=5%%), in percentage points "
        "(offensive_replies=0.5pt), or in the figure's unit (full_gen_bias_debiased=2).",
    )
    parser.add_argument(
        "--generalise",
        choices=("terms", "templates", "both"),
        help="Add wider intervals to the report of one run. They generalise to other terms of the same axes, to other "
        "templates, or to both. No model is needed.",
    )
    parser.add_argument(
        "--without_texts", action="store_true", help="Leave prompts and replies out of the report of one run."
    )
    try:
        path, sides, verdicts = write(**vars(parser.parse_args(argv)))
    except (ValueError, OSError) as error:
        raise SystemExit(f"hb_metrics.report: {error}") from error
    if sides is not None:
        print("\n" + "\n".join(sides_lines(sides)))
    print(f"report: {path.resolve()}")
    for verdict in verdicts:
        print(verdict.sentence)
    if not all(verdict.is_shown for verdict in verdicts):
        raise SystemExit(GATE_STATUS)


def write(
    runs: Sequence[Path],
    output: Path | None = None,
    names: Sequence[str] | None = None,
    human_evaluation: Path | None = None,
    no_worse_than: Sequence[str] | None = None,
    generalise: Over | None = None,
    without_texts: bool = False,
) -> tuple[Path, Sides | None, list[MarginVerdict]]:
    path = output or (runs[0] / REPORT_FILE if len(runs) == 1 else runs[-1] / COMPARISON_FILE)
    if output is not None and not path.parent.is_dir():
        raise ValueError(f"the folder '{path.parent}' does not exist; create it first")
    for_several = {"names": names, "human_evaluation": human_evaluation, "no_worse_than": no_worse_than}
    given = [name for name, value in for_several.items() if value is not None]
    if len(runs) == 1 and given:
        raise ValueError(f"--{given[0]} needs two or more runs, but only one was passed; pass another run")
    for name, value in {"without_texts": without_texts, "generalise": generalise}.items():
        if len(runs) > 1 and value:
            raise ValueError(f"--{name} accepts only one run, but {len(runs)} were passed; pass one run at a time")
    folders = [folder.resolve() for folder in runs]
    if repeated := [str(folder) for folder in folders if folders.count(folder) > 1]:
        raise ValueError(f"the run '{repeated[0]}' was passed twice; pass each run once")
    if len(runs) > 1:
        earlier = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        is_ours = not earlier or f'data-runs="{" ".join(map(run_digest, runs))}"' in earlier
        if not is_ours and (output is None or 'data-runs="' in earlier):
            raise ValueError(f"'{path}' compares other runs; set --output to another file, or remove this page")
        return path, *write_comparison(runs, path, names, human_evaluation, no_worse_than or ())
    run = read_run(runs[0])
    more = [] if generalise is None else [generalised_section(run, generalise)]
    write_run_report(run, path, more=more, with_texts=not without_texts)
    return path, None, []


if __name__ == "__main__":
    main()
