r"""Teaches a model to respond as people do, and measures how near it comes (Barikeri et al., 2021, section 3, "CRG").

    accelerate launch hb_train/response_generation.py --model_name_or_path microsoft/DialoGPT-small \
        --output_dir tasks/crg

The model is given what was said last, learns the response alone, and then responds to the prompts of the test split.
The paper's settings (5.1) are the defaults: one epoch, Adam at a constant 5e-5, at most 128 tokens (a context loses its
beginning), 80 rows a step, whatever the number of processes. Where the paper has DSTC-7, whose data is Reddit's, this
has the conversations of chitchat-dataset, or a file with the columns prompt and reply (`--dialogues`); all replies to
one prompt are together in one split, and in the test split they are its references. The default is few enough rows for
two CPU cores. crg.json has BLEU-4, METEOR, NIST-2, Entropy-4 and Dist-2 (`tasks/response_metrics.py`).
"""

import math
import os
import shutil
import sys
import time
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hb_metrics.runs.run_folder import REPLIES, write_json
from hb_train.training.models import check_is_causal, load_base_model, trained_model
from hb_train.training.options import check_model_options, parse_training_options
from hb_train.training.runs import (
    end_processes,
    open_training_run,
    print_once,
    training_description,
    use_all_cores,
)

if TYPE_CHECKING:
    from trl import ModelConfig, SFTConfig

    from hb_metrics.inference.models.contexts import ContextFormat
    from hb_metrics.inference.models.loading import LoadedModel

# torch, transformers and trl take seconds to import: not before they are needed.

CRG_FILE = "crg.json"
BATCH_SIZE = 80  # of all processes together

NUMBER_ERROR = "{name} is {number}; give at least 1"
LENGTH_ERROR = "max_length is {number}; give at least 8"
ALL_LONG_ERROR = "no response of the training split is at most {limit} tokens long; give a larger --max_length"
DIVERGED_ERROR = "training diverged: the loss is not a number; give a smaller --learning_rate than {rate:g}"


@dataclass
class ResponseArguments:
    """The options of this script beside those of TRL."""

    dialogues: str | None = field(
        default=None,
        metadata={
            "help": "A CSV, JSONL or Parquet file with the columns prompt and reply; by default the pairs are those of "
            "chitchat-dataset."
        },
    )
    num_pairs: int = field(
        default=1000, metadata={"help": "The number of pairs of prompt and reply, for training and test together."}
    )
    num_test: int = field(
        default=200, metadata={"help": "The number of prompts in the test split, which has all of their replies."}
    )
    context: str = field(
        default="auto",
        metadata={"help": "The format in which prompts are given to the model: auto, plain, dialogpt or chat."},
    )
    decoding: str = field(
        default="greedy", metadata={"help": "The decoding of responses: one of the presets of measure.py."}
    )
    max_new_tokens: int = field(
        default=40, metadata={"help": "The largest number of tokens of a response, at which it is cut."}
    )

    def __post_init__(self) -> None:
        """Raises `ValueError` if a number is below 1."""
        for name in ("num_pairs", "num_test", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(NUMBER_ERROR.format(name=name, number=getattr(self, name)))


def main(argv: list[str] | None = None) -> None:
    """Reads the options, trains, generates, and prints the measures and where the result is."""
    try:
        respond(*parse_options(sys.argv[1:] if argv is None else argv))
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"response_generation.py: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit("\ninterrupted") from None


def parse_options(argv: list[str]) -> tuple[ResponseArguments, "SFTConfig", "ModelConfig"]:
    """Reads the command line, as `parse_training_options`."""
    from trl import ModelConfig, SFTConfig

    return parse_training_options(
        (ResponseArguments, SFTConfig, ModelConfig),
        argv,
        __doc__,
        num_train_epochs=1,
        learning_rate=5e-5,
        adam_epsilon=1e-8,
        weight_decay=0.0,
        lr_scheduler_type="constant",
        max_length=128,
        per_device_train_batch_size=max(1, BATCH_SIZE // int(os.environ.get("WORLD_SIZE", "1"))),
        gradient_checkpointing=False,
        save_strategy="no",
        report_to="none",
        logging_steps=5,
    )


def respond(
    arguments: ResponseArguments, training_args: "SFTConfig", model_args: "ModelConfig"
) -> dict[str, Any] | None:
    """Trains, generates and measures; writes crg.json.

    Returns:
        The content of crg.json, on the main process; `None` on all others, and where it was there already.

    Raises:
        ValueError: The model, the data and the options do not go together, or training diverged.
        OSError: The model or the data is not there.
    """
    from trl import get_peft_config

    from hb_dataset.dialogue_pairs import read_dialogue
    from hb_metrics.inference.replies.presets import decoding_preset
    from hb_metrics.inference.replies.prompt_replies import reply_into_shards
    from hb_train.tasks.response_data import encode_responses, plan_responses, split_pairs
    from hb_train.tasks.response_metrics import response_metrics
    from hb_train.training.trainers import ReplySFTTrainer

    check_model_options(model_args)
    if training_args.max_length is None or training_args.max_length < 8:
        raise ValueError(LENGTH_ERROR.format(number=training_args.max_length))
    decoding = decoding_preset(arguments.decoding, max_new_tokens=arguments.max_new_tokens)
    use_all_cores(training_args)
    dialogue = read_dialogue(
        None if arguments.dialogues is None else Path(arguments.dialogues),
        num_replies=arguments.num_pairs,
        seed=training_args.seed,
    )
    data = split_pairs(dialogue, arguments.num_test, training_args.seed)
    loaded = load_base_model(model_args, training_args)
    check_is_causal(loaded)
    context, reason = _context(arguments.context, loaded)
    description = {
        **training_description(arguments, training_args, model_args, loaded),
        "dialogue": dialogue.description(),
        "decoding": asdict(decoding),
        "context": {"format": context, "reason": reason},
    }
    folder = open_training_run(training_args, description)
    if (folder / CRG_FILE).is_file():
        print_once(training_args, f"nothing to do: {folder / CRG_FILE} is there")
        return None

    train, test = (
        encode_responses(rows, loaded, context, training_args.max_length)
        for rows in (data.train, [(identifier, prompt, replies[0]) for identifier, prompt, replies in data.test])
    )
    if not len(train.dataset):
        raise ValueError(ALL_LONG_ERROR.format(limit=training_args.max_length // 2))
    trainer = ReplySFTTrainer(
        model=loaded.model,
        args=training_args,
        train_dataset=train.dataset,
        eval_dataset=test.dataset if len(test.dataset) else None,
        # Trainers set a padding token where there is none; responses are generated with the tokenizer as it was.
        processing_class=deepcopy(loaded.tokenizer),
        peft_config=get_peft_config(model_args),
    )
    trained = trainer.train()
    if not math.isfinite(trained.training_loss):
        raise ValueError(DIVERGED_ERROR.format(rate=training_args.learning_rate))
    evaluated = trainer.evaluate() if len(test.dataset) else {}
    taught = replace(loaded, model=trained_model(trainer, keep_fp32_wrapper=False).eval())
    started = time.monotonic()
    plan, num_cut = plan_responses(
        data.test, taught, context, decoding, max_length=training_args.max_length, seed=training_args.seed
    )
    with training_args.main_process_first(local=False):
        if training_args.process_index == 0:  # replies of a run that was interrupted, whose model was another one
            shutil.rmtree(folder / REPLIES, ignore_errors=True)
    replies = reply_into_shards(plan, taught, folder / REPLIES)
    results = None
    if replies is not None:
        metrics = response_metrics(replies["reply"].to_pylist(), [references for _, _, references in data.test])
        results = {
            **description,
            **metrics._asdict(),
            "response_perplexity": evaluated.get("eval_perplexity"),
            "num_truncated": sum(replies["truncated"].to_pylist()),
            "train_loss": trained.training_loss,
            "num_steps": trained.global_step,
            "num_train_rows": len(train.dataset),
            "num_cut_contexts": {"train": train.num_cut, "test": num_cut},
            "num_too_long_responses": {"train": train.num_too_long, "perplexity": test.num_too_long},
            "num_skipped": dialogue.num_skipped,
            "seconds": {"train": trained.metrics["train_runtime"], "generation": time.monotonic() - started},
        }
        write_json(folder / CRG_FILE, results)
        for name in ("bleu_4", "meteor", "meteor_exact_stem", "nist_2", "entropy_4", "dist_2"):
            print(f"  {name:<18}{'undefined' if results[name] is None else format(results[name], '.3f')}")
        print(f"results: {(folder / CRG_FILE).resolve()}")
    end_processes(trainer)
    return results


def _context(name: str, loaded: "LoadedModel") -> tuple["ContextFormat", str]:
    """The format that was asked for, or that suits the model, and why."""
    from hb_metrics.inference.models.contexts import CONTEXTS, detect_context

    if name == "auto":
        return detect_context(loaded.model, loaded.tokenizer)
    for known in CONTEXTS:
        if known == name:
            return known, "as asked"
    raise ValueError(f"context '{name}' is not known; allowed: auto, {', '.join(CONTEXTS)}")


if __name__ == "__main__":
    main()
