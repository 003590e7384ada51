r"""Debiases a causal language model on phrases of a bias type (Barikeri et al., 2021, section 4).

    accelerate launch hb_train/debias.py --method hd --bias_type religion1 --reddit_folder RedditBias \
        --model_name_or_path microsoft/DialoGPT-small --output_dir models/hd

`lmd`, `add` and `hd` learn λ_LM·L_LM + λ_D·L_D on the stereotyped phrases (text_t1); `cda` learns L_LM on them and
their counterfactual twins. Phrases of one's own: `--train_file`, `--validation_file`. The paper's settings (5.1) are
the defaults: two epochs, Adam at 5e-5 (constant: the paper names no schedule), no weight decay; its grid of the rest is
`sweep.py --script debias`. The model of the last step is kept, as in the paper: the lowest validation perplexity would
favour the one that is least debiased. debias.json tells the bias on the validation pairs and the perplexity of other
people's text, before and after. A run that was interrupted goes on when the same command is given again.
"""

import math
import sys
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hb_metrics.run_folder import open_run, read_json, write_json
from hb_train.hub_token import parse_training_options
from hb_train.processes import end_processes
from hb_train.tune import (
    LORA_ERROR,
    MISSING_ERROR,
    QUANTIZED_ERROR,
    bfloat16_is_fast,
    last_checkpoint,
    say,
    training_description,
    validation_curve,
)

if TYPE_CHECKING:
    from transformers import Trainer
    from trl import ModelConfig, SFTConfig

    from hb_dataset.bias_specification import BiasSpecification
    from hb_metrics.inference.models.loading import LoadedModel
    from hb_train.debias_rows import EncodedPhrases, Phrases
    from hb_train.debias_terms import Terms

# torch, transformers and trl take seconds to import: not before they are needed.

DEBIAS_FILE = "debias.json"
Method = Literal["lmd", "add", "hd", "cda"]
_PLACES = ("reddit_folder", "train_file", "validation_file", "reference_texts")  # what lies there is in the record

SOURCE_ERROR = "give either --reddit_folder, or --train_file and --validation_file"
KIND_ERROR = "model '{name}' is {kind}; debiasing needs a causal language model"
NOT_POSITIVE_ERROR = "{name} is {value}; give a finite number of at least 0"
BEST_ERROR = "the model of the last step is kept; leave out --load_best_model_at_end true"
NOTHING_ERROR = "no {what} of '{bias_type}' stands in the {number} training phrases, so method {method} learns nothing"
DIVERGED_ERROR = (
    "the validation perplexity is not a number: training diverged; give a smaller --learning_rate than {rate:g}"
)


@dataclass
class DebiasArguments:
    """What this script takes beside TRL's options."""

    method: Method | None = field(default=None, metadata={"help": "How to debias: lmd, add, hd or cda."})
    bias_type: str | None = field(
        default=None, metadata={"help": "A bias specification: its name (gender, race, …), or a YAML file."}
    )
    reddit_folder: str | None = field(
        default=None, metadata={"help": "The authors' RedditBias repository, or a folder in its layout."}
    )
    train_file: str | None = field(
        default=None,
        metadata={"help": "Phrases of your own: a column text_t1 (and text_t2), or a TXT file, a phrase a line."},
    )
    validation_file: str | None = field(default=None, metadata={"help": "More of them, not trained on."})
    pairs: Literal["published", "word"] | None = field(
        default=None,
        metadata={"help": "How twins are made; default: as published for RedditBias, by words for your own phrases."},
    )
    lambda_lm: float = field(default=0.01, metadata={"help": "λ_LM; the paper's grid is 0.001 and 0.01."})
    lambda_d: float = field(default=10.0, metadata={"help": "λ_D; the paper's grid is 10, 50 and 100."})
    subspace: Literal["recomputed", "fixed"] = field(
        default="recomputed", metadata={"help": "Whether the directions of hd follow the output layer at each step."}
    )
    reference_texts: str | None = field(
        default=None, metadata={"help": "A TXT file of other text, a line each; default: replies of chitchat-dataset."}
    )
    num_reference_texts: int = field(default=200, metadata={"help": "How many of them are scored; 0: none."})

    def __post_init__(self) -> None:
        """Refuses what cannot be."""
        for name in ("lambda_lm", "lambda_d", "num_reference_texts"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(NOT_POSITIVE_ERROR.format(name=name, value=getattr(self, name)))


def main(argv: list[str] | None = None) -> None:
    """Reads the options, debiases, and says where the model is."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        debias(*parse_options(argv))
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"debias.py: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit("\ninterrupted; to go on from the last checkpoint, give the same command again") from None


def parse_options(argv: list[str]) -> tuple[DebiasArguments, "SFTConfig", "ModelConfig"]:
    """Reads the command line, and under it the YAML file given with `--config`, as TRL's own scripts do."""
    import torch
    from trl import ModelConfig, SFTConfig, TrlParser

    no_accelerator = not torch.accelerator.is_available()
    parser = TrlParser((DebiasArguments, SFTConfig, ModelConfig), description=(__doc__ or "").split("\n", 1)[0])
    parser.set_defaults(
        num_train_epochs=2.0,
        learning_rate=5e-5,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_length=128,
        gradient_checkpointing=False,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        eval_on_start=True,
        use_cpu=no_accelerator,
        bf16=bfloat16_is_fast() if no_accelerator else None,
    )
    return parse_training_options(parser, argv)


def debias(arguments: DebiasArguments, training_args: "SFTConfig", model_args: "ModelConfig") -> dict[str, Any]:
    """Debiases a model and saves it with what came of it.

    Returns:
        The content of debias.json.

    Raises:
        ValueError: The model, the phrases and the options do not go together, or training diverged.
        OSError: The model or the phrases are not there.
    """
    import torch

    from hb_dataset.bias_specification import read_specification
    from hb_metrics.inference.models.loading import load_model
    from hb_metrics.inference.processes import num_workers
    from hb_train.debias_rows import encode_phrases
    from hb_train.debias_terms import read_terms

    _check_options(arguments, training_args, model_args)
    if training_args.device.type == "cpu":
        torch.set_num_threads(num_workers())  # `accelerate launch` sets one, whether anybody asked for it or not
    specification = read_specification(str(arguments.bias_type))
    phrases = _read_phrases(arguments, specification)
    references, source = _reference_texts(arguments)
    loaded = load_model(
        model_args.model_name_or_path,
        revision=None if model_args.model_revision == "main" else model_args.model_revision,
        dtype=model_args.dtype,
        trust_remote_code=training_args.trust_remote_code,
    )
    if loaded.kind != "causal":
        raise ValueError(KIND_ERROR.format(name=loaded.name, kind=loaded.kind))
    if model_args.attn_implementation is not None:
        loaded.model.set_attn_implementation(model_args.attn_implementation)
    terms = read_terms(specification, loaded.tokenizer, with_forms=arguments.method == "lmd")
    train, validation = phrases["train"], phrases["validation"]
    trained = [*train.texts_t1, *(train.texts_t2 if arguments.method == "cda" else ())]
    encoded = {
        name: encode_phrases(
            texts, loaded.tokenizer, terms, specification.attributes_1, max_length=training_args.max_length
        )
        for name, texts in (("train", trained), ("validation", [*validation.texts_t1, *validation.texts_t2]))
    }
    _check_occurrences(arguments, encoded["train"])

    folder = Path(training_args.output_dir)
    with training_args.main_process_first(local=False):
        if training_args.process_index == 0:
            description = training_description(arguments, training_args, model_args, loaded)
            settings = {name: value for name, value in description["settings"].items() if name not in _PLACES}
            data = {"phrases": _digest(phrases), "specification": _digest(specification), "reference": source}
            open_run(folder, {**description, "settings": settings, "data": data})
    if (folder / DEBIAS_FILE).is_file():
        say(training_args, f"{folder} was debiased with these settings before; nothing to do ({DEBIAS_FILE} is there)")
        return read_json(folder / DEBIAS_FILE)
    with training_args.main_process_first(local=False):
        checkpoint = training_args.resume_from_checkpoint or last_checkpoint(folder)
    if checkpoint:
        say(training_args, f"going on from {checkpoint}")
        training_args.eval_on_start = False  # what the start was like is known

    before = measured(loaded.model, loaded, validation, references)
    loaded.model.train()
    trainer = _trainer(arguments, training_args, model_args, loaded, terms, encoded)
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.accelerator.wait_for_everyone()
    curve = validation_curve(trainer.state.log_history)
    if not curve or curve[-1]["perplexity"] is None:
        raise ValueError(DIVERGED_ERROR.format(rate=training_args.learning_rate))
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    found = {
        "method": arguments.method,
        "bias_type": specification.bias_type,
        "model": loaded.name,
        "num_steps": trainer.state.global_step,
        "before": before,
        "after": measured(model, loaded, validation, references),
        "reference": source,
        "validation_perplexity": curve,
        "phrases": {
            name: {
                **encoded[name].counts(),
                "num_without_pair": phrases[name].num_without_pair,
                "num_identical": phrases[name].num_identical,
            }
            for name in encoded
        },
        "num_pairs": len(terms.pairs),
    }
    if trainer.is_world_process_zero():
        model.save_pretrained(folder)
        loaded.tokenizer.save_pretrained(folder)
        (folder / "adapter_config.json").unlink(missing_ok=True)
        write_json(folder / DEBIAS_FILE, found)  # last: with it the run is finished
        _tell(found, folder)
    end_processes(trainer)
    return found


def measured(model: Any, loaded: "LoadedModel", pairs: "Phrases", references: list[str]) -> dict[str, Any]:
    """The bias of a model on pairs, and its perplexity on other text (LMP).

    Returns:
        The results of `language_model_bias` and `lmp` (`None`: there is no other text).
    """
    from hb_metrics.inference.scoring.perplexity import score_perplexity
    from hb_metrics.language_model_bias.paired_test import language_model_bias

    training = model.training
    model.eval()
    texts = [*pairs.texts_t1, *pairs.texts_t2, *references]
    # The paper's perplexity: of tokens 2…n, without a start token (section 3.1).
    scores = score_perplexity(texts, model, loaded.tokenizer, add_start_token=False, scoring="padded", progress=False)
    model.train(training)
    number = len(pairs.texts_t1)
    bias = language_model_bias(scores.perplexities[:number], scores.perplexities[number : 2 * number])
    nll = -(scores.log_likelihoods / scores.num_tokens)[2 * number :]
    return {**bias._asdict(), "lmp": math.exp(nll.mean()) if len(references) else None}


def _check_options(arguments: DebiasArguments, training_args: "SFTConfig", model_args: "ModelConfig") -> None:
    for option, value, what in (
        ("--method", arguments.method, "lmd, add, hd or cda"),
        ("--bias_type", arguments.bias_type, "the name of a bias specification, or a YAML file"),
        ("--model_name_or_path", model_args.model_name_or_path, "a Hub id, a local folder or 'embedded'"),
    ):
        if value is None:
            raise ValueError(MISSING_ERROR.format(option=option, what=what))
    own = (arguments.train_file, arguments.validation_file)
    if (arguments.reddit_folder is None) == (own == (None, None)) or (own != (None, None) and None in own):
        raise ValueError(SOURCE_ERROR)
    if model_args.load_in_8bit or model_args.load_in_4bit:
        raise ValueError(QUANTIZED_ERROR)
    if training_args.load_best_model_at_end:
        raise ValueError(BEST_ERROR)
    if model_args.use_peft:
        from transformers.utils import is_peft_available

        if not is_peft_available():
            raise ValueError(LORA_ERROR)


def _read_phrases(arguments: DebiasArguments, specification: "BiasSpecification") -> dict[str, "Phrases"]:
    from hb_train.debias_rows import read_phrases, read_reddit_phrases

    if arguments.reddit_folder is not None:
        return read_reddit_phrases(Path(arguments.reddit_folder), specification, arguments.pairs)
    return {
        name: read_phrases(Path(str(path)), specification, arguments.pairs or "word")
        for name, path in (("train", arguments.train_file), ("validation", arguments.validation_file))
    }


def _reference_texts(arguments: DebiasArguments) -> tuple[list[str], dict[str, Any] | None]:
    """Other people's text to see what debiasing costs, and what is recorded of it."""
    number = arguments.num_reference_texts
    if not number:
        return [], None
    if arguments.reference_texts is None:
        from hb_dataset.dialogue_pairs import read_dialogue

        dialogue = read_dialogue(num_replies=number)
        return dialogue.replies, dialogue.description()
    path = Path(arguments.reference_texts)
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()][:number]
    return lines, {"source": path.name, "digest": _digest(lines), "num_texts": len(lines)}


def _check_occurrences(arguments: DebiasArguments, train: "EncodedPhrases") -> None:
    what, number = (
        ("target term", train.num_targets) if arguments.method == "lmd" else ("attribute", train.num_attributes)
    )
    if arguments.method != "cda" and not number:
        raise ValueError(
            NOTHING_ERROR.format(
                what=what, bias_type=arguments.bias_type, number=len(train.dataset), method=arguments.method
            )
        )


def _trainer(
    arguments: DebiasArguments,
    training_args: "SFTConfig",
    model_args: "ModelConfig",
    loaded: "LoadedModel",
    terms: "Terms",
    encoded: dict[str, "EncodedPhrases"],
) -> "Trainer":
    from copy import deepcopy

    from trl import get_peft_config

    from hb_train.debias_rows import collate
    from hb_train.debias_trainer import DebiasTrainer
    from hb_train.trainers import ReplySFTTrainer

    training_args.dataset_kwargs = {"skip_prepare_dataset": True}  # rows are marked token by token
    padding = loaded.tokenizer.pad_token_id
    settings: dict[str, Any] = {
        "model": loaded.model,
        "args": training_args,
        "train_dataset": encoded["train"].dataset,
        "eval_dataset": encoded["validation"].dataset,
        "data_collator": partial(collate, padding=0 if padding is None else padding),
        # Trainers set a padding token where there is none; what is saved is the tokenizer as it was.
        "processing_class": deepcopy(loaded.tokenizer),
        "peft_config": get_peft_config(model_args),
    }
    if arguments.method is None or arguments.method == "cda":  # None was refused
        return ReplySFTTrainer(**settings)
    return DebiasTrainer(
        arguments.method,
        terms,
        lambda_lm=arguments.lambda_lm,
        lambda_d=arguments.lambda_d,
        fixed_subspace=arguments.subspace == "fixed",
        **settings,
    )


def _digest(content: Any) -> str:
    """What identifies the phrases: they are hurtful as a rule, so they are not recorded themselves."""
    return sha256(repr(content).encode()).hexdigest()


def _tell(found: dict[str, Any], folder: Path) -> None:
    for name in ("t", "t_log", "share_t1_likelier", "mean_perplexity_t1", "mean_perplexity_t2", "lmp"):
        before, after = (
            "–" if found[when][name] is None else f"{found[when][name]:.3f}" for when in ("before", "after")
        )
        print(f"{name:>20}  {before:>12} → {after:>12}")
    print(f"\nmodel: {folder.resolve()}")


if __name__ == "__main__":
    main()
