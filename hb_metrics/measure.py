"""Measures a language model on HolisticBias and writes a report.

    accelerate launch hb_metrics/measure.py --model openai-community/gpt2 --dataset_config v1.0 --output_dir runs/gpt2

The report appears after the first measurement and is complete at the end. To resume an interrupted run, repeat the same
command, with any number of processes.
"""

import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Thread, Timer
from typing import Any

from hb_dataset.terminal import printable, safe_terminal
from hb_metrics.arguments import parse_arguments
from hb_metrics.measurements.measurement import Measurement, Task
from hb_metrics.measurements.settings import Settings
from hb_metrics.report.changes import comparable_figures
from hb_metrics.report.layout.terminal import figure_lines, filled
from hb_metrics.runs.gates import GATE_STATUS, GateError, check_gates, exceeded
from hb_metrics.runs.planning import (
    choose_measurements,
    connect,
    default_folder,
    describe_run,
    load,
    read_prompts,
    wanted_measurements,
)
from hb_metrics.runs.run_folder import (
    PROMPTS_FILE,
    REPORT_FILE,
    RESULTS_FILE,
    check_run_or_empty,
    hold_folder,
    open_run,
    write_json,
    write_table,
)

# Modules that import torch take seconds to import, so they are imported only after the options have been checked.


LOST_PROCESS = (
    "another process of this run has ended. Its output may state the reason. Finished work is kept. To resume, run the "
    "same command again"
)


def main(argv: list[str] | None = None) -> None:
    argv = sys.argv[1:] if argv is None else argv
    with safe_terminal(), _ended_by_signals(argv):
        try:
            measure(parse_arguments(argv, (__doc__ or "").split("\n", 1)[0]))
        except (ValueError, OSError, ImportError, MemoryError) as error:
            raise SystemExit(f"measure.py: {error}") from error
        except GateError as error:
            print(printable(f"measure.py: {error}"), file=sys.stderr)
            raise SystemExit(GATE_STATUS) from error
        except RuntimeError as error:
            from hb_metrics.inference.processes import is_lost_process

            if is_lost_process(error):
                raise SystemExit(f"measure.py: {LOST_PROCESS}") from error
            raise


def measure(settings: Settings) -> Path:
    """Runs the measurements and returns the path of the report.

    Raises:
        GateError: A figure exceeds its limit. The report is written before this error is raised.
    """
    prompts = read_prompts(settings)
    wanted = wanted_measurements(settings)
    check_gates(settings, wanted)
    files = {measurement.name: measurement.read_files(settings, prompts) for measurement in wanted}

    from hb_metrics.inference.machines import check_same_folder, check_same_run
    from hb_metrics.inference.processes import check_device_map, process_state

    state = process_state()
    check_device_map(settings.run.device_map)
    folder = Path(settings.run.output_dir or default_folder(settings)).expanduser()  # PyArrow would expand ~
    check_run_or_empty(folder)  # before a model is loaded
    served = connect(settings, folder)
    # On each machine, the first process prepares and caches the embedded models for the other processes.
    with state.local_main_process_first():
        engine = load(settings, state.device) if served is None else served
        measurements = choose_measurements(settings, engine)
        gates = check_gates(settings, measurements)
        state.print(filled(f"{engine.name}: {engine.words}, on {state.device} x {state.num_processes}"))
        names = tuple(measurement.name for measurement in measurements)
        task = Task(settings, prompts, engine, state, names, folder)
        work = {measurement.name: measurement.plan(task, files.get(measurement.name)) for measurement in measurements}
    run = describe_run(task, measurements, work)
    check_same_run(run)
    with hold_folder(folder) if state.is_main_process else nullcontext():
        if state.is_main_process:
            open_run(folder, run)
            write_table(folder / PROMPTS_FILE, prompts)
        state.wait_for_everyone()
        check_same_folder(folder)
        results = _measure(task, measurements, work, run)
        if state.is_main_process:
            _report(results, folder)
        state.wait_for_everyone()
    if state.is_main_process and (sentences := exceeded(results, measurements, gates)):
        raise GateError("\n".join(sentences))
    return folder / REPORT_FILE


def _measure(
    task: Task, measurements: Sequence[Measurement], work: dict[str, Any], run: dict[str, Any]
) -> dict[str, Any]:
    results: dict[str, Any] = {}
    is_finished = (task.folder / RESULTS_FILE).is_file()  # the report of a finished run is complete, so it is kept
    for number, measurement in enumerate(measurements, 1):
        task.state.print(f"\n{number} of {len(measurements)}: {measurement.title}")
        started = time.perf_counter()
        part = measurement.measure(task, work[measurement.name], results)
        task.state.print(f"{measurement.title} measured in {time.perf_counter() - started:.0f} s")
        if part:
            results[measurement.name] = part
            figures = comparable_figures([measurement.figures({"run": run, **results})])[0]
            print("\n" + "\n".join(figure_lines(figures)), flush=True)
            if not is_finished and number < len(measurements):
                _report_so_far({"run": run, **results}, measurements[number:], task.folder)
    return {"run": run, **results}


def _report_so_far(results: dict[str, Any], to_come: Sequence[Measurement], folder: Path) -> None:
    from hb_metrics.report.page import write_report

    write_report(results, folder / REPORT_FILE, to_come=to_come)
    titles = ", ".join(measurement.title for measurement in to_come)
    print(f"\nreport so far: {(folder / REPORT_FILE).resolve()}\n{filled(f'still to come: {titles}')}", flush=True)


def _report(results: dict[str, Any], folder: Path) -> None:
    from hb_metrics.human_eval.calibration import read_calibrations
    from hb_metrics.report.page import write_report

    write_json(folder / RESULTS_FILE, results)
    answers = write_report(results, folder / REPORT_FILE, calibrations=read_calibrations(folder))
    for answer in answers:
        print("\n" + filled(answer))
    print(f"\nreport: {(folder / REPORT_FILE).resolve()}")


@contextmanager
def _ended_by_signals(argv: Sequence[str]) -> Iterator[None]:
    """Ends the process at once on Ctrl-C or SIGTERM (which schedulers send), and prints the command to resume.

    A `KeyboardInterrupt` could wait minutes for threads or other processes. Nothing is lost, because files are written
    whole or not at all.
    """
    again = shlex.join(["python", "-m", "hb_metrics.measure", *argv])
    text = f"\nInterrupted. Finished work is kept. To resume, run the same command again:\n  {again}\n"
    message = text.encode() if os.environ.get("RANK", "0") == "0" else b""
    # If a signal is already ignored, such as Ctrl-C for a background job, it remains ignored.
    signals = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]

    def watch() -> None:
        while received := os.read(reader, 1):
            if received[0] in signals:
                code = 1 if received[0] == signal.SIGINT else 128 + received[0]
                Timer(1, os._exit, [code]).start()  # in case the write blocks because nobody reads the output
                with suppress(OSError):  # the output may be closed
                    os.write(2, message)
                    sys.stdout.flush()
                os._exit(code)

    # A signal handler would run only after the main thread has returned to Python code. A signal's number is written to
    # this pipe at once, and the thread `watch` reads the number.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    handlers = {number: signal.signal(number, lambda *_: None) for number in signals}
    wakeup = signal.set_wakeup_fd(writer)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(writer)
        watcher.join()
        os.close(reader)


if __name__ == "__main__":
    main()
