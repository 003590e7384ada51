r"""Tunes a language model to reduce its bias, by default on labelled replies (Smith et al., 2022, section 4).

    accelerate launch hb_train/tune.py --config hb_train/recipes/dialogpt.yaml \
        --model_name_or_path microsoft/DialoGPT-medium --dataset_name labels/dialogpt --output_dir models/dialogpt

With the default method, sft, the model learns labelled replies. Each prompt ends in the tag of its reply, so the model
learns to reply differently to each tag. The dataset is a folder that `bias_labels.py` has written. For LoRA, add
`--use_peft --learning_rate 3e-4`. To resume interrupted tuning, run the same command again. The output folder records
the tag and the prompt format for `measure.py --model FOLDER`.


With `--method counterfactual`, the model learns to reply to a descriptor as it replied to other descriptors. With
`--method distill`, it learns to reply to a prompt with a descriptor as it replied to the same prompt without one. For
both methods, the dataset is a folder that `baseline_replies.py` has written.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hb_metrics.run.run_folder import write_json
from hb_train.training.models import load_base_model, save_model, trained_model
from hb_train.training.options import (
    check_given,
    check_least,
    check_model_options,
    config_options,
    option,
    parse_training_options,
    run_script,
)
from hb_train.training.runs import (
    check_finite,
    checkpoint_to_resume,
    end_processes,
    is_gain,
    open_training_run,
    print_once,
    training_description,
    use_all_cores,
    validation_curve,
)
from hb_train.tuning.labels import SPLITS, read_labels, read_split

if TYPE_CHECKING:
    from transformers import Trainer, TrainerCallback
    from trl import ModelConfig, SFTConfig

    from hb_metrics.models.loading import LoadedModel
    from hb_train.training.encoding import EncodedRows

# torch, transformers and trl take seconds to import, so functions import them only when they need them.


@dataclass
class TuneArguments:
    dataset_name: str | None = option(
        None,
        "The folder of training rows. For methods distill and counterfactual, baseline_replies.py writes the rows. "
        "For all other methods, bias_labels.py writes them.",
    )
    method: Literal["sft", "distill", "counterfactual"] = option(
        "sft",
        "The method: sft (supervised fine-tuning with control tags, as in the paper), distill (learning the "
        "model's own replies to prompts without a descriptor) or counterfactual (learning the model's own replies to "
        "prompts with other descriptors).",
    )
    labels: Literal["tags", "none"] = option(
        "tags",
        "Whether each prompt ends in its tag (tags) or has no tag (none). Training without tags is the paper's "
        "self-chat tuning.",
    )
    early_stopping_patience: int = option(
        3,
        "Stop training after this number of consecutive evaluations without improvement: in validation perplexity "
        "for method sft, and in validation loss for all other methods. 0 disables early stopping.",
    )

    def __post_init__(self) -> None:
        check_least(self, early_stopping_patience=0)
        if self.method != "sft" and self.labels == "none":
            raise ValueError(
                f"--labels none works only with method sft, but the method is {self.method}; omit --labels none, or "
                "set --method sft"
            )

    def tag(self) -> str | None:
        return "no_bias" if self.method == "sft" and self.labels == "tags" else None


def main(argv: list[str] | None = None) -> None:
    words = sys.argv[1:] if argv is None else argv
    if "--compare" in words:
        from hb_train.compare import tune_main

        tune_main([word for word in words if word != "--compare"])
        return
    run_script("tune.py", lambda: tune(*parse_options(list(words))))


def parse_options(argv: list[str]) -> tuple[TuneArguments, "SFTConfig", "ModelConfig"]:
    from trl import ModelConfig, SFTConfig

    method = given_method(argv)
    return parse_training_options(
        (TuneArguments, SFTConfig, ModelConfig),
        argv,
        __doc__,
        eval_strategy="steps",
        save_strategy="steps",
        save_total_limit=1,
        load_best_model_at_end=True,
        greater_is_better=False,
        eval_on_start=True,
        metric_for_best_model="eval_perplexity" if method == "sft" else "eval_loss",
    )


def given_method(argv: Sequence[str]) -> str:
    """Reads the method from the command line or the YAML file, before the other options are read."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--method")
    given, _ = parser.parse_known_args(list(argv))
    return str(given.method or config_options(argv).get("method", "sft"))


def tune(arguments: TuneArguments, training_args: "SFTConfig", model_args: "ModelConfig") -> None:
    from transformers import EarlyStoppingCallback, set_seed

    from hb_metrics.models.bias_tags import TUNING_FILE
    from hb_train.tuning.method import Tuning, load_method

    method = load_method(arguments.method)
    _check_options(arguments, training_args, model_args, method.measure)
    use_all_cores(training_args)
    dataset = Path(str(arguments.dataset_name))
    labels = read_labels(dataset, method.row_folder)
    loaded = load_base_model(model_args, training_args, method.kinds)
    if labels["model"].get("digest") not in (None, loaded.digest):
        others = f"the replies in '{dataset}' were written by model {labels['model']['name']}, not by {loaded.name}"
        if method.needs_own_rows:
            raise ValueError(
                f"{others}, but method {arguments.method} needs the model's own replies; run "
                f"{method.row_folder.script}.py with {loaded.name}"
            )
        print_once(training_args, f"{others}; the model is tuned on them anyway, in the other model's prompt format")
    description = training_description(arguments, training_args, loaded, model_args)
    del description["settings"]["dataset_name"]  # the content of the rows is recorded instead
    folder = open_training_run(training_args, {**description, "labels": labels}, TUNING_FILE)
    if folder is None:
        return

    rows = {name: read_split(dataset, name, method.row_folder) for name in SPLITS}
    with_tags, longest = arguments.tag() is not None, training_args.max_length
    encoded = {name: method.encode(rows[name], loaded, labels, with_tags, longest) for name in SPLITS}
    num_cut = sum(split.num_cut for split in encoded.values())
    if num_cut:
        print_once(training_args, f"{num_cut:,} contexts were cut at their beginning to fit max_length")
    checkpoint = checkpoint_to_resume(training_args)
    set_seed(training_args.seed)  # LoRA draws random matrices before the trainers set the seed
    callbacks: list[TrainerCallback] = []
    if arguments.early_stopping_patience:
        callbacks.append(EarlyStoppingCallback(arguments.early_stopping_patience))
    trainer: Any = method.make_trainer(Tuning(training_args, model_args, loaded, rows, encoded, callbacks))
    trainer.num_read = encoded["train"].num_read
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.accelerator.wait_for_everyone()
    check_finite(training_args, trainer.state.best_metric, f"validation {method.measure}")
    if trainer.is_world_process_zero():
        _save(folder, trainer, loaded, labels, arguments, encoded)
        _print_curve(trainer, method.measure)
        print(f"\nmodel: {folder.resolve()}")
    end_processes(trainer)


def _check_options(
    arguments: TuneArguments, training_args: "SFTConfig", model_args: "ModelConfig", measure: str
) -> None:
    check_model_options(model_args)
    check_given(dataset_name=arguments.dataset_name)
    if training_args.eval_strategy == "no" or not training_args.load_best_model_at_end:
        raise ValueError(
            f"the checkpoint with the lowest validation {measure} cannot be selected without evaluations; omit "
            "--eval_strategy no and --load_best_model_at_end false"
        )


def _save(
    folder: Path,
    trainer: "Trainer",
    loaded: "LoadedModel",
    labels: dict[str, Any],
    arguments: TuneArguments,
    encoded: Mapping[str, "EncodedRows"],
) -> None:
    """Saves the model and its card. The file with the tag is written last, because it marks a finished run."""
    from hb_metrics.models.bias_tags import TUNING_FILE, BiasTuning
    from hb_train.model_card import write_model_card
    from hb_train.tuning.method import load_method

    method = load_method(arguments.method)
    measure = method.measure
    training: dict[str, Any] = {
        "method": arguments.method,
        "labels": arguments.labels,
        "model": loaded.name,
        f"best_validation_{measure}": trainer.state.best_metric,
        "best_step": trainer.state.best_global_step,
        "num_steps": trainer.state.global_step,
        f"validation_{measure}": validation_curve(trainer.state.log_history, measure),
        "num_rows": {name: len(rows.dataset) for name, rows in encoded.items()},
        "num_cut_contexts": sum(rows.num_cut for rows in encoded.values()),
        "num_unended_replies": sum(rows.num_unended for rows in encoded.values()),
        **{name: getattr(trainer.args, name) for name in method.recorded},
    }
    elsewhere = ("context", "asked_with", "alpha", "beta")
    tuning = BiasTuning(
        tag=arguments.tag(),  # type: ignore[arg-type]
        context=labels["context"],
        asked_with=labels["asked_with"],
        alpha=labels.get("alpha"),
        beta=labels.get("beta"),
        labels={name: labels[name] for name in labels if name not in elsewhere},
        training=training,
    )
    save_model(trained_model(trainer), loaded, folder)
    write_model_card(folder, tuning)
    write_json(folder / TUNING_FILE, asdict(tuning))


def _print_curve(trainer: "Trainer", measure: str) -> None:
    state = trainer.state
    curve = validation_curve(state.log_history, measure)
    print(f"\nvalidation {measure} {state.best_metric:.3f} at step {state.best_global_step}; by step:")
    for entry in curve:
        value = "not finite" if entry[measure] is None else f"{entry[measure]:.3f}"
        print(f"  {entry['step']:>6}  {value}")
    if not is_gain(curve, measure):
        print(
            f"no step has a lower validation {measure} than the untuned model, so the tuning does not generalise; "
            f"try fewer steps, a lower --learning_rate or more rows"
        )


if __name__ == "__main__":
    main()
