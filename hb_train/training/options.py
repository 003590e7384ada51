"""The command line of a training script: its own options, those of TRL or transformers, and shared checks."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from hb_train.training.hub_token import hide_token

if TYPE_CHECKING:
    from trl import ModelConfig

# torch, transformers and trl take seconds to import: not before they are needed.


def run_script(name: str, work: Callable[[], object]) -> None:
    """Runs a script's work; its errors become one line and exit status 1."""
    try:
        work()
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"{name}: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit("\ninterrupted; to resume, give the same command again") from None


def option(default: Any, help: str) -> Any:
    """A field of a dataclass of options."""
    return field(default=default, metadata={"help": help})


def parse_training_options(classes: Sequence[type], argv: list[str], docstring: str | None, **defaults: Any) -> Any:
    """Reads the command line and the YAML file of `--config`, as TRL's own scripts do.

    Without an accelerator, training is on the CPU, in bfloat16 where the processor is fast in it.

    Args:
        classes: The dataclasses whose fields are the options.
        argv: The words of the command line.
        docstring: The script's, whose first line opens the help.
        defaults: Defaults that replace those of the dataclasses.

    Returns:
        An instance of each of `classes`. No token in them is written to a file.

    Raises:
        ValueError: An option has a value that is not allowed, or holds a Hub token.
    """
    import torch
    from trl import TrlParser

    parser = TrlParser(classes, description=first_line(docstring))
    if not torch.accelerator.is_available():
        # Processors without these instructions emulate bfloat16, many times slower than float32.
        fast = torch.cpu.get_capabilities()
        parser.set_defaults(use_cpu=True, bf16=fast.get("amx_tile", False) or fast.get("avx512_bf16", False))
    parser.set_defaults(**defaults)
    arguments = parser.parse_args_and_config(argv)
    hide_token(arguments)
    return arguments


def first_line(docstring: str | None) -> str:
    """The first line of a script's docstring, which describes the script in its help."""
    return (docstring or "").split("\n", 1)[0]


def read_config(path: str | None) -> dict[str, Any]:
    """Reads the options in a YAML file; no file has no options.

    Raises:
        ValueError: The file cannot be read.
    """
    if path is None:
        return {}
    config: Any = None
    with suppress(yaml.YAMLError, UnicodeDecodeError, OSError):
        config = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    if not isinstance(config, dict):
        raise ValueError(
            f"'{path}' is not a YAML file of options; set --config to one, such as those in hb_train/recipes"
        )
    return config


def check_least(arguments: Any, **least: float) -> None:
    """Raises `ValueError` if a numeric option is below its least value, or not finite."""
    for name, number in least.items():
        value = getattr(arguments, name)
        if value is not None and not number <= value < math.inf:
            raise ValueError(f"{name} is {value}; set a number of at least {number}")


def check_shares(arguments: Any, *names: str) -> None:
    """Raises `ValueError` if one of these options is not between 0 and 1."""
    for name in names:
        value = getattr(arguments, name)
        if value is not None and not 0 < value < 1:
            raise ValueError(f"{name} is {value}; set a number between 0 and 1")


def check_given(**options: Any) -> None:
    """Raises `ValueError` if a required option was left out."""
    for name, value in options.items():
        if value is None:
            raise ValueError(f"--{name} is missing; see --help for what it takes")


def check_model_options(model_args: "ModelConfig") -> None:
    """Raises `ValueError` if no model is named, or it is to be quantized."""
    check_given(model_name_or_path=model_args.model_name_or_path)
    if model_args.load_in_8bit or model_args.load_in_4bit:
        raise ValueError(
            "load_in_8bit and load_in_4bit are not supported, because the trained model is saved whole; "
            "set --dtype bfloat16 --use_peft"
        )
