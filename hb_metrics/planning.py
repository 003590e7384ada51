"""Plans a run: chooses its prompts and measurements, loads the model, and describes the run for run.json."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hb_dataset.hints import did_you_mean
from hb_metrics.arguments import asked_measurements
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.measurement import Measurement, Task
from hb_metrics.measurements.settings import Settings
from hb_metrics.run_folder import LAYOUT, package_versions, table_digest, with_plurals

if TYPE_CHECKING:
    import pyarrow as pa

    from hb_metrics.inference.models.loading import LoadedModel
    from hb_metrics.inference.models.sources import Source

# torch and the model classes take seconds to import: not before the options are known to be right.

MASKED_ERROR = (
    "model '{name}' is a masked language model, which gives no replies; leave {measurement} out of --measurements, or "
    "give a causal or encoder-decoder model"
)


def read_prompts(settings: Settings) -> "pa.Table":
    """The prompts of the run, with the plural forms of their terms.

    Returns:
        The columns of the config (`hb_dataset.prompt_table.PROMPT_SCHEMA`), and for each column of terms one with
        their plural forms (`descriptor_plural`, …).

    Raises:
        ValueError: The vocabulary is not valid, or does not have an axis.
    """
    from hb_dataset.prompts import config_vocabulary, load_table, version_of

    config, folder, axes = settings.run.dataset_config, settings.run.vocabulary_dir, settings.run.axes
    prompts = load_table(config, folder)
    if axes is not None:
        prompts = only_axes(prompts, axes, folder or version_of(config))
    return with_plurals(prompts, config_vocabulary(config, folder))


def only_axes(prompts: "pa.Table", axes: list[str], vocabulary: str) -> "pa.Table":
    """The prompts of these axes.

    Raises:
        ValueError: The prompts do not have an axis.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    known = sorted(prompts["axis"].unique().to_pylist())
    for axis in axes:
        if axis not in known:
            hint = did_you_mean(axis, known)
            raise ValueError(f"axis '{axis}' is not in {vocabulary}; {hint}allowed: {', '.join(known)}")
    return prompts.filter(pc.is_in(prompts["axis"], pa.array(axes, pa.string())))


def read_files(settings: Settings) -> dict[str, Any]:
    """Reads the files that options name, so that their faults show before a model is loaded.

    Returns:
        Name of each measurement that is asked for or required → what its `read_files` returned.

    Raises:
        ValueError: An option is missing, or a file is not valid.
        OSError: There is no such file.
    """
    return {measurement.name: measurement.read_files(settings) for measurement in _wanted(settings)}


def model_source(settings: Settings) -> "Source":
    """Where the files of the model are that is measured.

    Raises:
        ValueError: Options contradict each other.
        OSError: There is no such GGUF file, or no such adapter.
    """
    from hb_metrics.inference.models.sources import find_source

    run = settings.run
    return find_source(
        run.model,
        run.revision,
        adapter=run.adapter,
        adapter_revision=run.adapter_revision,
        gguf_file=run.gguf_file,
    )


def load(settings: Settings, source: "Source", digests: Mapping[str, str], device: Any) -> "LoadedModel":
    """Loads the model that is measured.

    Args:
        settings: The options of the run.
        source: Where its files are.
        digests: Those of local folders, so that they are not hashed again.
        device: Where it runs, unless it is spread by `--device_map`.

    Raises:
        ValueError: It is not a language model, or cannot be loaded.
        OSError: There is no such model.
    """
    from hb_metrics.inference.models.loading import load_model

    return load_model(
        source,
        dtype=settings.run.dtype,
        device=device,
        device_map=settings.run.device_map,
        trust_remote_code=settings.run.trust_remote_code,
        digests=digests,
    )


def choose_measurements(settings: Settings, loaded: "LoadedModel") -> list[Measurement]:
    """The measurements asked for, or those by default; as far as the model can, also those that they require.

    Raises:
        ValueError: A measurement was asked for that the model cannot do.
    """
    masked = loaded.kind == "masked"
    for measurement in asked_measurements(settings) or []:
        if measurement.generates and masked:
            raise ValueError(MASKED_ERROR.format(name=settings.run.model, measurement=measurement.name))
    return [measurement for measurement in _wanted(settings) if not (measurement.generates and masked)]


def describe_run(task: Task, measurements: Sequence[Measurement], work: dict[str, Any]) -> dict[str, Any]:
    """Everything the results depend on, for run.json; the number of processes is not part of it.

    Args:
        task: What all measurements start from.
        measurements: What is measured.
        work: Name of each measurement → its plan.
    """
    settings, loaded, prompts = task.settings, task.loaded, task.prompts
    # An adapter and a GGUF file are described with the model.
    without = {"output_dir", "batch_size", "device_map", "adapter", "adapter_revision", "gguf_file"}
    run: dict[str, Any] = {
        "layout": {"version": LAYOUT},
        "settings": {name: value for name, value in settings.values().items() if name not in without},
        "model": {
            "name": loaded.name,
            "kind": loaded.kind,
            "digest": loaded.digest,
            "dtype": loaded.dtype,
            "num_parameters": loaded.model.num_parameters(),
            **_model_variant(loaded),
        },
        "data": {
            "config": settings.run.dataset_config,
            "digest": table_digest(prompts),
            "num_prompts": prompts.num_rows,
            "num_distinct_texts": len(prompts["text"].unique()),
            "num_descriptors": len(prompts.group_by(["axis", "descriptor"]).aggregate([])),
            "num_axes": len(prompts["axis"].unique()),
            "num_templates": len(prompts["template"].unique()),
        },
    }
    for measurement in measurements:
        run |= measurement.describe(work[measurement.name])
    return {**run, "versions": package_versions()}


def _model_variant(loaded: "LoadedModel") -> dict[str, Any]:
    """What is special about a model, for its record: a GGUF file, quantised weights, an adapter."""
    from hb_metrics.inference.models.quantization import computes_quantized, quantization_of

    quantization = quantization_of(loaded.config)
    if quantization is not None and not computes_quantized(loaded.model):
        quantization += ", computed with full weights"  # as transformers does where a device lacks what it needs
    return {
        **({} if loaded.gguf_file is None else {"gguf_file": loaded.gguf_file}),
        **({} if quantization is None else {"quantization": quantization}),
        **({} if loaded.adapter is None else {"adapter": asdict(loaded.adapter)}),
    }


def _wanted(settings: Settings) -> list[Measurement]:
    """The measurements asked for, or those by default, and those that they require; in the order of the list."""
    asked = asked_measurements(settings)
    chosen = [measurement for measurement in MEASUREMENTS if measurement.by_default] if asked is None else asked
    required = {name for measurement in chosen for name in measurement.requires}
    return [measurement for measurement in MEASUREMENTS if measurement in chosen or measurement.name in required]
