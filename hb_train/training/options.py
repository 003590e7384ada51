"""The command line of a training script: its own options beside those of TRL or transformers, and shared checks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hb_train.training.hub_token import hide_token

if TYPE_CHECKING:
    from trl import ModelConfig

# torch, transformers and trl take seconds to import: not before they are needed.

MISSING_ERROR = "{option} is missing; give {what}"
MODEL_MISSING_ERROR = MISSING_ERROR.format(option="--model_name_or_path", what="a Hub id, a local folder or 'embedded'")
QUANTIZED_ERROR = (
    "load_in_8bit and load_in_4bit are not supported: the trained model is saved whole, with its adapter merged; give "
    "--dtype bfloat16 --use_peft"
)
LORA_ERROR = "use_peft needs the package peft: pip install 'holistic-bias[tune]'"


def parse_training_options(classes: Sequence[type], argv: list[str], docstring: str | None, **defaults: Any) -> Any:
    """Reads the command line, and under it the YAML file given with `--config`, as TRL's own scripts do.

    Without an accelerator training is on the CPU, in bfloat16 where the processor is fast in it.

    Args:
        classes: The dataclasses whose fields are the options.
        argv: The words of the command line.
        docstring: The script's, whose first line opens the help.
        defaults: Defaults other than those of the dataclasses.

    Returns:
        An instance of each of `classes`. No token in them is written to a file.

    Raises:
        ValueError: An option has a value that is not allowed, or holds a Hub token.
    """
    import torch
    from trl import TrlParser

    parser = TrlParser(classes, description=first_line(docstring))
    if not torch.accelerator.is_available():
        parser.set_defaults(use_cpu=True, bf16=_bfloat16_is_fast())
    parser.set_defaults(**defaults)
    arguments = parser.parse_args_and_config(argv)
    hide_token(arguments)
    return arguments


def first_line(docstring: str | None) -> str:
    """The first line of a script's docstring, which describes it in its help."""
    return (docstring or "").split("\n", 1)[0]


def check_model_options(model_args: "ModelConfig") -> None:
    """Raises if TRL's options of the model are not complete or not supported.

    Raises:
        ValueError: No model is named, it is to be quantized, or LoRA is wanted and peft is not installed.
    """
    if model_args.model_name_or_path is None:
        raise ValueError(MODEL_MISSING_ERROR)
    if model_args.load_in_8bit or model_args.load_in_4bit:
        raise ValueError(QUANTIZED_ERROR)
    if model_args.use_peft:
        from transformers.utils import is_peft_available

        if not is_peft_available():
            raise ValueError(LORA_ERROR)


def _bfloat16_is_fast() -> bool:
    """Whether this processor multiplies in bfloat16; those that do not emulate it, many times slower than float32."""
    import torch

    capabilities = torch.cpu.get_capabilities()
    return capabilities.get("amx_tile", False) or capabilities.get("avx512_bf16", False)
