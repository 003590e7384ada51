import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hb_dataset.prompt_columns import NAMES_AXIS, has_names
from hb_dataset.slots import NAME_CUES
from hb_metrics.command.arguments import asked_measurements, wanted_measurements
from hb_metrics.command.run_prompts import own_prompt_rows
from hb_metrics.measurements import GENERATION
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.measurement import Measurement, Planned, Task
from hb_metrics.measurements.settings import CHANGE_NOTHING, Settings
from hb_metrics.run.plurals import table_digest
from hb_metrics.run.run_folder import LAYOUT, package_versions

if TYPE_CHECKING:
    import pyarrow as pa

    from hb_metrics.collect.engines.engine import Engine, Lack

_NAMED = {"model", "dataset_config", "measurements", "quick"}  # these settings are in the name of the folder
# Importing torch takes seconds, so modules that need it are imported after the options are checked.


def default_folder(settings: Settings) -> str:
    """Returns a folder in `runs/` for a run without `--output_dir`.

    Its name contains the most important settings and a digest of all other settings, so different settings never share
    a folder.
    """
    run, defaults = settings.run, settings.defaults()
    wanted = wanted_measurements(settings)
    has_names = GENERATION in wanted and settings.of(GenerationOptions).cue in NAME_CUES
    uses_config = run.prompts is not None or any(not measurement.has_own_prompts for measurement in wanted)
    config = run.dataset_config if run.prompts is None else Path(run.prompts).stem
    model = Path(run.model).resolve().name
    parts = [model, *([NAMES_AXIS] if has_names and run.prompts is None else [config] * uses_config)]
    parts += [measurement.name for measurement in asked_measurements(settings) or []]
    parts += ["quick"] * run.quick
    # A server's address is not part of the name, because it may change.
    others: dict[str, object] = {"served": True} if run.base_url is not None else {}
    others |= {} if run.model == model else {"model": run.model}
    for name, value in settings.values().items():
        if name not in _NAMED | CHANGE_NOTHING and value != defaults[name]:
            others[name] = value
    if others:
        parts.append(hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()[:8])
    return "runs/" + re.sub(r"[^\w.=+-]+", "-", "-".join(parts)).strip("-.")


def load(settings: Settings, device: Any) -> "Engine":
    run = settings.run
    if run.replies_file is not None or run.logprobs_file is not None:
        from hb_metrics.collect.engines.files import FileEngine

        return FileEngine(run.model, run.replies_file, run.logprobs_file)
    from hb_metrics.collect.engines.local import load_engine

    return load_engine(
        run.model,
        revision=run.revision,
        adapter=run.adapter,
        dtype=run.dtype,
        device=device,
        device_map=run.device_map,
        trust_remote_code=run.trust_remote_code,
    )


def connect(settings: Settings, folder: Path) -> "Engine | None":
    if not settings.run.is_served:
        return None
    from hb_metrics.collect.engines.served import ServedEngine
    from hb_metrics.models.served.client import make_server
    from hb_metrics.models.served.probe import probe_server

    run = settings.run
    server = make_server(run.model, run.base_url, run.provider, run.concurrency)
    return ServedEngine(server, probe_server(server, folder, context=run.context, chat=run.chat()))


def choose_measurements(settings: Settings, engine: "Engine") -> list[Measurement]:
    for measurement in asked_measurements(settings) or []:
        if lack := _lack(measurement, engine):
            raise ValueError(
                f"model '{engine.name}' {lack.why}; remove {measurement.name} from --measurements, or {lack.instead}"
            )
    return [measurement for measurement in wanted_measurements(settings) if _lack(measurement, engine) is None]


def describe_run(task: Task, measurements: Sequence[Measurement], planned: Mapping[str, Planned]) -> dict[str, object]:
    """Returns the content of run.json: all settings on which the results depend.

    The number of processes, for example, is not recorded.
    """
    settings, prompts = task.settings, task.prompts
    num_cells = len(prompts.group_by(["axis", "descriptor", "template"]).aggregate([]))
    run: dict[str, object] = {
        "layout": {"version": LAYOUT, "measurements": [measurement.name for measurement in measurements]},
        "settings": recorded_settings(settings),
        "model": task.engine.identity(),
        "data": {
            **_source_of(settings, prompts),
            "digest": table_digest(prompts),
            "num_prompts": prompts.num_rows,
            **({} if settings.run.sample is None else {"num_cells": num_cells}),
            "num_descriptors": len(prompts.group_by(["axis", "descriptor"]).aggregate([])),
            "num_axes": len(prompts["axis"].unique()),
            "num_templates": len(prompts["template"].unique()),
        },
    }
    left_out = {}
    for measurement in wanted_measurements(settings):
        if lack := _lack(measurement, task.engine):
            left_out[measurement.name] = f"{measurement.title} is left out: {task.engine.name} {lack.why}."
    if left_out:
        run["left_out"] = left_out
    for measurement in measurements:
        run |= planned[measurement.name].record
    return {**run, "versions": package_versions()}


def recorded_settings(settings: Settings) -> dict[str, object]:
    without = {*CHANGE_NOTHING, "adapter"}  # the adapter is described with the model
    return {name: value for name, value in settings.values().items() if name not in without}


def _source_of(settings: Settings, prompts: "pa.Table") -> dict[str, object]:
    if settings.run.prompts is None:
        return {"config": NAMES_AXIS if has_names(prompts) else settings.run.dataset_config}
    rows = table_digest(own_prompt_rows(settings))
    return {"config": Path(settings.run.prompts).name, "own_prompts_digest": rows}


def _lack(measurement: Measurement, engine: "Engine") -> "Lack | None":
    return next((engine.lacks[ability] for ability in measurement.needs if ability not in engine.gives), None)


def read_files(settings: Settings, prompts: "pa.Table", measurements: Sequence[Measurement]) -> dict[str, object]:
    """Returns, by the name of the measurement, what it reads from files before the model is loaded.

    Raises:
        ValueError: A file or an option is not valid, or the run lacks a measurement that another one reads.
    """
    files = {measurement.name: measurement.read_files(settings, prompts) for measurement in measurements}
    for measurement in measurements:
        for name in measurement.reads:
            if name not in files:
                raise ValueError(f"{measurement.name} reads what {name} collects; add {name} to --measurements")
    return files
