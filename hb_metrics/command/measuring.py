"""Runs the measurements of a run, one after another."""

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from hb_metrics.command.analyse import check_read, possible_results, with_collected, write_results
from hb_metrics.command.arguments import wanted_measurements
from hb_metrics.command.gates import GATES_FILE, GateError, check_gates, exceeded, write_gates
from hb_metrics.command.planning import (
    choose_measurements,
    connect,
    default_folder,
    describe_run,
    load,
    read_files,
    recorded_settings,
)
from hb_metrics.command.run_prompts import own_prompt_rows, read_prompts
from hb_metrics.layout.terminal import figure_lines, filled
from hb_metrics.measurements.measurement import Measurement, Planned, Task
from hb_metrics.measurements.results import Results, Run
from hb_metrics.measurements.settings import Settings
from hb_metrics.report.changes import comparable_figures
from hb_metrics.run.record import Record
from hb_metrics.run.replies import LeftOutError
from hb_metrics.run.run_folder import (
    OWN_PROMPTS_FILE,
    PROMPTS_FILE,
    REPORT_FILE,
    RESULTS_FILE,
    SECONDS_FILE,
    check_run_or_empty,
    check_settings,
    hold_folder,
    open_run,
    read_seconds,
    write_json,
    write_table,
)

# Modules that import torch take seconds to import, so they are imported only after the prompts have been read.


def measure(settings: Settings) -> Path:
    """Runs the measurements and returns the path of the report.

    Raises:
        LeftOutError: A measurement was impossible, for example because its judge failed. The report of the others is
            written before this error is raised.
        GateError: A figure exceeds its limit. The report is written before this error is raised.
    """
    prompts = read_prompts(settings)
    wanted = wanted_measurements(settings)
    check_gates(settings, wanted)
    files = read_files(settings, prompts, wanted)

    from hb_metrics.collect.shards import check_same_folder, check_same_run
    from hb_metrics.models.processes import check_device_map, process_state

    state = process_state()
    check_device_map(settings.run.device_map)
    folder = Path(settings.run.output_dir or default_folder(settings)).expanduser()  # PyArrow would expand ~
    # All that is cheap to check is checked before a model is loaded.
    check_run_or_empty(folder)
    check_settings(folder, recorded_settings(settings))
    for measurement in wanted:
        measurement.check_classifiers(settings)
    served = connect(settings, folder)
    # On each machine, the first process prepares and caches the embedded models for the other processes.
    with state.local_main_process_first():
        engine = load(settings, state.device) if served is None else served
        measurements = choose_measurements(settings, engine)
        gates = check_gates(settings, measurements)
        state.print(filled(f"{engine.name}: {engine.words}, on {state.device} x {state.num_processes}"))
        names = tuple(measurement.name for measurement in measurements)
        task = Task(settings, prompts, engine, state, names, folder)
        planned = {measurement.name: measurement.plan(task, files[measurement.name]) for measurement in measurements}
    run = describe_run(task, measurements, planned)
    check_same_run(run)
    with hold_folder(folder) if state.is_main_process else nullcontext():
        if state.is_main_process:
            open_run(folder, run)
            write_table(folder / PROMPTS_FILE, prompts)
            if settings.run.prompts is not None:
                write_table(folder / OWN_PROMPTS_FILE, own_prompt_rows(settings))
        state.wait_for_everyone()
        check_same_folder(folder)
        results, left_out = _measure(task, measurements, planned, Results(Record(run)))
        if state.is_main_process:
            write_results(results, folder, left_out)
        state.wait_for_everyone()
    if state.is_main_process:
        failed = {sentence.split()[0]: sentence for sentence in exceeded(results, measurements, gates)}
        if gates:
            shown = {name: f"{name} is not above its limit {limit:g}" for name, limit in gates.items()} | failed
            write_gates(folder / GATES_FILE, [(name not in failed, text) for name, text in shown.items()])
        else:
            (folder / GATES_FILE).unlink(missing_ok=True)  # of an earlier start of this run
        if left_out:
            raise LeftOutError("\n".join([*left_out.values(), *failed.values()]))
        if failed:
            raise GateError("\n".join(failed.values()))
    return folder / REPORT_FILE


def _measure(
    task: Task, measurements: Sequence[Measurement], planned: Mapping[str, Planned], results: Results
) -> tuple[Results, dict[str, str]]:
    """Runs the measurements. Returns their results, and a sentence for each measurement that was impossible."""
    from hb_metrics.models.processes import of_main_process

    left_out: dict[str, str] = {}
    is_finished = (task.folder / RESULTS_FILE).is_file()  # the report of a finished run is complete, so it is kept
    for number, measurement in enumerate(measurements, 1):
        task.state.print(f"\n{number} of {len(measurements)}: {measurement.title}")
        started, sentence = time.perf_counter(), None
        try:
            check_read(measurement, left_out)
            run = Run(task.tables, results)
            try:
                planned[measurement.name].collect()
            except LeftOutError as error:
                raise with_collected(error, measurement, run) if task.state.is_main_process else error from None
            if task.state.is_main_process:
                results = results.with_(measurement.name, measurement.parts.compute(run))
        except LeftOutError as error:
            results, sentence = possible_results(results, measurement, error)
        sentence = of_main_process(sentence)  # the only process that computes results
        if sentence is not None:
            left_out[measurement.name] = sentence
            task.state.print(sentence)
            continue
        seconds = time.perf_counter() - started
        task.state.print(f"{measurement.title} measured in {seconds:.0f} s")
        if task.state.is_main_process:
            if not is_finished:
                known = read_seconds(task.folder)
                known[measurement.name] = round(known.get(measurement.name, 0.0) + seconds, 1)
                write_json(task.folder / SECONDS_FILE, known)
            figures = comparable_figures([measurement.figures(results)])[0]
            print("\n" + "\n".join(figure_lines(figures)), flush=True)
            if not is_finished and number < len(measurements):
                _report_so_far(results, measurements[number:], task.folder)
    return results, left_out


def _report_so_far(results: Results, to_come: Sequence[Measurement], folder: Path) -> None:
    from hb_metrics.report.page import write_report

    write_report(results, folder / REPORT_FILE, to_come=to_come)
    titles = ", ".join(measurement.title for measurement in to_come)
    print(f"\nreport so far: {(folder / REPORT_FILE).resolve()}\n{filled(f'still to come: {titles}')}", flush=True)
