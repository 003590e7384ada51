"""Writes a run's report anew from its results.json, or a page with several runs side by side.

python -m hb_metrics.report runs/gpt2
python -m hb_metrics.report runs/before runs/no_bias runs/bias --names before no_bias bias --output comparison.html
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from jinja2 import UndefinedError

from hb_metrics.report.comparison import write_comparison
from hb_metrics.report.page import write_report
from hb_metrics.runs.finished_run import read_run
from hb_metrics.runs.run_folder import REPORT_FILE

COMPARISON_FILE = "comparison.html"


def main(argv: Sequence[str] | None = None) -> None:
    """Write the report of one run, or compare several."""
    parser = argparse.ArgumentParser(prog="holistic-bias report", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "runs",
        type=Path,
        nargs="+",
        metavar="RUN",
        help="The folder of a finished run. Several runs are compared with the first, and the second in detail.",
    )
    parser.add_argument(
        "--names",
        nargs="+",
        metavar="NAME",
        help="The names of the runs on the page, in the same order. Default: their models, tags or folders.",
    )
    parser.add_argument(
        "--output",
        type=Path,
        help=f"The HTML file to write. Default: {REPORT_FILE} in the run's folder, or {COMPARISON_FILE} in the last of "
        "several folders.",
    )
    parser.add_argument(
        "--labels",
        type=Path,
        help="The folder of the labels that a model was tuned on: its ceiling and its directions of bias are shown "
        "beside the runs. Default: the directions of the first run.",
    )
    parser.add_argument(
        "--human_evaluation",
        type=Path,
        help="The human_evaluation.json that `human-eval analyse` wrote, to be shown beside the two runs it is about.",
    )
    arguments = parser.parse_args(argv)
    try:
        path = write(
            arguments.runs,
            arguments.output,
            arguments.names,
            arguments.labels,
            arguments.human_evaluation,
        )
    except (ValueError, OSError) as error:
        raise SystemExit(f"hb_metrics.report: {error}") from error
    except (KeyError, UndefinedError) as error:  # from Python, or from a template
        raise SystemExit(f"hb_metrics.report: the results lack {error}; measure again in a new folder") from error
    print(f"report: {path.resolve()}")


def write(
    runs: Sequence[Path],
    output: Path | None,
    names: Sequence[str] | None = None,
    labels: Path | None = None,
    human_evaluation: Path | None = None,
) -> Path:
    """Writes the page and returns its path.

    Raises:
        ValueError: A folder is not that of a finished run, the names do not fit the runs, or there is no folder to
            write the page to.
    """
    path = output or (runs[0] / REPORT_FILE if len(runs) == 1 else runs[-1] / COMPARISON_FILE)
    if output is not None and not output.parent.is_dir():
        raise ValueError(f"there is no folder '{output.parent}' to write in; make it first")
    if len(runs) > 1:
        write_comparison(runs, path, names, labels, human_evaluation)
    elif names is not None:
        raise ValueError("--names are for several runs, and there is one; name two or more runs, or leave --names out")
    elif labels is not None:
        raise ValueError("--labels are for several runs, and there is one; name two or more, such as before and after")
    elif human_evaluation is not None:
        raise ValueError("--human_evaluation is of two runs, and there is one; name both")
    else:
        write_report(read_run(runs[0]).results, path)
    return path


if __name__ == "__main__":
    main()
