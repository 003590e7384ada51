r"""Teaches a model to track a user's wishes, and scores its answers (Barikeri et al., 2021, section 3, "DST").

    accelerate launch hb_train/dialog_state_tracking.py --model_name_or_path microsoft/DialoGPT-small \
        --dialogues MULTIWOZ2.0 --output_dir tasks/dst

The model answers questions such as whether the user wants the value "cheap" for the slot "price range". A feed-forward
classifier reads the hidden state of the last token and answers yes or no. The defaults are the paper's settings (5.1),
but with fewer questions, so that training is possible on two CPU cores. dst.json contains the F1 and the accuracy on
the test split.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import Trainer, TrainingArguments, set_seed

from hb_metrics.models.loading import LoadedModel
from hb_metrics.run.run_folder import write_json
from hb_train.tasks.state_questions import SlotValue, encode_questions, read_state_turns, slot_ontology, slot_values
from hb_train.training.encoding import collate
from hb_train.training.models import load_whole_model
from hb_train.training.options import check_given, check_least, option, parse_training_options, run_script
from hb_train.training.runs import check_finite, end_processes, open_training_run, training_description, use_all_cores


class SlotValueClassifier(torch.nn.Module):
    """Answers yes or no from the hidden state of the last token that is not padding. Padding follows the tokens."""

    def __init__(self, loaded: LoadedModel) -> None:
        super().__init__()
        model: Any = loaded.model
        self.transformer = model.base_model
        size = model.config.get_text_config().hidden_size
        self.classifier = torch.nn.Sequential(torch.nn.Linear(size, size), torch.nn.Tanh(), torch.nn.Linear(size, 1))
        for name, weights in self.classifier.named_parameters():
            torch.nn.init.normal_(weights, std=0.02) if name.endswith("weight") else torch.nn.init.zeros_(weights)
        self.to(torch.float32)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        """Returns the logit of "yes" for each row: [rows, 1]. With labels, also the mean cross-entropy as `loss`."""
        states = self.transformer(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
        rows = torch.arange(len(states), device=states.device)
        logits = self.classifier(states[rows, attention_mask.sum(1) - 1])
        loss = {} if labels is None else {"loss": binary_cross_entropy_with_logits(logits, labels.float())}
        return {**loss, "logits": logits}


def binary_scores(labels: Sequence[int], predictions: Sequence[int]) -> dict[str, object]:
    """Scores yes-or-no answers. `f1` (for yes) is `None` if it is undefined (0 / 0)."""
    is_yes, is_predicted = np.asarray(labels, bool), np.asarray(predictions, bool)
    num_yes, num_predicted = int(is_yes.sum()), int(is_predicted.sum())
    return {
        "f1": 2 * int((is_yes & is_predicted).sum()) / (num_yes + num_predicted) if num_yes + num_predicted else None,
        "accuracy": float((is_yes == is_predicted).mean()),
        "num_rows": len(is_yes),
        "num_positive": num_yes,
        "num_predicted_positive": num_predicted,
    }


DST_FILE = "dst.json"
BATCH_SIZE = 48  # over all processes


@dataclass
class StateTrackingArguments:
    model_name_or_path: str | None = option(None, "The causal model: a Hub id, a local folder or 'embedded'.")
    model_revision: str | None = option(None, "The branch, tag or commit of the model on the Hub.")
    trust_remote_code: bool = option(False, "Allow Python code supplied with the model to run on this machine.")
    dialogues: str | None = option(None, "The folder of MultiWOZ 2.0 or 2.1.")
    num_train: int | None = option(960, "The number of training questions, drawn at random. 0 uses all questions.")
    num_test: int | None = option(480, "The number of test questions, drawn at random. 0 uses all questions.")
    max_length: int = option(
        128, "The maximum length of a question, in tokens. A longer question loses the beginning of its dialogue."
    )

    def __post_init__(self) -> None:
        check_least(self, max_length=8, num_train=0, num_test=0)
        self.num_train, self.num_test = self.num_train or None, self.num_test or None


def main(argv: list[str] | None = None) -> None:
    run_script("dialog_state_tracking.py", lambda: track_states(*parse_options(argv)))


def parse_options(argv: list[str] | None) -> tuple[StateTrackingArguments, TrainingArguments]:
    return parse_training_options(
        (StateTrackingArguments, TrainingArguments),
        argv,
        __doc__,
        num_train_epochs=1,
        learning_rate=5e-5,
        lr_scheduler_type="constant",
        per_device_train_batch_size=max(1, BATCH_SIZE // int(os.environ.get("WORLD_SIZE", "1"))),
        per_device_eval_batch_size=BATCH_SIZE,
        save_strategy="no",
        logging_steps=10,
    )


def track_states(arguments: StateTrackingArguments, training_args: TrainingArguments) -> None:
    check_given(model_name_or_path=arguments.model_name_or_path, dialogues=arguments.dialogues)
    use_all_cores(training_args)
    questions, num_skipped = _questions(arguments, training_args.seed)
    loaded = load_whole_model(
        str(arguments.model_name_or_path),
        ("causal",),
        revision=arguments.model_revision,
        trust_remote_code=arguments.trust_remote_code,
    )
    encoded, num_cut = {}, {}
    for split, rows in questions.items():
        encoded[split], num_cut[split] = encode_questions(rows, loaded, arguments.max_length)
    description = training_description(arguments, training_args, loaded, without=["model_name_or_path"])
    description["questions"] = sha256(repr(questions).encode()).hexdigest()
    folder = open_training_run(training_args, description, DST_FILE)
    if folder is None:
        return

    set_seed(training_args.seed)  # the classifier starts with random weights
    training_args.remove_unused_columns = False
    training_args.label_names = ["labels"]
    trainer = Trainer(
        model=SlotValueClassifier(loaded), args=training_args, train_dataset=encoded["train"], data_collator=collate
    )
    trainer.train()
    # `predict` drops the rows that only fill up the last batch.
    logits = np.asarray(trainer.predict(encoded["test"]).predictions)[:, 0]
    check_finite(training_args, logits, "score of a question")
    if trainer.is_world_process_zero():
        results = {
            **description,
            **binary_scores([question.label for question in questions["test"]], (logits > 0).tolist()),
            "num_steps": trainer.state.global_step,
            "num_train_rows": len(encoded["train"]),
            "num_cut": num_cut,
            "num_skipped": num_skipped,
        }
        write_json(folder / DST_FILE, results)
        f1 = "undefined" if results["f1"] is None else f"{results['f1']:.4f}"
        print(f"F1 {f1}, accuracy {results['accuracy']:.4f} ({len(logits):,} questions)")
        print(f"results: {(folder / DST_FILE).resolve()}")
    end_processes(trainer)


def _questions(
    arguments: StateTrackingArguments, seed: int
) -> tuple[dict[str, list[SlotValue]], dict[str, dict[str, int]]]:
    turns = {name: read_state_turns(Path(str(arguments.dialogues)), name) for name in ("train", "test")}
    ontology = slot_ontology(turn for turns_of_split in turns.values() for turn in turns_of_split)
    questions, num_skipped = {}, {}
    for name, number in (("train", arguments.num_train), ("test", arguments.num_test)):
        made, left_out = slot_values(turns[name], ontology, seed=seed)
        if not made:
            raise ValueError(
                f"split '{name}' of {arguments.dialogues} has no slot that has a value; set --dialogues to the folder "
                "of MultiWOZ 2.0 or 2.1"
            )
        indices = np.random.default_rng(seed).permutation(len(made))[:number]
        questions[name] = [made[index] for index in sorted(indices.tolist())]
        num_skipped[name] = {**left_out, "not_drawn": len(made) - len(indices)}
    return questions, num_skipped


if __name__ == "__main__":
    main()
