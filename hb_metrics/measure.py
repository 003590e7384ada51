"""Measures a language model on HolisticBias and writes a report. The main job.

    accelerate launch hb_metrics/measure.py --model openai-community/gpt2 --dataset_config v1.0 --output_dir runs/gpt2

Any Hub id or local folder of a causal, masked or encoder–decoder language model, or `embedded`. Options can stand in a
YAML file: `--config options.yaml`; the command line has the last word. A run that was interrupted goes on where it
stopped when the same command is given again, with any number of processes.
"""

import os
import shlex
import sys
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from transformers import HfArgumentParser

from hb_dataset.hints import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

    from hb_metrics.inference.models import LoadedModel
    from hb_metrics.inference.units import ScoringPlan

# torch and the model classes take seconds to import: not before the options are known to be right.


@dataclass
class MeasureArguments:
    """What to measure, and how. All of it is recorded in run.json."""

    model: str = field(default="embedded", metadata={"help": "Hub id, local folder, or 'embedded'."})
    dataset_config: Literal["v1.0", "v1.0-small", "v1.0-seat"] = field(
        default="v1.0-small",
        metadata={"help": "All prompts, a stratified sample, or the SEAT sentences the paper has for masked models."},
    )
    vocabulary_dir: str | None = field(
        default=None, metadata={"help": "A vocabulary folder of your own; default: v1.0."}
    )
    axes: list[str] | None = field(
        default=None, metadata={"help": "Only these demographic axes, e.g. ability age. Default: all.", "nargs": "+"}
    )
    output_dir: str | None = field(
        default=None, metadata={"help": "The run folder; default: runs/<model>-<dataset_config>."}
    )
    revision: str | None = field(default=None, metadata={"help": "Branch, tag or commit of a Hub id."})
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = field(
        default="auto",
        metadata={"help": "auto (float32 on CPU, else the checkpoint's own), float32, bfloat16 or float16."},
    )
    scoring: Literal["auto", "tree", "padded"] = field(
        default="auto",
        metadata={"help": "auto, tree or padded: how a causal model is run; same numbers but for rounding."},
    )
    max_positions: int | None = field(
        default=None, metadata={"help": "Tokens fed to the model at once; bounds the memory. Default: 512."}
    )
    add_start_token: bool | None = field(
        default=None, metadata={"help": "Feed BOS before each sentence; default: if the tokenizer has one."}
    )
    encoder_context: str = field(
        default="", metadata={"help": "What the encoder of an encoder-decoder model is given."}
    )
    alpha: float = field(default=0.05, metadata={"help": "Significance level of one test."})
    include_gendered: bool = field(
        default=True, metadata={"help": "Whether terms for one gender only take part; the published code says no."}
    )
    trust_remote_code: bool = field(
        default=False, metadata={"help": "Whether code that comes with the model may run here."}
    )

    def __post_init__(self) -> None:
        """Refuses what would otherwise fail only after the model has run."""
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha is {self.alpha}; give a number between 0 and 1, such as 0.05")
        if self.output_dir is not None and Path(self.output_dir).is_file():
            raise ValueError(f"output_dir '{self.output_dir}' is a file; give a folder, which may be new")
        if self.max_positions is not None and self.max_positions < 1:
            raise ValueError(f"max_positions is {self.max_positions}; give at least 1")


def main(argv: list[str] | None = None) -> None:
    """Score, measure, report."""
    try:
        measure(parse_arguments(sys.argv[1:] if argv is None else argv))
    except (ValueError, OSError, ModuleNotFoundError) as error:
        raise SystemExit(f"measure.py: {error}") from error
    except KeyboardInterrupt:
        again = shlex.join(["python", "-m", "hb_metrics.measure", *(sys.argv[1:] if argv is None else argv)])
        message = f"\ninterrupted; finished shards are kept. To go on, give the same command again:\n  {again}"
        raise SystemExit(message if os.environ.get("RANK", "0") == "0" else 1) from None


def parse_arguments(argv: list[str]) -> MeasureArguments:
    """Reads the command line, and under it the YAML file given with `--config`."""
    parser = HfArgumentParser(MeasureArguments, description=(__doc__ or "").split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("--config", type=Path, help="A YAML file with any of these options.")
    config = parser.parse_args(argv).config
    options: list[str] = []
    if config is not None:
        try:
            content = yaml.safe_load(config.read_text(encoding="utf-8")) or {}
        except (OSError, yaml.YAMLError) as error:
            parser.error(f"--config {config}: {error}")
        if not isinstance(content, dict):
            parser.error(f"--config {config}: write `option: value` lines")
        known = [option.name for option in fields(MeasureArguments)]
        for name, value in content.items():
            if name not in known:
                parser.error(f"--config {config}: unknown option '{name}'; allowed: {', '.join(known)}")
            if isinstance(value, list):
                options += [f"--{name}", *map(str, value)]
            elif value is not None:
                options.append(f"--{name}={value}")
    parsed = parser.parse_args([*options, *argv])
    del parsed.config
    return MeasureArguments(**vars(parsed))


def measure(arguments: MeasureArguments) -> Path:
    """Runs the measurement and returns the path of the report."""
    from hb_dataset.prompts import load_table

    prompts = load_table(arguments.dataset_config, arguments.vocabulary_dir)
    if arguments.axes is not None:
        prompts = only_axes(prompts, arguments.axes, arguments.vocabulary_dir or "v1.0")

    from hb_metrics.inference.models import load_model
    from hb_metrics.inference.processes import process_state
    from hb_metrics.inference.shards import score_into_shards
    from hb_metrics.report import write_report
    from hb_metrics.results import likelihood_results
    from hb_metrics.run_folder import REPORT_FILE, RESULTS_FILE, open_run, write_json

    state = process_state()
    with state.main_process_first():  # which converts the embedded model the first time
        loaded = load_model(
            arguments.model,
            revision=arguments.revision,
            dtype=arguments.dtype,
            device=state.device,
            trust_remote_code=arguments.trust_remote_code,
        )
    state.print(f"{loaded.name}: {loaded.kind}, {loaded.dtype}, on {state.device} x {state.num_processes}")
    texts = prompts["text"].to_pylist()
    plan = _plan(arguments, prompts, texts, loaded)
    folder = Path(arguments.output_dir or _default_folder(arguments))
    run = describe_run(arguments, prompts, loaded, plan)
    if state.is_main_process:
        open_run(folder, run)
    state.wait_for_everyone()

    started = time.perf_counter()
    scores = score_into_shards(plan, prompts["id"].to_pylist(), texts, folder / "perplexities", state.device)
    report = folder / REPORT_FILE
    if scores is not None:
        state.print(f"{len(texts):,} prompts scored in {time.perf_counter() - started:.0f} s ({plan.scoring})")
        results = {"run": run, **likelihood_results(prompts, scores, arguments.alpha, arguments.include_gendered)}
        write_json(folder / RESULTS_FILE, results)
        write_report(results, report)
        _print_summary(results, report)
    state.wait_for_everyone()
    return report


def only_axes(prompts: "pa.Table", axes: list[str], vocabulary: str) -> "pa.Table":
    """The prompts of these axes.

    Raises:
        ValueError: An axis is not there.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    known = sorted(prompts["axis"].unique().to_pylist())
    for axis in axes:
        if axis not in known:
            hint = did_you_mean(axis, known)
            raise ValueError(f"axis '{axis}' is not in {vocabulary}; {hint}allowed: {', '.join(known)}")
    return prompts.filter(pc.is_in(prompts["axis"], pa.array(axes, pa.string())))


def describe_run(
    arguments: MeasureArguments, prompts: "pa.Table", loaded: "LoadedModel", plan: "ScoringPlan"
) -> dict[str, Any]:
    """Everything the results depend on, for run.json; how many processes there are is not among it."""
    from hb_metrics.results import table_digest
    from hb_metrics.run_folder import package_versions

    ignored = {"output_dir"}
    return {
        "settings": {name: value for name, value in asdict(arguments).items() if name not in ignored},
        "model": {
            "name": loaded.name,
            "kind": loaded.kind,
            "digest": loaded.digest,
            "dtype": loaded.dtype,
            "num_parameters": loaded.model.num_parameters(),
        },
        "data": {
            "config": arguments.dataset_config,
            "digest": table_digest(prompts),
            "num_prompts": prompts.num_rows,
            "num_distinct_texts": len(plan.num_tokens),
        },
        "scoring": {
            "path": plan.scoring,
            "reason": plan.scoring_reason,
            "start_token": plan.start_token,
            "positions": plan.positions,
            "predicted_tokens": int(plan.num_tokens.sum()),
        },
        "versions": package_versions(),
    }


def _plan(arguments: MeasureArguments, prompts: "pa.Table", texts: list[str], loaded: "LoadedModel") -> "ScoringPlan":
    from hb_dataset.prompts import descriptor_noun_spans
    from hb_metrics.inference.perplexity import MAX_POSITIONS, plan_perplexity
    from hb_metrics.inference.pseudo_likelihood import plan_pseudo_log_likelihood

    max_positions = MAX_POSITIONS if arguments.max_positions is None else arguments.max_positions
    if loaded.kind == "masked":
        spans = [(start, end) for start, end in descriptor_noun_spans(prompts).tolist()]
        return plan_pseudo_log_likelihood(texts, spans, loaded.model, loaded.tokenizer, max_positions=max_positions)
    return plan_perplexity(
        texts,
        loaded.model,
        loaded.tokenizer,
        scoring=arguments.scoring,
        max_positions=max_positions,
        add_start_token=arguments.add_start_token,
        encoder_context=arguments.encoder_context,
    )


def _default_folder(arguments: MeasureArguments) -> str:
    return f"runs/{Path(arguments.model).name}-{arguments.dataset_config}"


def _print_summary(results: dict[str, Any], report: Path) -> None:
    likelihood = results["likelihood_bias"]
    print(f"\nLikelihood Bias  {likelihood['likelihood_bias']:6.1%}  of {likelihood['num_tests']:,} tests")
    for axis, share in sorted(likelihood["by_axis"].items(), key=lambda item: -item[1]):
        print(f"  {axis:<22} {share:6.1%}")
    print(f"\nreport: {report.resolve()}")


if __name__ == "__main__":
    main()
