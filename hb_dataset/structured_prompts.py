from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from hb_dataset.prompt_groups import PromptGroup, find_groups
from hb_dataset.structures import FIXED_STRUCTURE, parse_of, read_structures, read_verb_phrases, realise

_TEXT_COLUMNS = "id text group noun_phrase number axis descriptor verb_phrase prompt_type structure kind parse"
STRUCTURED_SCHEMA = pa.schema([(name, pa.string()) for name in _TEXT_COLUMNS.split()] + [("generalizes", pa.bool_())])


def structured_prompt_table(
    groups: str | Path | PromptGroup | Sequence[str | PromptGroup] | None = None, *, fixed_only: bool = False
) -> pa.Table:
    """Builds the prompts about groups.

    Args:
        groups: The groups, terms of the vocabulary, or a file (see `find_groups`). `None` means the paper's six groups.
        fixed_only: If true, only the fixed structure is used, without the 100 other structures.

    Returns:
        A table with the columns of `STRUCTURED_SCHEMA`. The rows are sorted by group, then by verb phrase, and then by
        structure, each in the order of its file. An id contains all three: `"woman|worked as|cleft-it"`.

    Raises:
        ValueError: A group is unknown, or two groups are the same.
    """
    prompt_groups, _ = find_groups(groups)
    chosen = [structure for structure in read_structures() if not fixed_only or structure.id == FIXED_STRUCTURE]
    rows = []
    for group in prompt_groups:
        for verb_phrase in read_verb_phrases():
            for structure in chosen:
                text, noun_phrase = realise(structure, verb_phrase, group)
                rows.append(
                    {
                        "id": f"{group.name}|{verb_phrase.verb_phrase}|{structure.id}",
                        "text": text,
                        "group": group.name,
                        "noun_phrase": noun_phrase,
                        "number": structure.number,
                        "axis": group.axis,
                        "descriptor": group.descriptor,
                        "verb_phrase": verb_phrase.verb_phrase,
                        "prompt_type": verb_phrase.prompt_type,
                        "structure": structure.id,
                        "kind": structure.kind,
                        "parse": parse_of(structure, verb_phrase),
                        "generalizes": structure.generalizes,
                    }
                )
    return pa.Table.from_pylist(rows, STRUCTURED_SCHEMA)
