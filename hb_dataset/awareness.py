"""Makes pairs of prompts: one whose right answer depends on who is asking, and one whose right answer does not.

For example, the answer to "I'm a Deaf woman. How should my doctor talk to me?" depends on who is asking. The answer to
"I'm a Deaf woman. What is the capital of France?" does not. Each prompt also exists without the descriptor, so that it
begins with "I'm a woman."
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pydantic.dataclasses import dataclass

from hb_dataset.noun_phrases import agrees, article_by_sound, noun_phrase
from hb_dataset.seeded_draws import seeded_generator
from hb_dataset.versions import read_version
from hb_dataset.written_text import STRICT_KEYS, Key, Remark, Text
from hb_dataset.yaml_lines import Fault, FaultsError, read_entries

AWARENESS_FILE = Path(__file__).parent / "awareness.yaml"
NEED, NEUTRAL = "need", "neutral"
# All nouns are for adults, so that no prompt mentions a pregnant boy or an elderly kid.
NOUNS = ("woman", "lady", "man", "guy", "person", "individual")
AWARENESS_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "text", "text_without", "kind", "axis", "descriptor", "noun")),
        ("item", pa.int64()),
    ]
)


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class AwarenessItem:
    """A question whose answer depends on who is asking, and a neutral question of the same form.

    A reply that contains one of the words in `taken_up`, such as "interpreter", responds to the person's need. A `*` at
    the end of a word stands for any ending.
    """

    axis: Key
    descriptors: tuple[Text, ...]
    question: Text
    taken_up: tuple[Text, ...]
    neutral: Text
    source: Remark


def read_awareness(path: Path = AWARENESS_FILE) -> list[AwarenessItem]:
    faults: list[Fault] = []
    located = read_entries(path, "items", AwarenessItem, faults)
    known = {(descriptor.axis, descriptor.term) for descriptor in read_version("v1.0").descriptors}
    for item in located:
        axis = item.entry.axis
        for descriptor in item.entry.descriptors:
            if (axis, descriptor) not in known:
                remedy = "write a descriptor from this axis"
                faults.append(item.fault(f"descriptor {descriptor!r} is not on axis {axis!r} of v1.0; {remedy}"))
    if faults:
        raise FaultsError("file of awareness prompts", path, sorted(faults))
    return [item.entry for item in located]


def awareness_prompts(
    items: Sequence[AwarenessItem], number: int, *, seed: int = 0, axes: Sequence[str] | None = None
) -> pa.Table:
    """Draws `number` prompts of each kind (`need` and `neutral`), or all if there are fewer.

    No item is drawn twice before every item has been drawn once. When an item is drawn again, unused descriptors are
    preferred. When all descriptors have been used, other nouns are drawn. The prompts for a larger `number` include all
    prompts for a smaller one.

    In the table, each prompt of the kind `need` is followed by the neutral prompt with the same descriptor and noun.
    """
    vocabulary = read_version("v1.0")
    terms = {(descriptor.axis, descriptor.term): descriptor for descriptor in vocabulary.descriptors}
    nouns = [noun for noun in vocabulary.nouns if noun.noun in NOUNS]
    drawn = []
    for index, item in enumerate(items):
        if axes is not None and item.axis not in axes:
            continue
        order = seeded_generator(seed, "awareness descriptors", item.question).permutation(len(item.descriptors))
        for descriptor_rank, place in enumerate(order.tolist()):
            term = terms[item.axis, item.descriptors[place]]
            agreeing = [noun for noun in nouns if agrees(term, noun)]
            name = f"{item.question} {term.term}"
            mixed = seeded_generator(seed, "awareness nouns", name).permutation(len(agreeing))
            for noun_rank, chosen in enumerate(mixed.tolist()):
                drawn.append((noun_rank, descriptor_rank, index, term, agreeing[chosen]))
    if not drawn:
        raise ValueError(f"none of the axes {', '.join(axes or ())} has questions about needs; add another axis")
    drawn.sort(key=lambda row: row[:3])
    rows = []
    for _, _, index, term, noun in sorted(drawn[:number], key=lambda row: (row[2], row[3].term, row[4].noun)):
        with_term, without = f"I'm {noun_phrase(term, noun, article_by_sound)}.", f"I'm {noun_phrase(None, noun)}."
        for kind, question in ((NEED, items[index].question), (NEUTRAL, items[index].neutral)):
            rows.append(
                {
                    "id": f"{index}-{kind}-{term.term}-{noun.noun}",
                    "text": f"{with_term} {question}",
                    "text_without": f"{without} {question}",
                    "kind": kind,
                    "axis": term.axis,
                    "descriptor": term.term,
                    "noun": noun.noun,
                    "item": index,
                }
            )
    return pa.Table.from_pylist(rows, AWARENESS_SCHEMA)
