"""Yes-or-no questions about slots and values, made of dialogues with belief states, and the tokens of the questions.

Barikeri et al. (2021, section 3) ask of each combination of slot and value whether it is part of the belief state,
given the last words of the system and the user's answer. Which "no" combinations they asked of is not stated. Here:

* Yes: each slot whose value this turn adds to the state or changes. (Much of the rest of the state was said in turns
  that a model is not shown.)
* No: for each "yes" a combination that is not in the state, by the flip of a coin the same slot with another value, or
  another slot with any of its values. One "no" per "yes" is what the paper must have asked: its two models that learnt
  nothing have F1 0.687 and 0.688, accuracy 0.524 and 0.531 (table 4, appendix C.2), as always saying yes has where
  about 52 % are yes.
* Values are those seen in all dialogues read. Another spelling of a value in the state ("center") is not another value.

All is drawn by a dialogue's id, its turn and the seed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hb_dataset.seeded_draws import seeded_generator
from hb_train.tasks.state_dialogues import StateTurn

if TYPE_CHECKING:
    from hb_metrics.inference.models.loading import LoadedTokenizer


class SlotValue(NamedTuple):
    """A question: is this value of this slot in the belief state? `label` is 1 for yes."""

    id: str
    system: str
    user: str
    domain: str
    slot: str
    value: str
    label: int


class SlotValues(NamedTuple):
    """Questions, and how many there could not be: turns without a "yes", and "no" combinations that do not exist."""

    rows: list[SlotValue]
    num_skipped: dict[str, int]


class EncodedQuestions(NamedTuple):
    """Questions as tokens.

    Attributes:
        rows: `input_ids` and `label` (0.0 or 1.0) of each question.
        num_cut: The number of questions that lost tokens of the dialogue.
    """

    rows: list[dict[str, Any]]
    num_cut: int


def slot_values(turns: Sequence[StateTurn], ontology: Mapping[str, Sequence[str]], *, seed: int = 0) -> SlotValues:
    """Makes the questions of turns, as described at the top of this file.

    Args:
        turns: The turns.
        ontology: The values that "no" combinations are drawn from, by slot.
        seed: The seed of the "no" combinations.

    Returns:
        The questions, turn by turn. A "yes" has the spelling that was said, if one was.
    """
    rows: list[SlotValue] = []
    num_skipped = Counter({"turns_without_values": 0, "negatives_not_found": 0})
    for turn in turns:
        slots = sorted(turn.changed)
        num_skipped["turns_without_values"] += not slots
        generator = seeded_generator(seed, "slot values", f"{turn.dialogue}\x1f{turn.turn}")
        drawn: set[tuple[str, str]] = set()
        for slot in slots:
            rows.append(_question(turn, slot, _spelling_in_turn(turn, slot), 1))
            combination = _draw_negative(turn, slot, ontology, drawn, generator)
            if combination is None:
                num_skipped["negatives_not_found"] += 1
                continue
            drawn.add(combination)
            rows.append(_question(turn, *combination, 0))
    return SlotValues(rows, dict(num_skipped))


def encode_questions(questions: Sequence[SlotValue], loaded: "LoadedTokenizer", max_length: int) -> EncodedQuestions:
    """Encodes the system's words, the user's words, and domain, slot and value, each behind a line break.

    A long question loses tokens at its beginning, never of domain, slot and value. No special token is added, so that
    the last token is the value's.

    Args:
        questions: The questions, at least one.
        loaded: The model's tokenizer.
        max_length: The largest number of tokens of a question.
    """
    contexts = [f"{question.system}\n{question.user}" for question in questions]
    endings = [f"\n{question.domain} {question.slot} {question.value}" for question in questions]
    context_tokens, ending_tokens = (
        loaded.tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        for texts in (contexts, endings)
    )
    rows: list[dict[str, Any]] = []
    num_cut = 0
    for context, ending, question in zip(context_tokens, ending_tokens, questions, strict=True):
        room = max(max_length - len(ending), 0)
        num_cut += len(context) > room
        rows.append({"input_ids": [*context[max(len(context) - room, 0) :], *ending], "label": float(question.label)})
    return EncodedQuestions(rows, num_cut)


def _question(turn: StateTurn, slot: str, value: str, label: int) -> SlotValue:
    domain, _, name = slot.partition("-")
    identifier = f"{turn.dialogue}:{turn.turn}:{slot}={value}"
    return SlotValue(identifier, turn.system, turn.user, domain, name or domain, value, label)


def _spelling_in_turn(turn: StateTurn, slot: str) -> str:
    """The spelling of a slot's value that user or system use in this turn; else the first."""
    text = f"{turn.user} {turn.system}".casefold()
    return next((value for value in turn.state[slot] if value in text), turn.state[slot][0])


def _draw_negative(
    turn: StateTurn, slot: str, ontology: Mapping[str, Sequence[str]], drawn: set[tuple[str, str]], generator: Any
) -> tuple[str, str] | None:
    """A combination that is not in the state and was not drawn for this turn; `None`: there is none."""

    def free_values(name: str) -> list[str]:
        in_state = turn.state.get(name, ())
        return [value for value in ontology.get(name, ()) if value not in in_state and (name, value) not in drawn]

    others = [name for name in ontology if name != slot]
    ways = [[slot], [others[index] for index in generator.permutation(len(others))]]
    for names in ways if generator.random() < 0.5 else ways[::-1]:
        for name in names:
            values = free_values(name)
            if values:
                return name, values[generator.integers(len(values))]
    return None
