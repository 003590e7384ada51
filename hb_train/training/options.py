import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields, make_dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

from hb_dataset.command_line import safe_terminal
from hb_metrics.measurements.settings import check_least

if TYPE_CHECKING:
    from trl import ModelConfig

# `bias_labels.py` needs these options but not trl, which is therefore imported only for training.

# The options of the trainers that the scripts have. All other options would have no effect, or would select, evaluate
# or publish something else.
_TRAINING = """
    output_dir seed data_seed full_determinism num_train_epochs max_steps max_length
    per_device_train_batch_size per_device_eval_batch_size gradient_accumulation_steps average_tokens_across_devices
    learning_rate lr_scheduler_type lr_scheduler_kwargs warmup_steps warmup_ratio weight_decay max_grad_norm
    optim optim_args optim_target_modules adam_beta1 adam_beta2 adam_epsilon router_aux_loss_coef
    bf16 fp16 tf32 bf16_full_eval fp16_full_eval use_cpu accelerator_config deepspeed trust_remote_code
    gradient_checkpointing gradient_checkpointing_kwargs activation_checkpointing activation_checkpointing_kwargs
    torch_compile torch_empty_cache_steps ddp_backend ddp_timeout ddp_find_unused_parameters
    dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers dataloader_prefetch_factor
    logging_steps logging_strategy logging_first_step log_level disable_tqdm report_to run_name project trackio_space_id
    save_strategy save_steps save_total_limit local_rank
"""
USAGE = "%(prog)s OPTIONS; --help lists all options"  # argparse would print all of them before an error
# The settings of the scripts that follow Barikeri et al. (2021, 5.1).
PAPER: Any = {"num_train_epochs": 1, "learning_rate": 5e-5, "lr_scheduler_type": "constant"}


def run_script(name: str, work: Callable[[], object]) -> None:
    with safe_terminal():
        try:
            work()
        except (ValueError, OSError, ImportError, MemoryError) as error:
            raise SystemExit(f"{name}: {error}") from error
        except KeyboardInterrupt:
            raise SystemExit("\ninterrupted; to resume, run the same command again") from None


def parse_own_options(kind: type, argv: Sequence[str] | None, docstring: str | None) -> Any:
    from transformers import HfArgumentParser

    parser = HfArgumentParser(kind, description=first_line(docstring), usage=USAGE, allow_abbrev=False)
    return kind(**vars(parser.parse_args(argv)))


def parse_options(
    classes: Sequence[type], argv: Sequence[str] | None, docstring: str | None, more: str = "", **defaults: Any
) -> Any:
    """Returns an instance of each class of options, read from the command line and the YAML file in `--config`.

    Of the second class, which is that of the trainer, only the options in `_TRAINING` and in `more` can be set.

    Without an accelerator, training runs on the CPU, in bfloat16 if the processor supports it natively. `accelerate
    launch` limits torch to one core, so torch gets this process's share of the cores. The help begins with the first
    line of `docstring`. `defaults` overrides TRL's defaults.
    """
    import torch
    import yaml
    from transformers.integrations import get_available_reporting_integrations
    from trl import TrlParser

    from hb_metrics.models.processes import num_workers

    trainer, names = classes[1], {*_TRAINING.split(), *more.split()}
    kinds = (classes[0], some_options(trainer, names), *classes[2:])
    parser = TrlParser(kinds, description=first_line(docstring), usage=USAGE)
    if not torch.accelerator.is_available():
        defaults = {"use_cpu": True, "bf16": has_fast_bfloat16(), **defaults}
    parser.set_defaults(**{name: value for name, value in defaults.items() if name in names})
    try:
        *options, unknown = parser.parse_args_and_config(argv, return_remaining_strings=True)
        options[1] = trainer(**{**defaults, **vars(options[1])})
    except yaml.YAMLError as error:
        raise ValueError(f"the file in --config is not valid YAML ({error}); correct it") from error
    except ValueError as error:
        if "load_best_model_at_end" not in str(error):  # no option of the scripts
            raise
        raise ValueError(
            "checkpoints would not be evaluated; set --eval_strategy and --save_strategy to steps, and --save_steps to "
            "the same number as --eval_steps, or set both strategies to epoch"
        ) from error
    if unknown:
        # Values are not shown, because one of them may be a token.
        wrong = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        raise ValueError(f"{', '.join(wrong) or 'a word'} is not an option of this script; --help lists all options")
    for name, value in [pair for group in options for pair in vars(group).items()]:
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} is {value}; set a finite number")
        if name.endswith("_kwargs") and isinstance(value, str):  # TRL has converted all JSON objects
            raise ValueError(f"{name} is '{value}'; set a JSON object, such as '{{}}'")
    if options[1].learning_rate <= 0:
        raise ValueError(f"learning_rate is {options[1].learning_rate}; set a number above 0")
    sizes = ("gradient_accumulation_steps", "per_device_train_batch_size", "per_device_eval_batch_size")
    check_least(options[1], seed=0, **dict.fromkeys(sizes, 1))
    if missing := [name for name in options[1].report_to if name not in get_available_reporting_integrations()]:
        raise ValueError(
            f"report_to is '{missing[0]}', of which no package is installed; install it, or set --report_to none"
        )
    if options[1].device.type == "cpu":
        torch.set_num_threads(num_workers())
    return options


def some_options(kind: type, names: Collection[str]) -> Any:
    """Returns a dataclass with some of the fields of another dataclass."""
    types = get_type_hints(kind)
    chosen = [option for option in fields(kind) if option.name in names]
    return make_dataclass("Options", [(option.name, types[option.name], option) for option in chosen])


def has_fast_bfloat16() -> bool:
    """Returns whether there is no accelerator, but the CPU supports bfloat16 natively (without slow emulation)."""
    import torch

    able = torch.cpu.get_capabilities()
    return not torch.accelerator.is_available() and any(able.get(name) for name in ("amx_tile", "avx512_bf16"))


def first_line(docstring: str | None) -> str:
    return (docstring or "").split("\n", 1)[0]


def check_model_options(model_args: "ModelConfig", *, may_quantize: bool = False) -> None:
    if model_args.model_name_or_path is None:
        raise ValueError("--model_name_or_path is missing; set it to a Hub id, a local folder or 'embedded'")
    modules = model_args.lora_target_modules
    # PEFT reads a string as a pattern for whole paths.
    if isinstance(modules, str) and modules.replace(".", "").isidentifier():
        model_args.lora_target_modules = [modules]
    if (model_args.load_in_8bit or model_args.load_in_4bit) and not (may_quantize and model_args.use_peft):
        raise ValueError(
            "quantised weights cannot be trained; omit --load_in_4bit and --load_in_8bit and set --dtype bfloat16, or "
            "tune an adapter (tune.py --use_peft, without --merge)"
        )
