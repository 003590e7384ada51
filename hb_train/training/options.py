import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hb_dataset.command_line import safe_terminal

if TYPE_CHECKING:
    from transformers import TrainingArguments
    from trl import ModelConfig

# torch, transformers and trl take seconds to import, so functions import them only when they need them.


def start_training(
    train: Callable[..., object], classes: Sequence[type], argv: Sequence[str] | None, **defaults: Any
) -> None:
    """Runs the function `train` of a script with the script's options on all cores (see `parse_options`)."""
    script = sys.modules[train.__module__]

    def start() -> None:
        options = parse_options(classes, argv, first_line(script.__doc__), **defaults)
        use_all_cores(options[1])
        train(*options)

    run_script(Path(str(script.__file__)).name, start)


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


def parse_options(classes: Sequence[type], argv: Sequence[str] | None, description: str, **defaults: Any) -> Any:
    """Returns an instance of each class of options, read from the command line and the YAML file in `--config`.

    Without an accelerator, training runs on the CPU, in bfloat16 if the processor supports it natively. `defaults`
    overrides TRL's defaults.
    """
    import torch
    from trl import TrlParser

    parser = TrlParser(classes, description=description)
    if not torch.accelerator.is_available():
        parser.set_defaults(use_cpu=True, bf16=has_fast_bfloat16())
    parser.set_defaults(**defaults)
    options = parser.parse_args_and_config(argv)
    if any(getattr(group, "hub_token", None) for group in options):
        raise ValueError(
            "--hub_token contains a Hugging Face token, which the run would write into its files; log in with `hf auth "
            "login`, or set HF_TOKEN"
        )
    return options


def use_all_cores(training_args: "TrainingArguments") -> None:
    """Lets torch use this process's share of the CPU cores, or `OMP_NUM_THREADS` cores if this variable is set.

    By default, `accelerate launch` limits torch to one core.
    """
    import torch

    from hb_metrics.models.processes import num_workers

    if training_args.device.type == "cpu":
        torch.set_num_threads(num_workers())


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
