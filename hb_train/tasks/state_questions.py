"""Makes yes-or-no questions about slots and values from dialogues with belief states, and encodes the questions.

Barikeri et al. (2021, section 3) show the model the system's last words and the user's answer, and ask whether a slot
has a certain value in the belief state. They do not state how they chose the questions with the answer "no". Our rules
are as follows:

* A turn has one "yes" question for each slot with a value that the turn adds or changes. Values from earlier turns are
  not used, because the model does not read these turns.
* For each "yes" question, there is one "no" question. It asks, with equal probability, about another value of the same
  slot or about another slot. The paper must also have used about one "no" per "yes", because its two models that learnt
  nothing have accuracies of 0.524 and 0.531 (table 4, appendix C.2).
* Values come from all dialogues. Another spelling of a value in the state ("center") does not count as another value.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hb_dataset.seeded_draws import seeded_generator
from hb_train.tasks.state_dialogues import StateTurn

if TYPE_CHECKING:
    from hb_metrics.models.loading import LoadedTokenizer


class SlotValue(NamedTuple):
    """The question whether this slot has this value in the belief state. `label` is 1 if the answer is yes."""

    id: str
    system: str
    user: str
    domain: str
    slot: str
    value: str
    label: int


def slot_values(
    turns: Sequence[StateTurn], ontology: Mapping[str, Sequence[str]], *, seed: int = 0
) -> tuple[list[SlotValue], dict[str, int]]:
    """Makes questions by the rules above. Counts the turns without questions and the missing "no" questions.

    If the turn contains a spelling of the value, the question uses it.
    """
    rows: list[SlotValue] = []
    num_skipped = Counter({"turns_without_values": 0, "negatives_not_found": 0})
    for turn in turns:
        slots = sorted(turn.changed)
        num_skipped["turns_without_values"] += not slots
        generator = seeded_generator(seed, "slot values", f"{turn.dialogue}\x1f{turn.turn}")
        drawn: set[tuple[str, str]] = set()
        for slot in slots:
            text = f"{turn.user} {turn.system}".casefold()
            spelling = next((value for value in turn.state[slot] if value in text), turn.state[slot][0])
            rows.append(_question(turn, slot, spelling, 1))
            combination = _draw_negative(turn, slot, ontology, drawn, generator)
            if combination is None:
                num_skipped["negatives_not_found"] += 1
                continue
            drawn.add(combination)
            rows.append(_question(turn, *combination, 0))
    return rows, dict(num_skipped)


def encode_questions(
    questions: Sequence[SlotValue], loaded: "LoadedTokenizer", max_length: int
) -> tuple[list[dict[str, list[int]]], int]:
    """Encodes the system's words, the user's words, and the domain, slot and value, each after a line break.

    Also returns the number of questions whose dialogue was cut.

    If a question is too long, its beginning is cut. The domain, slot and value are never cut. There are no special
    tokens, so the last token belongs to the value.
    """
    contexts = [f"{question.system}\n{question.user}" for question in questions]
    endings = [f"\n{question.domain} {question.slot} {question.value}" for question in questions]
    context_tokens, ending_tokens = (
        loaded.tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        for texts in (contexts, endings)
    )
    rows: list[dict[str, list[int]]] = []
    num_cut = 0
    for context, ending, question in zip(context_tokens, ending_tokens, questions, strict=True):
        room = max(max_length - len(ending), 0)
        num_cut += len(context) > room
        tokens = [*context[max(len(context) - room, 0) :], *ending]
        rows.append({"input_ids": tokens, "attention_mask": [1] * len(tokens), "labels": [question.label]})
    return rows, num_cut


def _question(turn: StateTurn, slot: str, value: str, label: int) -> SlotValue:
    domain, _, name = slot.partition("-")
    identifier = f"{turn.dialogue}:{turn.turn}:{slot}={value}"
    return SlotValue(identifier, turn.system, turn.user, domain, name or domain, value, label)


def _draw_negative(
    turn: StateTurn, slot: str, ontology: Mapping[str, Sequence[str]], drawn: set[tuple[str, str]], generator: Any
) -> tuple[str, str] | None:
    others = [name for name in ontology if name != slot]
    ways = [[slot], [others[index] for index in generator.permutation(len(others))]]
    for names in ways if generator.random() < 0.5 else ways[::-1]:
        for name in names:
            taken = {*turn.state.get(name, ()), *(value for drawn_slot, value in drawn if drawn_slot == name)}
            values = [value for value in ontology.get(name, ()) if value not in taken]
            if values:
                return name, values[generator.integers(len(values))]
    return None
