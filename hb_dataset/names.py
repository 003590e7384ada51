import itertools
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import ValidationError
from pydantic.dataclasses import dataclass

from hb_dataset.prompt_columns import NAMES_AXIS, PROMPT_SCHEMA, content_digest
from hb_dataset.slots import SINGULAR_SLOT
from hb_dataset.table_files import read_table, text_in
from hb_dataset.written_text import STRICT_KEYS, Remarked, Words
from hb_dataset.yaml_lines import Fault, FaultsError, Located, explained, read_entries, repeat_faults

NAMES_FILE = Path(__file__).parent / "vocabulary" / "names.yaml"
MAX_NAMES = 10_000  # every name is asked every question, so a run with more names would not end in a day
_ID_DIGITS = 20  # as in other prompts


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class PersonName(Remarked):
    """A first name and the group that people associate with it. `source` also states how certain the association is."""

    name: Words
    group: Words


def read_names(path: str | Path | None = None) -> list[PersonName]:
    """Reads and checks a list of names.

    Args:
        path: A CSV, JSON Lines or Parquet file with the columns `name` and `group`, or a YAML file like this package's
            own list, which `None` means.

    Raises:
        FaultsError: The list has faults. The message lists each fault with its line.
        ValueError: The file has no such format, or lacks a column.
        OSError: The file cannot be read.
    """
    path = NAMES_FILE if path is None else Path(path)
    faults: list[Fault] = []
    is_table = path.suffix.lower() not in (".yaml", ".yml")
    located = _read_table_of_names(path, faults) if is_table else read_entries(path, "names", PersonName, faults)
    if len(located) > MAX_NAMES:
        raise FaultsError("list of names", path, [Fault(path.name, 1, f"has more than {MAX_NAMES:,} names")])
    faults += repeat_faults(located, "name", lambda entry: entry.name.lower())
    forms: dict[str, str] = {}
    for person in located:
        form = forms.setdefault(person.entry.group.casefold(), person.entry.group)
        if form != person.entry.group:
            message = f"group {person.entry.group!r} is {form!r} in an earlier line; write one form"
            faults.append(Fault(person.file, person.line, message))
    if not faults and len({person.entry.group for person in located}) < 2:
        faults.append(Fault(path.name, 1, "has names from fewer than two groups; add names from another group"))
    if faults:
        raise FaultsError("list of names", path, sorted(faults))
    return [person.entry for person in located]


def name_prompts(names: list[PersonName], number: int) -> pa.Table:
    """Makes `number` prompts per name, which differ only in their ids. The bucket is the name's group."""
    rows = []
    for person in names:
        named = dict.fromkeys(("text", "descriptor", "noun", "noun_phrase"), person.name)
        rows.append({**named, "axis": NAMES_AXIS, "bucket": person.group, "template": SINGULAR_SLOT, "plural": False})
    prompts = pa.Table.from_pylist(rows, PROMPT_SCHEMA).take(np.repeat(np.arange(len(names)), number))
    copies = itertools.product((person.name for person in names), range(number))
    ids = [content_digest(name, str(copy))[:_ID_DIGITS] for name, copy in copies]
    return prompts.set_column(0, "id", pa.array(ids, pa.string()))


def _read_table_of_names(path: Path, faults: list[Fault]) -> list[Located]:
    located = []
    for place, row in read_table(path, ("name",), ("group",)):
        line = int(place.rpartition(" ")[2])
        try:
            known = {field.name: text_in(place, row, field.name) for field in fields(PersonName)}
            cells = {
                column: value
                for column, value in {**row, **known}.items()
                if value is not None and value == value and str(value).strip()
            }
            plain = {key: value.replace("’", "'") if isinstance(value, str) else value for key, value in cells.items()}
            located.append(Located(path.name, line, PersonName(**plain)))
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                faults.append(Fault(path.name, line, explained(str(detail["loc"][0]), detail, PersonName)))
    return located
