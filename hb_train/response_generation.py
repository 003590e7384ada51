r"""Teaches a model to respond as people do, and says how near it comes (Barikeri et al., 2021, section 3, "CRG").

    accelerate launch hb_train/response_generation.py --model_name_or_path microsoft/DialoGPT-small \
        --output_dir tasks/crg

The model is given what was said last, learns the response alone, and then responds to the prompts of the test split.
The paper's settings (5.1) are the defaults: one epoch, Adam at a constant 5e-5, at most 128 tokens (a context loses its
beginning), 80 rows a step, whatever the number of processes. Where the paper has DSTC-7, whose data is Reddit's, this
has the conversations of chitchat-dataset, or a file with the columns prompt and reply (`--dialogues`); all replies to
one prompt are together in one split, and in the test split they are its references. The default is few enough rows for
two CPU cores. crg.json has BLEU-4, METEOR, NIST-2, Entropy-4 and Dist-2 (`response_metrics.py`).
"""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hb_metrics.run_folder import open_run, write_json
from hb_train.hub_token import parse_training_options
from hb_train.processes import end_processes
from hb_train.tune import LORA_ERROR, MISSING_ERROR, QUANTIZED_ERROR, bfloat16_is_fast, say, training_description

if TYPE_CHECKING:
    from datasets import Dataset
    from trl import ModelConfig, SFTConfig

    from hb_dataset.dialogue_pairs import Dialogue
    from hb_metrics.inference.models.contexts import ContextFormat
    from hb_metrics.inference.models.loading import LoadedModel, LoadedTokenizer
    from hb_metrics.inference.replies.decoding import Decoding
    from hb_metrics.inference.replies.prompt_replies import ReplyPlan

# torch, transformers and trl take seconds to import: not before they are needed.

CRG_FILE = "crg.json"
REPLIES = "replies"
BATCH_SIZE = 80  # of all processes together

KIND_ERROR = "model '{name}' is {kind}; this task is for causal language models"
NUMBER_ERROR = "{name} is {number}; give at least 1"
LENGTH_ERROR = "max_length is {number}; give at least 8"
FEW_PROMPTS_ERROR = (
    "{pairs:,} pairs have {prompts:,} different prompts, and num_test takes {test:,}; nothing is left to train on. "
    "Give a smaller --num_test or a larger --num_pairs"
)
ALL_LONG_ERROR = "no response of the training split is at most {limit} tokens long; give a larger --max_length"
DIVERGED_ERROR = "training diverged: the loss is not a number; give a smaller --learning_rate than {rate:g}"


@dataclass
class ResponseArguments:
    """What this script takes beside TRL's options."""

    dialogues: str | None = field(
        default=None, metadata={"help": "A CSV, JSONL or Parquet file with prompt and reply; none: chitchat-dataset."}
    )
    num_pairs: int = field(
        default=1000, metadata={"help": "Pairs of prompt and reply, for training and test together."}
    )
    num_test: int = field(default=200, metadata={"help": "Prompts of the test split, with all of their replies."})
    context: str = field(
        default="auto", metadata={"help": "How a prompt is put to the model: auto, plain, dialogpt or chat."}
    )
    decoding: str = field(default="greedy", metadata={"help": "How responses are decoded: a preset of measure.py."})
    max_new_tokens: int = field(default=40, metadata={"help": "A response is cut when it has so many tokens."})

    def __post_init__(self) -> None:
        """Refuses what cannot be."""
        for name in ("num_pairs", "num_test", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(NUMBER_ERROR.format(name=name, number=getattr(self, name)))


class ResponseData(NamedTuple):
    """Rows to train on, and prompts to respond to.

    Attributes:
        train: (id, prompt, reply) of each row.
        test: (id, prompt, replies) of each prompt.
    """

    train: list[tuple[str, str, str]]
    test: list[tuple[str, str, list[str]]]


class ResponseRows(NamedTuple):
    """Rows as tokens (`rows.EncodedRows.dataset`), how many contexts were cut, and how many responses are too long."""

    dataset: "Dataset"
    num_cut: int
    num_too_long: int


def main(argv: list[str] | None = None) -> None:
    """Reads the options, trains, generates, and says where the result is."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        respond(*parse_options(argv))
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"response_generation.py: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit("\ninterrupted") from None


def parse_options(argv: list[str]) -> tuple[ResponseArguments, "SFTConfig", "ModelConfig"]:
    """Reads the command line, and under it the YAML file given with `--config`."""
    import torch
    from trl import ModelConfig, SFTConfig, TrlParser

    no_accelerator = not torch.accelerator.is_available()
    parser = TrlParser((ResponseArguments, SFTConfig, ModelConfig), description=(__doc__ or "").split("\n", 1)[0])
    parser.set_defaults(
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
        use_cpu=no_accelerator,
        bf16=bfloat16_is_fast() if no_accelerator else None,
    )
    return parse_training_options(parser, argv)


def split_pairs(dialogue: "Dialogue", num_test: int, seed: int) -> ResponseData:
    """Splits pairs by their prompts, so that no prompt is in both splits.

    Args:
        dialogue: The pairs.
        num_test: Prompts of the test split, drawn by their words and the seed.
        seed: Another seed, other prompts.

    Raises:
        ValueError: Nothing is left to train on.
    """
    from hb_dataset.seeded_draws import seeded_generator

    by_prompt: dict[str, list[tuple[str, str]]] = {}
    for identifier, prompt, reply in zip(dialogue.ids, dialogue.prompts, dialogue.replies, strict=True):
        by_prompt.setdefault(prompt, []).append((identifier, reply))
    if num_test >= len(by_prompt):
        raise ValueError(FEW_PROMPTS_ERROR.format(pairs=len(dialogue.ids), prompts=len(by_prompt), test=num_test))
    drawn = sorted(by_prompt, key=lambda prompt: (seeded_generator(seed, "response test", prompt).random(), prompt))
    in_test = set(drawn[:num_test])
    return ResponseData(
        train=[
            (identifier, prompt, reply)
            for prompt, each in by_prompt.items()
            if prompt not in in_test
            for identifier, reply in each
        ],
        test=[
            (each[0][0], prompt, [reply for _, reply in each])
            for prompt, each in by_prompt.items()
            if prompt in in_test
        ],
    )


def encode_responses(
    rows: Sequence[tuple[str, str, str]], loaded: "LoadedTokenizer", context: "ContextFormat", max_length: int
) -> ResponseRows:
    """Rows (id, prompt, reply) as tokens: the context, cut at its beginning, and the response, which alone is learnt.

    A response that is longer than half of `max_length` is left out: it would leave little of its context, and be cut
    where it is generated.
    """
    from datasets import Dataset

    from hb_metrics.inference.models.contexts import encode_replies, render_contexts
    from hb_train.rows import encode_rows

    tag = "no_tag"  # what `encode_rows` finds the end of the prompt by, and takes away
    prompts = [prompt for _, prompt, _ in rows]
    rendered, tagged = (
        render_contexts(prompts, [[]] * len(prompts), loaded.tokenizer, context, is_encoder_decoder=False, tag=each)
        for each in (None, tag)
    )
    suffix = tagged[0].rpartition(f" {tag}")[2] if tagged else ""
    replies = [reply for _, _, reply in rows]
    lengths = map(len, encode_replies(rendered, replies, loaded.tokenizer, context, is_encoder_decoder=False))
    kept = [place for place, length in enumerate(lengths) if length < max_length // 2]
    dataset = Dataset.from_dict(
        {
            "id": [rows[place][0] for place in kept],
            "prompt": [tagged[place] for place in kept],
            "tag": [tag] * len(kept),
            "completion": [replies[place] for place in kept],
            "truncated": [False] * len(kept),
        }
    )
    if not kept:
        return ResponseRows(dataset, 0, len(rows))
    encoded = encode_rows(dataset, loaded, context=context, suffix=suffix, with_tags=False, max_length=max_length)
    return ResponseRows(encoded.dataset, encoded.num_cut, len(rows) - len(kept))


def plan_responses(
    test: Sequence[tuple[str, str, list[str]]],
    loaded: "LoadedModel",
    context: "ContextFormat",
    decoding: "Decoding",
    *,
    max_length: int,
    seed: int = 0,
) -> tuple["ReplyPlan", int]:
    """What is to be responded to, and how many contexts lost their beginning to be at most `max_length` tokens long.

    A special token that a context starts with stays. The weights in `loaded` are those that are asked.
    """
    import numpy as np

    from hb_dataset.variations import VARIATIONS
    from hb_metrics.inference.models.contexts import check_lengths, encode_contexts, end_tokens
    from hb_metrics.inference.replies.decoding import is_invariant, takes_padding
    from hb_metrics.inference.replies.prompt_replies import ReplyPlan

    ids, texts = [each[0] for each in test], [each[1] for each in test]
    whole = encode_contexts(texts, [[]] * len(texts), loaded.model, loaded.tokenizer, context)
    starts = set(loaded.tokenizer.all_special_ids)
    contexts = [last_tokens(each, max_length, starts) for each in whole]
    check_lengths(contexts, ids, loaded.model, decoding.max_new_tokens)
    plan = ReplyPlan(
        ids=ids,
        texts=texts,
        flags={name: np.zeros(len(ids), bool) for name in VARIATIONS},
        personas=[[] for _ in ids],
        contexts=contexts,
        context=context,
        context_reason="",
        tag=None,
        tag_reason="",
        decoding=decoding,
        ends=end_tokens(loaded.model, loaded.tokenizer, context),
        seed=seed,
        invariant=is_invariant(loaded.model),
        padded=takes_padding(loaded.model, contexts),
    )
    return plan, sum(len(short) < len(each) for short, each in zip(contexts, whole, strict=True))


def last_tokens(context: list[int], room: int, starts: set[int]) -> list[int]:
    """The last tokens of a context, behind the special token it starts with, if any."""
    if len(context) <= room:
        return context
    start = context[:1] if context[0] in starts else []
    return start + context[len(context) - room + len(start) :]


def respond(
    arguments: ResponseArguments, training_args: "SFTConfig", model_args: "ModelConfig"
) -> dict[str, Any] | None:
    """Trains, generates and measures; writes crg.json.

    Returns:
        What is in crg.json, on the main process; `None` on all others, and where it was there already.

    Raises:
        ValueError: The model, the data and the options do not go together.
        OSError: The model or the data is not there.
    """
    import math
    import time

    import torch
    from trl import get_peft_config

    from hb_dataset.dialogue_pairs import read_dialogue
    from hb_metrics.inference.models.loading import load_model
    from hb_metrics.inference.processes import num_workers
    from hb_metrics.inference.replies.presets import decoding_preset
    from hb_metrics.inference.replies.prompt_replies import reply_into_shards
    from hb_train.response_metrics import response_metrics
    from hb_train.trainers import ReplySFTTrainer

    _check_options(training_args, model_args)
    decoding = decoding_preset(arguments.decoding, max_new_tokens=arguments.max_new_tokens)
    if training_args.device.type == "cpu":
        torch.set_num_threads(num_workers())  # `accelerate launch` sets one, whether anybody asked for it or not
    dialogue = read_dialogue(
        None if arguments.dialogues is None else Path(arguments.dialogues),
        num_replies=arguments.num_pairs,
        seed=training_args.seed,
    )
    data = split_pairs(dialogue, arguments.num_test, training_args.seed)
    loaded = load_model(
        model_args.model_name_or_path,
        revision=None if model_args.model_revision == "main" else model_args.model_revision,
        dtype=model_args.dtype,
        trust_remote_code=training_args.trust_remote_code,
    )
    if loaded.kind != "causal":
        raise ValueError(KIND_ERROR.format(name=model_args.model_name_or_path, kind=loaded.kind))
    context, reason = _context(arguments.context, loaded)
    folder = Path(training_args.output_dir)
    description = {
        **training_description(arguments, training_args, model_args, loaded),
        "dialogue": dialogue.description(),
        "decoding": asdict(decoding),
        "context": {"format": context, "reason": reason},
    }
    with training_args.main_process_first(local=False):
        if training_args.process_index == 0:
            open_run(folder, description)
    if (folder / CRG_FILE).is_file():
        say(training_args, f"nothing to do: {folder / CRG_FILE} is there")
        return None

    train, test = (
        encode_responses(rows, loaded, context, training_args.max_length)
        for rows in (data.train, [(each, prompt, replies[0]) for each, prompt, replies in data.test])
    )
    if not len(train.dataset):
        raise ValueError(ALL_LONG_ERROR.format(limit=training_args.max_length // 2))
    trainer = ReplySFTTrainer(
        model=loaded.model,
        args=training_args,
        train_dataset=train.dataset,
        eval_dataset=test.dataset if len(test.dataset) else None,
        processing_class=_copied(loaded.tokenizer),
        peft_config=get_peft_config(model_args),
    )
    trained = trainer.train()
    if not math.isfinite(trained.training_loss):
        raise ValueError(DIVERGED_ERROR.format(rate=training_args.learning_rate))
    evaluated = trainer.evaluate() if len(test.dataset) else {}
    tuned = _tuned(trainer, loaded)
    started = time.monotonic()
    plan, num_cut = plan_responses(
        data.test, tuned, context, decoding, max_length=training_args.max_length, seed=training_args.seed
    )
    with training_args.main_process_first(local=False):
        if training_args.process_index == 0:  # of a model that was trained before, and then interrupted
            shutil.rmtree(folder / REPLIES, ignore_errors=True)
    replies = reply_into_shards(plan, tuned, folder / REPLIES)
    results = None
    if replies is not None:
        metrics = response_metrics(replies["reply"].to_pylist(), [each[2] for each in data.test])
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


def _check_options(training_args: "SFTConfig", model_args: "ModelConfig") -> None:
    if model_args.model_name_or_path is None:
        what = "a Hub id, a local folder or 'embedded'"
        raise ValueError(MISSING_ERROR.format(option="--model_name_or_path", what=what))
    if model_args.load_in_8bit or model_args.load_in_4bit:
        raise ValueError(QUANTIZED_ERROR)
    if training_args.max_length is None or training_args.max_length < 8:
        raise ValueError(LENGTH_ERROR.format(number=training_args.max_length))
    if model_args.use_peft:
        from transformers.utils import is_peft_available

        if not is_peft_available():
            raise ValueError(LORA_ERROR)


def _context(name: str, loaded: "LoadedModel") -> tuple["ContextFormat", str]:
    """The format that was asked for, or that suits the model."""
    from hb_metrics.inference.models.contexts import CONTEXTS, UNKNOWN_ERROR, detect_context

    if name == "auto":
        return detect_context(loaded.model, loaded.tokenizer)
    for known in CONTEXTS:
        if known == name:
            return known, "as asked"
    raise ValueError(UNKNOWN_ERROR.format(context=name, allowed=", ".join(CONTEXTS)))


def _copied(tokenizer: Any) -> Any:
    """Trainers set a padding token where there is none; responses are generated with the tokenizer as it was."""
    from copy import deepcopy

    return deepcopy(tokenizer)


def _tuned(trainer: Any, loaded: "LoadedModel") -> "LoadedModel":
    """The model as it is after training, ready to be asked; an adapter is merged into it."""
    from dataclasses import replace

    model = trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    return replace(loaded, model=model.eval())


if __name__ == "__main__":
    main()
