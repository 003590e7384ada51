r"""Debiases a causal language model on phrases of a bias type (Barikeri et al., 2021, section 4).

    accelerate launch hb_train/debias.py --method hd --bias_type religion1 --reddit_folder RedditBias \
        --model_name_or_path microsoft/DialoGPT-small --output_dir models/DialoGPT-small-hd

The methods `lmd`, `add` and `hd` train on stereotypical phrases about the minoritized group (text_t1). They minimise
λ_LM·L_LM + λ_D·L_D, the weighted sum of the language modelling loss and a debiasing loss. The method `cda` trains on
the phrases and their counterfactuals with L_LM alone. The defaults are the paper's settings (5.1).

The script saves the model after the last step, because the model with the lowest validation perplexity would be the
least debiased. debias.json contains the bias on the validation pairs and the perplexity of ordinary texts, before and
after debiasing. To resume an interrupted run, run the same command again.
"""

import sys
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from datasets import Dataset
from trl import ModelConfig, SFTConfig, get_peft_config

from hb_dataset.bias_specification import BiasSpecification, read_specification
from hb_dataset.dialogue_pairs import read_dialogue
from hb_dataset.table_files import read_lines
from hb_metrics.collect.scoring.perplexity import plan_texts, score_perplexity
from hb_metrics.language_model_bias.paired_test import language_model_bias
from hb_metrics.measurements.reddit.compute import language_model_perplexity
from hb_metrics.measurements.settings import check_least, option
from hb_metrics.models.loading import LoadedModel
from hb_train.compare import DebiasingMethod, debias_main
from hb_train.debiasing.terms import ATTRIBUTES, MARKS, T1, T2, TARGETS, Terms, encode_phrases, read_phrases, read_terms
from hb_train.debiasing.trainer import DebiasTrainer
from hb_train.training.encoding import collate
from hb_train.training.models import check_trainable, length_limit, load_base_model, padding_tokenizer, trained_model
from hb_train.training.options import PAPER, check_model_options, parse_options, run_script
from hb_train.training.runs import checkpoint_to_resume, divergence, finish, open_training_run, training_description
from hb_train.training.saving import save_whole_model
from hb_train.training.trainers import ReplySFTTrainer

DEBIAS_FILE = "debias.json"  # the bias and the perplexity before and after debiasing, in the model's folder


@dataclass
class DebiasArguments:
    method: DebiasingMethod = option(
        MISSING, "lmd: language model debiasing; add: attribute distance; hd: hard; cda: counterfactual augmentation."
    )
    bias_type: str = option(
        MISSING, "The bias specification: gender, race, religion1, religion2, queerness, or the path of a YAML file."
    )
    reddit_folder: str = option(
        MISSING, "The folder of the phrases: the RedditBias authors' repository, or files named train and validation."
    )
    lambda_lm: float = option(0.01, "The weight λ_LM of the language modelling loss. The paper tries 0.001 and 0.01.")
    lambda_d: float = option(10.0, "The weight λ_D of the debiasing loss. The paper tries 10, 50 and 100.")
    reference_texts: str | None = option(
        None,
        "A TXT file with one reference text per line. The perplexity of these texts (LMP) shows the cost of debiasing. "
        "Default: 200 replies from the chitchat-dataset corpus.",
    )

    def __post_init__(self) -> None:
        check_least(self, lambda_lm=0, lambda_d=0)


def main(argv: list[str] | None = None) -> None:
    words = sys.argv[1:] if argv is None else argv
    if "--compare" in words:
        debias_main([word for word in words if word != "--compare"])
        return
    run_script("debias.py", lambda: debias(*parse(words)))


def parse(argv: Sequence[str] | None) -> Any:
    defaults: Any = {**PAPER, "num_train_epochs": 2.0, "max_length": 128, "gradient_checkpointing": False}
    options = parse_options(
        (DebiasArguments, SFTConfig, ModelConfig), argv, __doc__, **defaults, save_strategy="epoch", save_total_limit=1
    )
    check_model_options(options[2])
    return options


def debias(arguments: DebiasArguments, training_args: SFTConfig, model_args: ModelConfig) -> None:
    specification = read_specification(arguments.bias_type)
    phrases = read_phrases(Path(arguments.reddit_folder), specification)
    references, source = _read_references(arguments.reference_texts)
    loaded = load_base_model(model_args, training_args)
    check_trainable(loaded)
    # Keep only texts that `measure` can score, and count the texts that are too long for the model.
    validation = [phrases["validation"][side] for side in (T1, T2)]
    pairs = plan_texts(validation, loaded, ids=validation[0])
    reference = plan_texts([references], loaded, ids=references)
    max_length = length_limit(loaded, training_args.max_length)
    terms, encoded, counts = _encode(arguments.method, specification, phrases["train"], loaded, max_length)
    content = {"phrases": phrases, "specification": specification, "reference": reference.texts}
    # Most phrases are hurtful, so the record contains digests.
    data = {name: sha256(repr(value).encode()).hexdigest() for name, value in content.items()}
    description = {**training_description(arguments, training_args, loaded, model_args), "data": data}
    folder = open_training_run(training_args, description, DEBIAS_FILE)
    if folder is None:
        return

    loaded.model.to(training_args.device)
    before = measure_bias(loaded.model, loaded, pairs.texts, reference.texts)
    training_args.dataset_kwargs = {"skip_prepare_dataset": True}  # the rows already consist of tokens with marks
    training_args.remove_unused_columns = False
    own = partial(DebiasTrainer, arguments=arguments, terms=terms)
    make: Any = own if arguments.method in MARKS else ReplySFTTrainer
    trainer = make(
        model=loaded.model,
        args=training_args,
        train_dataset=encoded,
        data_collator=collate,
        processing_class=padding_tokenizer(loaded),
        peft_config=get_peft_config(model_args),
    )
    trainer.train(resume_from_checkpoint=checkpoint_to_resume(training_args))
    trainer.accelerator.wait_for_everyone()
    model = trained_model(trainer)
    try:
        after = measure_bias(model, loaded, pairs.texts, reference.texts)
    except ValueError as error:  # the same texts had a perplexity before
        raise divergence(training_args, "perplexity of a text") from error
    results = {
        "method": arguments.method,
        "bias_type": specification.bias_type,
        "model": loaded.name,
        "num_steps": trainer.state.global_step,
        "before": before,
        "after": after,
        "num_skipped_pairs": pairs.num_skipped,
        "reference": {"source": source, "num_skipped": reference.num_skipped},
        "phrases": {"train": counts},
        "num_pairs": len(terms.pairs),
    }
    lines = []
    for name in ("t", "t_log", "share_t1_likelier", "mean_perplexity_t1", "mean_perplexity_t2", "lmp"):
        values = ["–" if of[name] is None else f"{of[name]:.3f}" for of in (before, after)]
        lines.append(f"{name:>20}  {' → '.join(values)}")
    if trainer.is_world_process_zero():
        save_whole_model(model, loaded, folder)
    finish(trainer, folder / DEBIAS_FILE, results, lines)  # written last, because this file marks a finished run


def _read_references(path: str | None) -> tuple[Sequence[str], str]:
    if path is not None:
        return read_lines(Path(path)), "own texts"
    dialogue = read_dialogue(num_replies=200)
    return dialogue.replies, dialogue.source


def measure_bias(model: Any, loaded: LoadedModel, texts: list[str], references: list[str]) -> dict[str, object]:
    """Returns the `language_model_bias` of pairs of texts, and the perplexity of the reference texts (`lmp`).

    `texts` contains the phrases about the minoritized group, followed by their counterfactuals in the same order.
    """
    model.eval()
    # The paper's perplexity covers tokens 2…n, without a start token (section 3.1).
    scores = score_perplexity([*texts, *references], model, loaded.tokenizer, add_start_token=False, trees=False)
    num_pairs = len(texts) // 2
    bias = language_model_bias(scores.perplexities[:num_pairs], scores.perplexities[num_pairs : len(texts)])
    lmp = language_model_perplexity(scores.log_likelihoods[len(texts) :], scores.num_tokens[len(texts) :])
    return {**bias, "lmp": lmp}


def _encode(
    method: str,
    specification: BiasSpecification,
    phrases: dict[str, list[str]],
    loaded: LoadedModel,
    max_length: int | None,
) -> tuple[Terms, Dataset, dict[str, int]]:
    """Returns the terms of the loss, the encoded training phrases, and counts of them."""
    terms = read_terms(specification, loaded.tokenizer, with_forms=method == "lmd")
    texts = [*phrases[T1], *(phrases[T2] if method == "cda" else ())]
    encoded, counts = encode_phrases(texts, loaded.tokenizer, terms, specification.attributes_1, max_length=max_length)
    if method not in MARKS:
        encoded = encoded.remove_columns([TARGETS, ATTRIBUTES])
    elif not any(map(any, encoded[MARKS[method]])):
        bias_type = specification.bias_type
        raise ValueError(
            f"the phrases contain no {MARKS[method]} of '{bias_type}'; set --bias_type to that of the phrases"
        )
    return terms, encoded, counts


if __name__ == "__main__":
    main()
