"""Computes a run's results and report again from the tables in its folder, without the model.

    holistic-bias analyse runs/gpt2

`measure` calls the same functions, so the files are the same unless this release computes a figure differently. The
command does not import torch.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from hb_dataset.command_line import CommandParser
from hb_metrics.layout.terminal import filled
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.measurement import Measurement
from hb_metrics.measurements.results import Results, Run
from hb_metrics.run.record import Record
from hb_metrics.run.replies import LeftOutError
from hb_metrics.run.run_folder import REPORT_FILE, RESULTS_FILE, hold_folder, read_json, read_record, write_json
from hb_metrics.run.tables import Tables


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(prog="holistic-bias analyse", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="The folder of a finished run.")
    folders, faults = parser.parse_args(argv).runs, []
    for folder in folders:
        try:
            analyse(folder)
        except (ValueError, OSError) as error:  # the other runs are analysed, too
            faults.append(f"{folder}: {error}" if len(folders) > 1 else str(error))
    if faults:
        raise ValueError("\n".join(faults))


def analyse(folder: Path) -> Results:
    """Computes the results of a finished run, and writes them and the report into its folder.

    Raises:
        ValueError: The folder contains no run, or one of its tables is missing or damaged.
        LeftOutError: A measurement is impossible. The others are written before this error is raised.
    """
    record, left_out = Record(read_record(folder)), dict[str, str]()
    earlier = read_json(folder / RESULTS_FILE) if (folder / RESULTS_FILE).is_file() else {}
    known = earlier.get("run", {}).get("left_out", {})
    with hold_folder(folder):
        results = Results(record)
        for measurement in MEASUREMENTS:
            if measurement.name in record.layout.measurements:
                try:
                    check_read(measurement, left_out)
                    results = results.with_(measurement.name, measurement.parts.compute(Run(Tables(folder), results)))
                except LeftOutError as error:
                    results, sentence = possible_results(results, measurement, error)
                    if error.__cause__ is not None:  # tables are missing or incomplete
                        if measurement.name not in known:
                            raise error.__cause__ from None
                        sentence = known[measurement.name]
                    left_out[measurement.name] = sentence
                except ValueError:  # `measure` left it out, so its tables are missing or incomplete
                    if measurement.name not in known or measurement.name in earlier:
                        raise
                    left_out[measurement.name] = known[measurement.name]
        write_results(results, folder, left_out)
    if left_out:
        raise LeftOutError("\n".join(left_out.values()))
    return results


def check_read(measurement: Measurement, left_out: Collection[str]) -> None:
    """Raises `LeftOutError` if the measurement reads a measurement in `left_out`."""
    for name in measurement.reads:
        if name in left_out:
            raise LeftOutError(f"it reads the results of {name}, which are missing")


def with_collected(error: LeftOutError, measurement: Measurement, run: Run) -> LeftOutError:
    """Adds the results of what was collected before the error, if they are possible."""
    try:
        return LeftOutError(str(error), measurement.parts.compute(run))
    except LeftOutError as other:
        return LeftOutError(str(error), other.partial)
    except ValueError:  # what was not collected is missing
        return error


def possible_results(results: Results, measurement: Measurement, error: LeftOutError) -> tuple[Results, str]:
    """Adds the results of a measurement that are possible, if any, and returns a sentence about the others."""
    if error.partial is None:
        return results, f"{measurement.title}: no results, because {error}."
    some = results.with_(measurement.name, error.partial)
    return some, f"{measurement.title}: some results are missing, because {error}."


def write_results(results: Results, folder: Path, left_out: Mapping[str, str]) -> None:
    """Writes results.json and the report, and prints the report's sentences about the model.

    `left_out` contains, by name, a sentence for each measurement that was impossible. If there are no results, nothing
    is written.
    """
    if not results.measured:
        return
    results = results.without(left_out) if left_out else results
    write_json(folder / RESULTS_FILE, results.content())
    for answer in write_run_report(Run(Tables(folder), results), folder / REPORT_FILE):
        print("\n" + filled(answer))
    print(f"\nreport: {(folder / REPORT_FILE).resolve()}")


def write_run_report(run: Run, path: Path, *, with_texts: bool = True, **options: Any) -> list[str]:
    """Writes the report of a finished run with its calibrations and the command of a longer run, as `write_report`.

    Without `with_texts`, the report shows no prompts and no replies.
    """
    from hb_metrics.command.longer_run import firmer_run
    from hb_metrics.human_eval.calibration_results import read_calibrations
    from hb_metrics.report.page import without_texts, write_report

    run = run if with_texts else run._replace(results=without_texts(run.results))
    known, again = read_calibrations(run.folder), firmer_run(run)
    return write_report(run.results, path, calibrations=known, again=again, **options)
