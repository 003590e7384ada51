"""Writes a run's report anew from its results.json, or a page with two runs side by side.

python -m hb_metrics.report runs/gpt2
python -m hb_metrics.report runs/before runs/after --output comparison.html
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from hb_metrics.finished_run import read_run
from hb_metrics.report.comparison import write_comparison
from hb_metrics.report.page import write_report
from hb_metrics.run_folder import REPORT_FILE

COMPARISON_FILE = "comparison.html"

INCOMPLETE_ERROR = "the results lack {name}; they may be of another release: measure again"
FOLDER_ERROR = "there is no folder '{folder}' to write in; make it first"


def main(argv: Sequence[str] | None = None) -> None:
    """Write the report of one run, or compare two."""
    parser = argparse.ArgumentParser(prog="python -m hb_metrics.report", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("run", type=Path, help="The folder of a finished run.")
    parser.add_argument("other", type=Path, nargs="?", help="The folder of a run to put beside it.")
    parser.add_argument(
        "--output",
        type=Path,
        help=f"The HTML file to write; default: {REPORT_FILE} in the folder, or {COMPARISON_FILE} in the second.",
    )
    arguments = parser.parse_args(argv)
    try:
        path = write(arguments.run, arguments.other, arguments.output)
    except (ValueError, OSError) as error:
        raise SystemExit(f"hb_metrics.report: {error}") from error
    except KeyError as error:
        raise SystemExit(f"hb_metrics.report: {INCOMPLETE_ERROR.format(name=error)}") from error
    print(f"report: {path.resolve()}")


def write(run: Path, other: Path | None, output: Path | None) -> Path:
    """Writes the page and returns its path.

    Raises:
        ValueError: A folder is not that of a finished run, or there is nowhere to write.
    """
    path = output or (run / REPORT_FILE if other is None else other / COMPARISON_FILE)
    if output is not None and not output.parent.is_dir():
        raise ValueError(FOLDER_ERROR.format(folder=output.parent))
    if other is None:
        write_report(read_run(run).results, path)
    else:
        write_comparison(run, other, path)
    return path


if __name__ == "__main__":
    main()
