r"""Teaches a model to respond as people do, and scores its responses (Barikeri et al., 2021, section 3, "CRG").

    accelerate launch hb_train/response_generation.py --model_name_or_path microsoft/DialoGPT-small \
        --dialogues train.convos.txt --output_dir tasks/crg

The model reads the last turn of a dialogue and learns the response to it. All responses to a prompt are in the same
split. In the test split, they are the references with which the model's response is compared. The defaults are the
paper's settings (5.1), but with fewer pairs, so that training is possible on two CPU cores. crg.json contains BLEU-4,
METEOR, NIST-2, Entropy-4 and Dist-2.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from datasets import Dataset
from trl import ModelConfig, SFTConfig, get_peft_config

from hb_dataset.dialogue_pairs import read_dialogue
from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.collect.replies.decoding_settings import decoding_preset
from hb_metrics.collect.replies.decoding_shards import decode_into_shards
from hb_metrics.collect.replies.prompt_replies import plan_replies
from hb_metrics.collect.replies.requests import make_requests
from hb_metrics.models.chats import DEFAULT_CHAT, chat_messages
from hb_metrics.models.contexts import detect_context, encode_replies, render_messages
from hb_metrics.run.run_folder import REPLIES, write_json
from hb_train.tasks.response_metrics import response_metrics
from hb_train.training.encoding import EncodedRows, encode_rows
from hb_train.training.models import load_base_model, padding_tokenizer, trained_model
from hb_train.training.options import check_least, check_model_options, option, parse_training_options, run_script
from hb_train.training.runs import check_finite, end_processes, open_training_run, training_description, use_all_cores
from hb_train.training.trainers import ReplySFTTrainer

if TYPE_CHECKING:
    from hb_dataset.dialogue_pairs import Dialogue
    from hb_metrics.models.contexts import ContextFormat
    from hb_metrics.models.loading import LoadedModel


def split_pairs(
    dialogue: "Dialogue", num_test: int, seed: int
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, list[str]]]]:
    """Splits prompt–reply pairs into training and test pairs. No prompt is in both splits.

    The seed and the words of the prompts determine the `num_test` prompts of the test split.
    """
    by_prompt: dict[str, list[tuple[str, str]]] = {}
    for identifier, prompt, reply in zip(dialogue.ids, dialogue.prompts, dialogue.replies, strict=True):
        by_prompt.setdefault(prompt, []).append((identifier, reply))
    if num_test >= len(by_prompt):
        raise ValueError(
            f"num_test uses {num_test:,} of the {len(by_prompt):,} different prompts, so none is left for training; "
            "lower --num_test or raise --num_pairs"
        )
    order = sorted(by_prompt, key=lambda prompt: (seeded_generator(seed, "response test", prompt).random(), prompt))
    in_test = set(order[:num_test])
    train: list[tuple[str, str, str]] = []
    test: list[tuple[str, str, list[str]]] = []
    for prompt, replies in by_prompt.items():
        if prompt in in_test:
            test.append((replies[0][0], prompt, [reply for _, reply in replies]))
        else:
            train.extend((identifier, prompt, reply) for identifier, reply in replies)
    return train, test


def encode_responses(
    rows: Sequence[tuple[str, str, str]], loaded: "LoadedModel", context: "ContextFormat", max_length: int
) -> tuple[EncodedRows, int]:
    """Encodes contexts and responses, of which only the responses are learnt. Counts the dropped rows.

    If a context is too long, its beginning is cut. A row is dropped if its response is longer than half of
    `max_length`. Such a response would leave little room for the context, and would be truncated in generation.
    """
    conversations = [chat_messages(prompt, [], DEFAULT_CHAT) for _, prompt, _ in rows]
    rendered = render_messages(conversations, loaded.tokenizer, context, is_encoder_decoder=False)
    texts = [reply for _, _, reply in rows]
    replies = encode_replies(rendered, texts, loaded.tokenizer, context, is_encoder_decoder=False)
    fitting = [
        {"id": identifier, "prompt": prompt, "completion": text, "tag": "", "truncated": False}
        for (identifier, _, text), prompt, reply in zip(rows, rendered, replies, strict=True)
        if len(reply) < max_length // 2
    ]
    if not fitting:
        raise ValueError(
            f"all {len(rows):,} responses are longer than {max_length // 2} tokens; set --max_length above {max_length}"
        )
    data = Dataset.from_list(fitting)
    encoded = encode_rows(data, loaded, context=context, suffix="", with_tags=True, max_length=max_length)
    return encoded, len(rows) - len(fitting)


CRG_FILE = "crg.json"
BATCH_SIZE, NUM_BATCHES = 16, 5  # per step, over all processes


@dataclass
class ResponseArguments:
    dialogues: str | None = option(
        None,
        "The convos.txt file of DSTC-7, or a CSV, JSONL or Parquet file with the columns prompt and reply. Default: "
        "pairs from the chitchat-dataset corpus.",
    )
    num_pairs: int = option(1000, "The total number of prompt–reply pairs for training and testing.")
    num_test: int = option(200, "The number of test prompts. All replies to a test prompt serve as references.")
    max_new_tokens: int = option(40, "The maximum number of tokens in a response.")

    def __post_init__(self) -> None:
        check_least(self, num_pairs=1, num_test=1, max_new_tokens=1)


def main(argv: list[str] | None = None) -> None:
    run_script("response_generation.py", lambda: respond(*parse_options(argv)))


def parse_options(argv: list[str] | None) -> tuple[ResponseArguments, SFTConfig, ModelConfig]:
    options = parse_training_options(
        (ResponseArguments, SFTConfig, ModelConfig),
        argv,
        __doc__,
        num_train_epochs=1,
        learning_rate=5e-5,
        lr_scheduler_type="constant",
        max_length=128,
        per_device_train_batch_size=max(1, BATCH_SIZE // int(os.environ.get("WORLD_SIZE", "1"))),
        gradient_accumulation_steps=NUM_BATCHES,
        gradient_checkpointing=False,
        save_strategy="no",
        logging_steps=5,
    )
    check_model_options(options[2])
    check_least(options[1], max_length=8)
    return options


def respond(arguments: ResponseArguments, training_args: SFTConfig, model_args: ModelConfig) -> None:
    decoding = decoding_preset("greedy", max_new_tokens=arguments.max_new_tokens)
    use_all_cores(training_args)
    dialogue = read_dialogue(
        None if arguments.dialogues is None else Path(arguments.dialogues),
        num_replies=arguments.num_pairs,
        seed=training_args.seed,
    )
    pairs, tested = split_pairs(dialogue, arguments.num_test, training_args.seed)
    loaded = load_base_model(model_args, training_args)
    context, reason = detect_context(loaded.model, loaded.tokenizer)
    description = {
        **training_description(arguments, training_args, loaded, model_args),
        "dialogue": dialogue.description(),
        "decoding": asdict(decoding),
        "context": {"format": context, "reason": reason},
    }
    folder = open_training_run(training_args, description, CRG_FILE)
    if folder is None:
        return

    tested_rows = [(identifier, prompt, replies[0]) for identifier, prompt, replies in tested]
    (train, train_too_long), (test, test_too_long) = (
        encode_responses(rows, loaded, context, int(training_args.max_length or 0)) for rows in (pairs, tested_rows)
    )
    trainer = ReplySFTTrainer(
        model=loaded.model,
        args=training_args,
        train_dataset=train.dataset,
        eval_dataset=test.dataset,
        processing_class=padding_tokenizer(loaded),
        peft_config=get_peft_config(model_args),
    )
    check_finite(training_args, trainer.train().training_loss, "loss")
    perplexity = trainer.evaluate()["eval_perplexity"]
    taught = replace(loaded, model=trained_model(trainer).eval())
    prompts = pa.table({"id": [row[0] for row in tested], "text": [row[1] for row in tested]})
    plan = plan_replies(make_requests(prompts, decoding=decoding, seed=training_args.seed), taught, context=context)
    with training_args.main_process_first(local=False):
        if training_args.process_index == 0:  # replies left by an interrupted run come from another model
            shutil.rmtree(folder / REPLIES, ignore_errors=True)
    replies = decode_into_shards(plan, taught, folder / REPLIES)
    if training_args.process_index == 0:
        results = {
            **description,
            **response_metrics(replies["reply"].to_pylist(), [references for _, _, references in tested]),
            "response_perplexity": perplexity,
            "num_truncated": sum(replies["truncated"].to_pylist()),
            "num_steps": trainer.state.global_step,
            "num_train_rows": len(train.dataset),
            "num_cut_contexts": train.num_cut,
            "num_too_long_responses": {"train": train_too_long, "perplexity": test_too_long},
            "num_skipped": dialogue.num_skipped,
        }
        write_json(folder / CRG_FILE, results)
        for name in ("bleu_4", "meteor", "meteor_exact_stem", "nist_2", "entropy_4", "dist_2"):
            print(f"  {name:<18}{'undefined' if results[name] is None else format(results[name], '.3f')}")
        print(f"results: {(folder / CRG_FILE).resolve()}")
    end_processes(trainer)


if __name__ == "__main__":
    main()
