import argparse
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hb_dataset.command_line import safe_terminal
from hb_dataset.yaml_lines import load_values

if TYPE_CHECKING:
    from trl import ModelConfig

# torch, transformers and trl take seconds to import, so functions import them only when they need them.

_TOKEN = re.compile(r"hf_[A-Za-z0-9]{20,}")


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


def parse_training_options(
    classes: Sequence[type], argv: list[str] | None, docstring: str | None, **defaults: Any
) -> Any:
    """Returns an instance of each class of options, read from the command line and the YAML file in `--config`.

    Without an accelerator, training runs on the CPU, in bfloat16 if the processor supports it natively. The help begins
    with the first line of `docstring`. `defaults` overrides TRL's defaults.
    """
    import torch
    from trl import TrlParser

    _check_config(argv or sys.argv[1:])
    parser = TrlParser(classes, description=first_line(docstring))
    if not torch.accelerator.is_available():
        parser.set_defaults(use_cpu=True, bf16=has_fast_bfloat16())
    parser.set_defaults(**defaults)
    arguments = parser.parse_args_and_config(argv)
    reject_tokens(arguments)
    return arguments


def _check_config(argv: Sequence[str]) -> None:
    """Checks the YAML file in `--config`. If a key were repeated, TRL would ignore its first value."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", type=Path)
    config = parser.parse_known_args(list(argv))[0].config
    if config is not None and not isinstance(load_values(config), dict):
        raise ValueError(
            f"'{config}' is not a YAML file of options; set --config to such a file, e.g. one in hb_train/recipes"
        )


def has_fast_bfloat16() -> bool:
    """Returns whether there is no accelerator, but the CPU supports bfloat16 natively (without slow emulation)."""
    import torch

    able = torch.cpu.get_capabilities()
    return not torch.accelerator.is_available() and any(able.get(name) for name in ("amx_tile", "avx512_bf16"))


def reject_tokens(arguments: Iterable[Any]) -> None:
    for group in arguments:
        for option in fields(group):
            value = getattr(group, option.name, None)
            if (option.name == "hub_token" and value) or _TOKEN.search(repr(value)):
                raise ValueError(
                    f"--{option.name} contains a Hugging Face token, which the run would write into its files; log "
                    f"in with `hf auth login`, or set HF_TOKEN"
                )


def first_line(docstring: str | None) -> str:
    return (docstring or "").split("\n", 1)[0]


def check_least(arguments: Any, **least: float) -> None:
    for name, number in least.items():
        value = getattr(arguments, name)
        if value is not None and not number <= value < math.inf:
            raise ValueError(f"{name} is {value}; set a number of at least {number}")


def check_given(**options: Any) -> None:
    for name, value in options.items():
        if value is None:
            raise ValueError(f"--{name} is missing; set it to one of the values that --help describes")


def check_model_options(model_args: "ModelConfig", *, may_quantize: bool = False) -> None:
    check_given(model_name_or_path=model_args.model_name_or_path)
    if not (model_args.load_in_8bit or model_args.load_in_4bit):
        return
    if not (may_quantize and model_args.use_peft):
        raise ValueError(
            "load_in_8bit and load_in_4bit quantise weights, which then cannot be trained or saved whole; set --dtype "
            "bfloat16 instead, or tune an adapter with tune.py --use_peft"
        )
    if find_spec("bitsandbytes") is None:
        raise ValueError(
            "load_in_8bit and load_in_4bit need bitsandbytes, which is not installed; run `pip install bitsandbytes`, "
            "or set --dtype bfloat16 instead"
        )
