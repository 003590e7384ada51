r"""Debiases a causal language model on phrases of a bias type (Barikeri et al., 2021, section 4).

    accelerate launch hb_train/debias.py --method hd --bias_type religion1 --reddit_folder RedditBias \
        --model_name_or_path microsoft/DialoGPT-small --output_dir models/hd

`lmd`, `add` and `hd` learn λ_LM·L_LM + λ_D·L_D on the stereotyped phrases (text_t1); `cda` learns L_LM on them and
their counterfactual twins. Phrases of one's own: `--train_file`, `--validation_file`. The paper's settings (5.1) are
the defaults: two epochs, Adam at 5e-5 (constant: the paper names no schedule), no weight decay; its grid of the rest is
`sweep.py --script debias`. The model of the last step is kept, as in the paper: the lowest validation perplexity would
favour the one that is least debiased. debias.json has the bias on the validation pairs and the perplexity of other
people's text, before and after. A run that was interrupted resumes when the same command is given again.
"""

import math
import sys
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hb_metrics.runs.run_folder import read_json, write_json
from hb_train.debiasing.arguments import DEBIAS_FILE, METHODS, DebiasArguments
from hb_train.debiasing.method import Method, load_method
from hb_train.training.models import check_is_causal, load_base_model, save_model, trained_model
from hb_train.training.options import MISSING_ERROR, check_model_options, parse_training_options
from hb_train.training.runs import (
    checkpoint_to_resume,
    end_processes,
    open_training_run,
    print_once,
    training_description,
    use_all_cores,
    validation_curve,
)

if TYPE_CHECKING:
    from transformers import Trainer
    from trl import ModelConfig, SFTConfig

    from hb_dataset.bias_specification import BiasSpecification
    from hb_metrics.inference.models.loading import LoadedModel
    from hb_train.debiasing.phrases import EncodedPhrases, Phrases
    from hb_train.debiasing.terms import Terms

# torch, transformers and trl take seconds to import: not before they are needed.

# Options of one method alone.
_METHOD_OPTIONS = {"subspace": "hd", "neutralized_states": "hd", "target_vectors": "add"}
# Options that name files, whose content is recorded instead.
_FILE_OPTIONS = ("reddit_folder", "train_file", "validation_file", "reference_texts")

SOURCE_ERROR = "give either --reddit_folder, or --train_file and --validation_file"
BEST_ERROR = "the model of the last step is kept; leave out --load_best_model_at_end true"
NOTHING_ERROR = "no {what} of '{bias_type}' occurs in the {number} training phrases, so method {method} learns nothing"
OTHER_METHOD_ERROR = "--{option} is an option of method {method}; leave it out with method {given}"
DIVERGED_ERROR = (
    "the validation perplexity is not a number: training diverged; give a smaller --learning_rate than {rate:g}"
)


def main(argv: list[str] | None = None) -> None:
    """Reads the options, debiases, and prints the bias before and after, and where the model is."""
    try:
        debias(*parse_options(sys.argv[1:] if argv is None else argv))
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"debias.py: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit("\ninterrupted; to resume from the last checkpoint, give the same command again") from None


def parse_options(argv: list[str]) -> tuple[DebiasArguments, "SFTConfig", "ModelConfig"]:
    """Reads the command line, as `parse_training_options`."""
    from trl import ModelConfig, SFTConfig

    return parse_training_options(
        (DebiasArguments, SFTConfig, ModelConfig),
        argv,
        __doc__,
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
    )


def debias(arguments: DebiasArguments, training_args: "SFTConfig", model_args: "ModelConfig") -> dict[str, Any]:
    """Debiases a model, and saves it with its bias before and after.

    Returns:
        The content of debias.json.

    Raises:
        ValueError: The model, the phrases and the options do not go together, or training diverged.
        OSError: The model or the phrases are not there.
    """
    from hb_dataset.bias_specification import read_specification
    from hb_train.debiasing.phrases import encode_phrases
    from hb_train.debiasing.terms import read_terms

    _check_options(arguments, training_args, model_args)
    use_all_cores(training_args)
    method = load_method(str(arguments.method))
    specification = read_specification(str(arguments.bias_type))
    phrases = _read_phrases(arguments, specification)
    references, reference_description = _reference_texts(arguments)
    loaded = load_base_model(model_args, training_args)
    check_is_causal(loaded)
    marked_terms = read_terms(specification, loaded.tokenizer, with_forms=True)
    terms = marked_terms if method.with_forms else read_terms(specification, loaded.tokenizer)
    validation = phrases["validation"]
    texts = {
        "train": method.trained_texts(phrases["train"]),
        "validation": [*validation.texts_t1, *validation.texts_t2],
    }
    attributes, longest = specification.attributes_1, training_args.max_length
    encoded = {
        split: encode_phrases(texts[split], loaded.tokenizer, marked_terms, attributes, max_length=longest)
        for split in texts
    }
    _check_occurrences(arguments, method, encoded["train"])

    description = training_description(arguments, training_args, model_args, loaded)
    settings = {name: value for name, value in description["settings"].items() if name not in _FILE_OPTIONS}
    data = {"phrases": _digest(phrases), "specification": _digest(specification), "reference": reference_description}
    folder = open_training_run(training_args, {**description, "settings": settings, "data": data})
    if (folder / DEBIAS_FILE).is_file():
        print_once(
            training_args, f"{folder} was debiased with these settings before; nothing to do ({DEBIAS_FILE} is there)"
        )
        return read_json(folder / DEBIAS_FILE)
    checkpoint = checkpoint_to_resume(training_args)

    before = measure_bias(loaded.model, loaded, validation, references)
    loaded.model.train()
    trainer = _trainer(arguments, method, training_args, model_args, loaded, terms, encoded)
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.accelerator.wait_for_everyone()
    curve = validation_curve(trainer.state.log_history)
    if not curve or curve[-1]["perplexity"] is None:
        raise ValueError(DIVERGED_ERROR.format(rate=training_args.learning_rate))
    model = trained_model(trainer)
    results = {
        "method": arguments.method,
        "bias_type": specification.bias_type,
        "model": loaded.name,
        "num_steps": trainer.state.global_step,
        "before": before,
        "after": measure_bias(model, loaded, validation, references),
        "reference": reference_description,
        "validation_perplexity": curve,
        "phrases": {
            split: {
                **encoded[split].counts(),
                "num_without_pair": phrases[split].num_without_pair,
                "num_identical": phrases[split].num_identical,
            }
            for split in encoded
        },
        "num_pairs": len(terms.pairs),
    }
    if trainer.is_world_process_zero():
        save_model(model, loaded, folder)
        write_json(folder / DEBIAS_FILE, results)  # last: with it the run is finished
        _print_changes(results, folder)
    end_processes(trainer)
    return results


def measure_bias(model: Any, loaded: "LoadedModel", pairs: "Phrases", references: list[str]) -> dict[str, Any]:
    """The bias of a model on pairs, and its perplexity of other text (LMP).

    Args:
        model: The model.
        loaded: The model as it was loaded, with its tokenizer.
        pairs: The pairs.
        references: The other text.

    Returns:
        The results of `language_model_bias`, and `lmp` (`None` without other text).
    """
    from hb_metrics.inference.scoring.perplexity import score_perplexity
    from hb_metrics.language_model_bias.paired_test import language_model_bias

    was_training = model.training
    model.eval()
    texts = [*pairs.texts_t1, *pairs.texts_t2, *references]
    # The paper's perplexity: of tokens 2…n, without a start token (section 3.1).
    scores = score_perplexity(texts, model, loaded.tokenizer, add_start_token=False, scoring="padded", progress=False)
    model.train(was_training)
    num_pairs = len(pairs.texts_t1)
    bias = language_model_bias(scores.perplexities[:num_pairs], scores.perplexities[num_pairs : 2 * num_pairs])
    nll = -(scores.log_likelihoods / scores.num_tokens)[2 * num_pairs :]
    return {**bias._asdict(), "lmp": math.exp(nll.mean()) if len(references) else None}


def _check_options(arguments: DebiasArguments, training_args: "SFTConfig", model_args: "ModelConfig") -> None:
    for option, value, what in (
        ("--method", arguments.method, f"one of {', '.join(METHODS)}"),
        ("--bias_type", arguments.bias_type, "the name of a bias specification, or a YAML file"),
    ):
        if value is None:
            raise ValueError(MISSING_ERROR.format(option=option, what=what))
    for name, method in _METHOD_OPTIONS.items():
        if arguments.method != method and getattr(arguments, name) != getattr(DebiasArguments, name):
            raise ValueError(OTHER_METHOD_ERROR.format(option=name, method=method, given=arguments.method))
    check_model_options(model_args)
    own_files = (arguments.train_file, arguments.validation_file)
    if (arguments.reddit_folder is None) == (own_files == (None, None)) or (
        own_files != (None, None) and None in own_files
    ):
        raise ValueError(SOURCE_ERROR)
    if training_args.load_best_model_at_end:
        raise ValueError(BEST_ERROR)


def _read_phrases(arguments: DebiasArguments, specification: "BiasSpecification") -> dict[str, "Phrases"]:
    from hb_train.debiasing.phrases import read_phrases, read_reddit_phrases

    if arguments.reddit_folder is not None:
        return read_reddit_phrases(Path(arguments.reddit_folder), specification, arguments.pairs)
    return {
        split: read_phrases(Path(str(path)), specification, arguments.pairs or "word")
        for split, path in (("train", arguments.train_file), ("validation", arguments.validation_file))
    }


def _reference_texts(arguments: DebiasArguments) -> tuple[list[str], dict[str, Any] | None]:
    """Other people's text, whose perplexity shows what debiasing costs, and its description for the record."""
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


def _check_occurrences(arguments: DebiasArguments, method: Method, train: "EncodedPhrases") -> None:
    from hb_train.debiasing.phrases import ATTRIBUTES, REST, TARGETS, TARGETS_AND_REST

    if method.marks is None:
        return
    what, number = {
        TARGETS: ("target term behind another word", train.num_targets),
        ATTRIBUTES: ("attribute", train.num_attributes),
        REST: ("target term before another word", train.num_rest),
        TARGETS_AND_REST: ("target term beside another word", train.num_targets + train.num_rest),
    }[method.marks(arguments)]
    if not number:
        raise ValueError(
            NOTHING_ERROR.format(
                what=what,
                bias_type=arguments.bias_type,
                number=len(train.dataset),
                method=arguments.method,
            )
        )


def _trainer(
    arguments: DebiasArguments,
    method: Method,
    training_args: "SFTConfig",
    model_args: "ModelConfig",
    loaded: "LoadedModel",
    terms: "Terms",
    encoded: dict[str, "EncodedPhrases"],
) -> "Trainer":
    """The trainer with the method's loss; the ordinary one if it has none of its own."""
    from copy import deepcopy

    from trl import get_peft_config

    from hb_train.debiasing.phrases import collate
    from hb_train.debiasing.trainer import DebiasTrainer
    from hb_train.training.trainers import ReplySFTTrainer

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
    if method.make_loss is None:
        return ReplySFTTrainer(**settings)
    return DebiasTrainer(method, terms, arguments, **settings)


def _digest(content: Any) -> str:
    """A digest of phrases for the record: they are hurtful as a rule, so they are not recorded themselves."""
    return sha256(repr(content).encode()).hexdigest()


def _print_changes(results: dict[str, Any], folder: Path) -> None:
    for name in ("t", "t_log", "share_t1_likelier", "mean_perplexity_t1", "mean_perplexity_t2", "lmp"):
        before, after = (
            "–" if results[when][name] is None else f"{results[when][name]:.3f}" for when in ("before", "after")
        )
        print(f"{name:>20}  {before:>12} → {after:>12}")
    print(f"\nmodel: {folder.resolve()}")


if __name__ == "__main__":
    main()
