r"""Teaches a model to track a user's wishes, and scores its answers (Barikeri et al., 2021, section 3, "DST").

    accelerate launch hb_train/dialog_state_tracking.py --model_name_or_path microsoft/DialoGPT-small \
        --dialogues MULTIWOZ2.0 --output_dir tasks/dst

The model answers questions such as whether the user wants the value "cheap" for the slot "price range". A feed-forward
classifier reads the hidden state of the last token and answers yes or no. The defaults are the paper's settings (5.1),
but with fewer questions, so that training is possible on two CPU cores. dst.json contains the F1 and the accuracy on
the test split.

The paper does not state how it chose the questions with the answer "no". Our rules are as follows:

* A turn has one "yes" question for each slot with a value that the turn adds or changes. Values from earlier turns are
  not used, because the model does not read these turns.
* For each "yes" question, there is one "no" question. It asks, with equal probability, about another value of the same
  slot or about another slot. The paper must also have used about one "no" per "yes", because its two models that learnt
  nothing have accuracies of 0.524 and 0.531 (table 4, appendix C.2).
* Values come from the training and test dialogues. Another spelling of a value in the state ("center") does not
  count as another value.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import Trainer, TrainingArguments, set_seed

from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.measurements.settings import check_least, option
from hb_metrics.models.loading import LoadedModel, LoadedTokenizer
from hb_train.training.encoding import collate
from hb_train.training.models import load_whole_model
from hb_train.training.options import PAPER, parse_options, run_script
from hb_train.training.runs import check_finite, finish, open_training_run, training_description

DST_FILE = "dst.json"
BATCH_SIZE = 48  # over all processes
MAX_LENGTH = 128  # of a question, in tokens
_NO_VALUES = ("", "none", "not mentioned")


@dataclass
class StateTrackingArguments:
    model_name_or_path: str = option(MISSING, "The causal model: a Hub id, a local folder or 'embedded'.")
    dialogues: str = option(MISSING, "The folder of MultiWOZ 2.0 or 2.1.")
    num_train: int = option(960, "The number of training questions, drawn at random. 0 uses all questions.")
    num_test: int = option(480, "The number of test questions, drawn at random. 0 uses all questions.")
    trust_remote_code: bool = option(False, "Allow Python code supplied with the model to run on this machine.")

    def __post_init__(self) -> None:
        check_least(self, num_train=0, num_test=0)


def main(argv: list[str] | None = None) -> None:
    run_script("dialog_state_tracking.py", lambda: track_states(*parse(argv)))


def parse(argv: Sequence[str] | None) -> Any:
    return parse_options(
        (StateTrackingArguments, TrainingArguments),
        argv,
        __doc__,
        **PAPER,
        per_device_train_batch_size=max(1, BATCH_SIZE // int(os.environ.get("WORLD_SIZE", "1"))),
        per_device_eval_batch_size=BATCH_SIZE,
        save_strategy="no",
        logging_steps=10,
    )


def track_states(arguments: StateTrackingArguments, training_args: TrainingArguments) -> None:
    turns = read_state_turns(Path(arguments.dialogues))
    ontology = slot_ontology([*turns["train"], *turns["test"]])
    questions = {}
    for split, number in (("train", arguments.num_train), ("test", arguments.num_test)):
        rows = slot_values(turns[split], ontology, seed=training_args.seed)
        drawn = np.random.default_rng(training_args.seed).permutation(len(rows))[: number or None]
        questions[split] = [rows[index] for index in sorted(drawn.tolist())]
    loaded = load_whole_model(arguments.model_name_or_path, trust_remote_code=arguments.trust_remote_code)
    description = training_description(arguments, training_args, loaded)
    description["questions"] = sha256(repr(questions).encode()).hexdigest()
    folder = open_training_run(training_args, description, DST_FILE)
    if folder is None:
        return

    train, test = (encode_questions(questions[split], loaded) for split in ("train", "test"))
    set_seed(training_args.seed)  # the classifier starts with random weights
    training_args.remove_unused_columns = False
    training_args.label_names = ["labels"]
    trainer = Trainer(model=SlotValueClassifier(loaded), args=training_args, train_dataset=train, data_collator=collate)
    trainer.train()
    # `predict` drops the rows that only fill up the last batch.
    logits = np.asarray(trainer.predict(test).predictions)[:, 0]
    check_finite(training_args, logits, "score of a question")
    scores = binary_scores(np.array([question.label for question in questions["test"]]), logits > 0)
    counts = {"num_steps": trainer.state.global_step, "num_train_rows": len(train)}
    f1 = "undefined" if scores["f1"] is None else f"{scores['f1']:.4f}"
    line = f"F1 {f1}, accuracy {scores['accuracy']:.4f} ({len(logits):,} questions)"
    finish(trainer, folder / DST_FILE, {**description, **scores, **counts}, [line])


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


def binary_scores(is_yes: np.ndarray, is_predicted: np.ndarray) -> dict[str, Any]:
    """Scores yes-or-no answers. `f1` (for yes) is `None` if it is undefined (0 / 0)."""
    num_yes, num_predicted = int(is_yes.sum()), int(is_predicted.sum())
    return {
        "f1": 2 * int((is_yes & is_predicted).sum()) / (num_yes + num_predicted) if num_yes + num_predicted else None,
        "accuracy": float((is_yes == is_predicted).mean()),
        "num_rows": len(is_yes),
        "num_positive": num_yes,
        "num_predicted_positive": num_predicted,
    }


class StateTurn(NamedTuple):
    """The user's answer to the system, and the belief state after the answer.

    `turn` is the answer's index among the user's turns. `state` maps each slot to the spellings of its value
    (`"hotel-area": ("centre", "center")`). `changed` contains the slots with a value that this turn adds or changes.
    """

    dialogue: str
    turn: int
    system: str
    user: str
    state: dict[str, tuple[str, ...]]
    changed: tuple[str, ...]


def read_state_turns(folder: Path) -> dict[str, list[StateTurn]]:
    """Reads the turns of all dialogues, by split. Two files list the ids of the validation and test dialogues."""
    splits: dict[str, str] = {}
    for name, file in (("validation", "valListFile"), ("test", "testListFile")):
        path = min(folder.glob(f"{file}.*"), default=None)
        if path is None:
            raise ValueError(f"'{folder}' has no {file}; set --dialogues to the folder of MultiWOZ 2.0 or 2.1")
        splits |= dict.fromkeys(path.read_text(encoding="utf-8").split(), name)
    turns: dict[str, list[StateTurn]] = {"train": [], "validation": [], "test": []}
    for name, dialogue in json.loads((folder / "data.json").read_text(encoding="utf-8")).items():
        turns[splits.get(name, "train")] += _turns(name, dialogue["log"])
    return turns


def slot_ontology(turns: Iterable[StateTurn]) -> dict[str, tuple[str, ...]]:
    """Returns each slot's values in all states, in alphabetical order. The first spelling represents a value."""
    values_of_slots: dict[str, set[str]] = {}
    for turn in turns:
        for slot, spellings in turn.state.items():
            values_of_slots.setdefault(slot, set()).add(spellings[0])
    return {slot: tuple(sorted(values_of_slots[slot])) for slot in sorted(values_of_slots)}


def _turns(name: str, log: Sequence[Mapping[str, Any]]) -> Iterator[StateTurn]:
    """Yields each user's turn with the system's turn before it and the belief state after it.

    The file contains the belief state in the metadata of the system's next turn. A domain has two kinds of slots:
    wishes ("semi") and bookings ("book"). The list "booked" contains the results of bookings, so it is not a slot. In
    version 2.1, some values are lists of spellings.
    """
    system, before = "", dict[str, tuple[str, ...]]()
    for number, (user, answer) in enumerate(zip(log[::2], log[1::2], strict=False)):
        state = {}
        for domain, parts in answer["metadata"].items():
            for part, prefix in (("semi", ""), ("book", "book ")):
                for slot, value in parts[part].items():
                    values = [] if slot == "booked" else [value] if isinstance(value, str) else value
                    lower = [" ".join(spelling.casefold().split()) for spelling in values]
                    if spellings := [spelling for spelling in lower if spelling not in _NO_VALUES]:
                        state[f"{domain}-{prefix}{slot.lower()}"] = tuple(dict.fromkeys(spellings))
        # A slot has changed if the previous state contained none of its spellings.
        changed = sorted(slot for slot, values in state.items() if not set(values) & set(before.get(slot, ())))
        yield StateTurn(name, number, system, " ".join(user["text"].split()), state, tuple(changed))
        system, before = " ".join(answer["text"].split()), state


class SlotValue(NamedTuple):
    """The question whether this slot has this value in the belief state. `label` is 1 if the answer is yes."""

    turn: StateTurn
    slot: str
    value: str
    label: int


def slot_values(turns: Sequence[StateTurn], ontology: Mapping[str, Sequence[str]], *, seed: int = 0) -> list[SlotValue]:
    """Makes questions following the rules above. If the turn contains a spelling of the value, the question uses it.

    A "no" question is left out if no other slot or value exists.
    """
    rows: list[SlotValue] = []
    for turn in turns:
        generator = seeded_generator(seed, "slot values", f"{turn.dialogue}\x1f{turn.turn}")
        drawn: set[tuple[str, str]] = set()
        for slot in turn.changed:
            text = f"{turn.user} {turn.system}".casefold()
            spelling = next((value for value in turn.state[slot] if value in text), turn.state[slot][0])
            rows.append(SlotValue(turn, slot, spelling, 1))
            combination = _draw_negative(turn, slot, ontology, drawn, generator)
            if combination is not None:
                drawn.add(combination)
                rows.append(SlotValue(turn, *combination, 0))
    return rows


def _draw_negative(
    turn: StateTurn, slot: str, ontology: Mapping[str, Sequence[str]], drawn: set[tuple[str, str]], generator: Any
) -> tuple[str, str] | None:
    others = [name for name in ontology if name != slot]
    ways = [[slot], [others[index] for index in generator.permutation(len(others))]]
    for name in chain(*(ways if generator.random() < 0.5 else ways[::-1])):
        taken = {*turn.state.get(name, ()), *(value for drawn_slot, value in drawn if drawn_slot == name)}
        values = [value for value in ontology.get(name, ()) if value not in taken]
        if values:
            return name, values[generator.integers(len(values))]
    return None


def encode_questions(questions: Sequence[SlotValue], loaded: LoadedTokenizer) -> list[dict[str, list[int]]]:
    """Encodes each question as three lines: the system's words, the user's words, and the slot with its value.

    The slot is written with its domain. The beginning of a long question is cut, but the slot and the value are never
    cut. There are no special tokens, so the last token belongs to the value.
    """
    contexts = [f"{question.turn.system}\n{question.turn.user}" for question in questions]
    endings = [f"\n{question.slot.replace('-', ' ', 1)} {question.value}" for question in questions]
    encoded = [loaded.tokenizer(texts, add_special_tokens=False)["input_ids"] for texts in (contexts, endings)]
    rows: list[dict[str, list[int]]] = []
    for context, ending, question in zip(*encoded, questions, strict=True):
        tokens = [*context[max(len(context) + len(ending) - MAX_LENGTH, 0) :], *ending]
        rows.append({"input_ids": tokens, "attention_mask": [1] * len(tokens), "labels": [question.label]})
    return rows


if __name__ == "__main__":
    main()
