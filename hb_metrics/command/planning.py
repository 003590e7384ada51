import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hb_dataset.command_line import AXIS_CUTOFF, check_known
from hb_dataset.names import NAME_CUES, NAMES_AXIS, has_names
from hb_metrics.command.arguments import asked_measurements
from hb_metrics.measurements import GENERATION, LIKELIHOOD, MEASUREMENTS
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.measurement import Measurement, Task
from hb_metrics.measurements.settings import CHANGE_NOTHING, Settings
from hb_metrics.run.run_folder import LAYOUT, package_versions, table_digest, with_plurals

if TYPE_CHECKING:
    import pyarrow as pa

    from hb_dataset.vocabulary import Vocabulary
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
    parts = [Path(run.model).name, *([NAMES_AXIS] if has_names and run.prompts is None else [config] * uses_config)]
    parts += [measurement.name for measurement in asked_measurements(settings) or []]
    parts += ["quick"] * run.quick
    # A server's address is not part of the name, because it may change.
    others: dict[str, object] = {"served": True} if run.base_url is not None else {}
    for name, value in settings.values().items():
        if name not in _NAMED | CHANGE_NOTHING and value != defaults[name]:
            others[name] = value
    if others:
        parts.append(hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()[:8])
    return "runs/" + re.sub(r"[^\w.=+-]+", "-", "-".join(parts)).strip("-.")


def read_prompts(settings: Settings) -> "pa.Table":
    """Reads the run's prompts. Adds a column of plurals for each column of terms, such as `descriptor_plural`."""
    from hb_dataset.prompts import config_vocabulary
    from hb_dataset.seeded_draws import balanced_sample

    run, options = settings.run, settings.of(GenerationOptions)
    vocabulary = config_vocabulary(run.dataset_config, run.vocabulary_dir)
    if run.prompts is not None:
        from hb_metrics.command.prompt_preview import own_table

        _check_axes(settings, vocabulary.axes)
        prompts = own_table(settings, vocabulary, compares_texts=LIKELIHOOD in wanted_measurements(settings))
    elif options.names_file is not None and options.cue not in NAME_CUES:
        raise ValueError(
            f"names_file is set, but cue is '{options.cue}', which has no names; set --cue to name or signature, set "
            "--prompts to prompts with {name}, or omit --names_file"
        )
    else:
        prompts = _named_people(settings) or _config_prompts(settings, vocabulary)
    if run.sample is not None:
        prompts = balanced_sample(prompts, run.sample, seed=run.seed)
    return with_plurals(prompts, vocabulary)


def _config_prompts(settings: Settings, vocabulary: "Vocabulary") -> "pa.Table":
    import pyarrow as pa
    import pyarrow.compute as pc

    from hb_dataset.filled_prompts import find_terms
    from hb_dataset.prompts import load_table

    run = settings.run
    prompts = load_table(run.dataset_config, run.vocabulary_dir)
    _check_axes(settings, sorted(prompts["axis"].unique().to_pylist()))
    if run.terms is not None:
        terms = [term.term for term in find_terms(vocabulary, run.axes, run.term_list)]
        templates = prompts["template"].unique()
        prompts = load_table(run.dataset_config.removesuffix("-small"), run.vocabulary_dir)
        is_chosen = pc.is_in(prompts["descriptor"], pa.array(terms, pa.string()))
        prompts = prompts.filter(pc.and_(is_chosen, pc.is_in(prompts["template"], templates)))
        if not len(prompts):
            raise ValueError(
                f"terms is '{run.terms}', but no prompt of {run.dataset_config} describes a person with one of these "
                "terms alone; set --dataset_config to a config with single terms"
            )
    if run.axes is not None:
        prompts = prompts.filter(pc.is_in(prompts["axis"], pa.array(run.axes, pa.string())))
    return prompts


def _check_axes(settings: Settings, known: Sequence[str]) -> None:
    from hb_dataset.prompts import version_of

    for axis in settings.run.axes or []:
        where = settings.run.vocabulary_dir or version_of(settings.run.dataset_config)
        advice = "; separate axes with spaces" if "," in axis else ""
        check_known(axis, known, f"axis '{axis}' is not in {where}{advice}", cutoff=AXIS_CUTOFF)


def _named_people(settings: Settings) -> "pa.Table | None":
    """Returns the prompts of a run with names, which replace those of `--dataset_config`, or `None`."""
    wanted, run = wanted_measurements(settings), settings.run
    if GENERATION not in wanted or settings.of(GenerationOptions).cue not in NAME_CUES:
        return None
    others = [other for other in wanted if not other.has_own_prompts and "replies" not in other.needs]
    if others or any(value is not None for value in (run.axes, run.terms, run.sample)):
        raise ValueError(
            "with these options, generation uses its own prompts, so no other measurement can use the run's prompts; "
            "set --measurements generation, and remove --axes, --terms and --sample"
        )
    from hb_metrics.measurements.generation.work import own_prompts

    return own_prompts(settings)


def load(settings: Settings, device: Any) -> "Engine":
    run = settings.run
    if run.replies_file is not None or run.logprobs_file is not None:
        from hb_metrics.collect.engines.files import FileEngine

        return FileEngine(run.model, run.replies_file, run.logprobs_file)
    from hb_metrics.collect.engines.local import load_engine

    return load_engine(
        run.model,
        run.revision,
        adapter=run.adapter,
        dtype=run.dtype,
        device=device,
        device_map=run.device_map,
        trust_remote_code=run.trust_remote_code,
    )


def connect(settings: Settings, folder: Path) -> "Engine | None":
    if not settings.run.is_served:
        return None
    from hb_metrics.collect.engines.served import connect_engine

    run = settings.run
    server = run.model, run.base_url, run.provider, run.concurrency
    return connect_engine(*server, folder, context=run.context, chat=run.chat())


def choose_measurements(settings: Settings, engine: "Engine") -> list[Measurement]:
    for measurement in asked_measurements(settings) or []:
        if lack := _lack(measurement, engine):
            raise ValueError(
                f"model '{engine.name}' {lack.why}; remove {measurement.name} from --measurements, or {lack.instead}"
            )
    return [measurement for measurement in wanted_measurements(settings) if _lack(measurement, engine) is None]


def describe_run(task: Task, measurements: Sequence[Measurement], work: dict[str, object]) -> dict[str, object]:
    """Returns the content of run.json: all settings on which the results depend.

    The number of processes, for example, is not recorded.
    """
    settings, prompts = task.settings, task.prompts
    num_cells = len(prompts.group_by(["axis", "descriptor", "template"]).aggregate([]))
    without = {*CHANGE_NOTHING, "adapter"}  # the adapter is described with the model
    run: dict[str, object] = {
        "layout": {"version": LAYOUT, "measurements": [measurement.name for measurement in measurements]},
        "settings": {name: value for name, value in settings.values().items() if name not in without},
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
        run |= measurement.collector.describe(work[measurement.name])
    return {**run, "versions": package_versions()}


def _source_of(settings: Settings, prompts: "pa.Table") -> dict[str, object]:
    if settings.run.prompts is None:
        return {"config": NAMES_AXIS if has_names(prompts) else settings.run.dataset_config}
    from hb_dataset.own_prompts import own_rows
    from hb_metrics.measurements.own_prompts import own_prompts

    rows = table_digest(own_rows(own_prompts(settings)))
    return {"config": Path(settings.run.prompts).name, "own_prompts_digest": rows}


def _lack(measurement: Measurement, engine: "Engine") -> "Lack | None":
    return next((engine.lacks[ability] for ability in measurement.needs if ability not in engine.gives), None)


def wanted_measurements(settings: Settings) -> list[Measurement]:
    asked = asked_measurements(settings)
    chosen = (
        [measurement for measurement in MEASUREMENTS if measurement.is_default(settings)] if asked is None else asked
    )
    return [measurement for measurement in MEASUREMENTS if measurement in chosen or measurement.is_asked(settings)]


def read_files(settings: Settings, prompts: "pa.Table", measurements: Sequence[Measurement]) -> dict[str, object]:
    """Returns, by the name of the measurement, what it reads from files before the model is loaded."""
    readers = {measurement.name: measurement.collector.read_files for measurement in measurements}
    return {name: read(settings, prompts) for name, read in readers.items() if read is not None}
