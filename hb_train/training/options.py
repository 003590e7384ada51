import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from hb_dataset.command_line import safe_terminal

if TYPE_CHECKING:
    from trl import ModelConfig, SFTConfig

# torch, transformers and trl take seconds to import, so functions import them only when they need them.


def run_script(name: str, work: Callable[[], object]) -> None:
    with safe_terminal():
        try:
            work()
        except (ValueError, OSError, ImportError) as error:
            raise SystemExit(f"{name}: {error}") from error
        except KeyboardInterrupt:
            raise SystemExit("\ninterrupted; to resume, run the same command again") from None


def option(default: Any, help: str) -> Any:
    return field(default=default, metadata={"help": help})


def parse_options(classes: Sequence[type], argv: Sequence[str] | None, docstring: str | None, **defaults: Any) -> Any:
    """Returns an instance of each class of options, read from the command line and the YAML file in `--config`.

    Without an accelerator, training runs on the CPU, in bfloat16 if the processor supports it natively. `accelerate
    launch` limits torch to one core, so torch gets this process's share of the cores. The help begins with the first
    line of `docstring`. `defaults` overrides TRL's defaults.
    """
    import torch
    import yaml
    from trl import TrlParser

    from hb_metrics.models.processes import num_workers

    parser = TrlParser(classes, description=first_line(docstring))
    if not torch.accelerator.is_available():
        parser.set_defaults(use_cpu=True, bf16=has_fast_bfloat16())
    parser.set_defaults(**defaults)
    try:
        options = parser.parse_args_and_config(argv)
    except yaml.YAMLError as error:
        raise ValueError(f"the file in --config is not valid YAML ({error}); correct it") from error
    if any(getattr(group, "hub_token", None) for group in options):
        raise ValueError(
            "--hub_token contains a Hugging Face token, which the run would write into its files; log in with `hf auth "
            "login`, or set HF_TOKEN"
        )
    if options[1].device.type == "cpu":
        torch.set_num_threads(num_workers())
    return options


def has_fast_bfloat16() -> bool:
    """Returns whether there is no accelerator, but the CPU supports bfloat16 natively (without slow emulation)."""
    import torch

    able = torch.cpu.get_capabilities()
    return not torch.accelerator.is_available() and any(able.get(name) for name in ("amx_tile", "avx512_bf16"))


def first_line(docstring: str | None) -> str:
    return (docstring or "").split("\n", 1)[0]


def check_least(arguments: Any, **least: float) -> None:
    for name, number in least.items():
        value = getattr(arguments, name)
        if value is not None and not number <= value < math.inf:
            raise ValueError(f"{name} is {value}; set a number of at least {number}")


def check_model_options(model_args: "ModelConfig", *, may_quantize: bool = False) -> None:
    if model_args.model_name_or_path is None:
        raise ValueError("--model_name_or_path is missing; set it to a Hub id, a local folder or 'embedded'")
    if (model_args.load_in_8bit or model_args.load_in_4bit) and not (may_quantize and model_args.use_peft):
        raise ValueError(
            "load_in_8bit and load_in_4bit quantise weights, which then cannot be trained or saved whole; set --dtype "
            "bfloat16 instead, or tune an adapter with tune.py --use_peft"
        )


def check_needed(options: Any, needed: Mapping[str, Sequence[object]], why: str) -> None:
    for name, allowed in needed.items():
        value = getattr(options, name)
        if value not in allowed:
            raise ValueError(f"{name} is {value}, but {why}; omit --{name}")


class OnlyTraining:
    """Precedes a class of options, for scripts that make no evaluations during training and publish nothing."""

    def __post_init__(self) -> None:
        needed: dict[str, tuple[object]] = {"eval_strategy": ("no",)}
        needed |= dict.fromkeys(("eval_on_start", "load_best_model_at_end", "push_to_hub"), (False,))
        check_needed(self, needed, "this script neither evaluates the model during training nor publishes it")
        super().__post_init__()  # type: ignore[misc]


def check_without_effect(training_args: "SFTConfig", what: str) -> None:
    """Raises an error if an option of TRL's trainer is set, but `what` trains with another loss and other batches."""
    from trl import SFTConfig

    defaults = SFTConfig(output_dir=training_args.output_dir, use_cpu=training_args.use_cpu, bf16=False)
    options = ("packing", "eval_packing", "padding_free", "loss_type", "assistant_only_loss", "label_smoothing_factor")
    for name in options:
        value = getattr(training_args, name)
        if value != getattr(defaults, name):
            raise ValueError(f"{name} is {value}, but {what} has its own loss and batches; omit --{name}")
