import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import yaml
from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError

from hb_dataset.hints import did_you_mean
from hb_dataset.written_text import remark_fault, sentence_fault, text_fault, words_fault
from hb_dataset.yaml_lines import Detail, Fault, FaultsError, details_of, load_with_lines, unreadable

_MAX_KEY_CHARACTERS = 40


def without(fault_of: Callable[[str], str | None]) -> AfterValidator:
    def check(value: str) -> str:
        if fault := fault_of(value):
            raise ValueError(fault)
        return value

    return AfterValidator(check)


def _key_fault(value: str) -> str | None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", value):
        remedy = re.sub(r"[^a-z0-9]+", "_", value.lower()).strip("_") or "a_name_like_this"
        return f"{value!r} is not a lower-case name with underscores; write {remedy!r}"
    if len(value) > _MAX_KEY_CHARACTERS:
        return f"has {len(value):,} characters; write at most {_MAX_KEY_CHARACTERS}"
    return None


Text = Annotated[str, without(text_fault)]
Words = Annotated[str, without(words_fault)]
Sentence = Annotated[str, without(sentence_fault)]
Remark = Annotated[str, without(remark_fault)]
Key = Annotated[str, without(_key_fault)]
STRICT_KEYS = ConfigDict(extra="forbid")


class Located(NamedTuple):
    file: str
    line: int
    entry: Any


def read_entries(path: Path, key: str, entry_type: Any, faults: list[Fault], **given: str) -> list[Located]:
    """Reads the valid entries of a file.

    The file has a list of entries under `key`, and optionally a `source` for all entries. `given` contains other keys
    that the file must have, with their required values, such as `axis="age"`. These values become fields of each entry.
    Faults are appended to `faults`.
    """
    try:
        document, lines = load_with_lines(path, faults)
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        faults.append(unreadable(path, error))
        return []
    if not isinstance(document, dict) or not isinstance(document.get(key), list):
        message = f"has no list `{key}:`; write `{key}:` and, below it, entries that start with -"
        faults.append(Fault(path.name, 1, message))
        return []
    own_keys = [field.name for field in fields(entry_type) if field.name not in given]
    keys_of_file = [key, "source", *given]
    messages: list[tuple[Sequence[Any], str]] = []
    messages += [((name,), unknown_key(name, keys_of_file)) for name in document.keys() - {*keys_of_file}]
    for name, value in given.items():
        if document.get(name) != value:
            messages.append(((name,), f"`{name}` is {document.get(name)!r}; write `{name}: {value}` at the top"))
    of_file = {"source": document["source"]} if "source" in document else {}
    adapter, located = TypeAdapter(entry_type), []
    for index, entry in enumerate(document[key]):
        if not isinstance(entry, dict):
            message = f"entry {entry!r} has no `key: value` lines; write `{own_keys[0]}: …`"
            messages.append(((key, index), message))
            continue
        messages += [((key, index, name), unknown_key(name, own_keys)) for name in given.keys() & entry.keys()]
        try:
            value = adapter.validate_python({**of_file, **entry, **given})
            located.append(Located(path.name, lines[(key, index)], value))
        except ValidationError as error:
            for detail in details_of(error):
                name = str(detail.loc[0])
                is_of_file = name in given or (name in of_file and name not in entry)
                message = explained(name, detail, entry_type)
                messages.append(((name,) if is_of_file else (key, index, name), message))
    faults += dict.fromkeys(Fault(path.name, line_of(lines, keys), message) for keys, message in messages)
    return located


def shipped_or_own(folder: Path, name: str | Path, kind: str, hint: str = "") -> Path:
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    path = folder / f"{name}.yaml" if name in names else Path(name)
    if not path.is_file():
        raise FileNotFoundError(
            f"{kind} '{name}' does not exist; {hint or did_you_mean(str(name), names)}use one of {', '.join(names)}, "
            f"or pass the path of your own YAML file (copy one from {folder})"
        )
    return path


def read_document(
    path: Path, entry_type: Any, first: str, kind: str, explain: Callable[[Detail], str]
) -> tuple[Any, dict[tuple, int], list[Fault]]:
    """Reads a file with one entry. Returns the entry, the line of each value, and any remaining faults.

    `first` is the line with which such a file begins. If the file has no valid entry, `FaultsError` is raised with the
    faults.
    """
    faults: list[Fault] = []
    try:
        document, lines = load_with_lines(path, faults)
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise FaultsError(kind, path, [unreadable(path, problem)]) from problem
    if not isinstance(document, dict):
        fault = Fault(path.name, 1, f"has no `key: value` lines; begin with the line `{first}`")
        raise FaultsError(kind, path, [fault])
    try:
        return TypeAdapter(entry_type).validate_python(document), lines, faults
    except ValidationError as problem:
        faults += [Fault(path.name, line_of(lines, detail.loc), explain(detail)) for detail in details_of(problem)]
        raise FaultsError(kind, path, sorted(faults)) from None


def line_of(lines: dict[tuple, int], keys: Sequence[Any]) -> int:
    """Returns the line of the value at `keys` or, if it is unknown, of the list that contains the value."""
    return next((lines[tuple(keys[:end])] for end in range(len(keys), -1, -1) if tuple(keys[:end]) in lines), 1)


def repeat_faults(located: list[Located], name: str, key: Callable[[Any], object] | None = None) -> Iterator[Fault]:
    first: dict[object, Located] = {}
    for entry in located:
        value = getattr(entry.entry, name)
        before = first.setdefault(value if key is None else key(entry.entry), entry)
        if before is not entry:
            message = f"{name} {value!r} is already in {before.file} line {before.line}; remove one of the entries"
            yield Fault(entry.file, entry.line, message)


def unknown_key(name: str, allowed: list[str]) -> str:
    return f"unknown key {name!r}; {did_you_mean(name, allowed)}allowed: {', '.join(allowed)}"


def explained(name: str, detail: Detail, entry_type: Any) -> str:
    value = detail.input
    if detail.type == "unexpected_keyword_argument":
        return unknown_key(name, [field.name for field in fields(entry_type)])
    if detail.type == "missing":
        return f"entry has no `{name}`; write `{name}: …`"
    if detail.type == "literal_error":
        expected = detail.ctx["expected"].replace("'", "")
        hint = did_you_mean(str(value), re.split(", | or ", expected))
        is_required = next(field.default is MISSING for field in fields(entry_type) if field.name == name)
        return f"{name} {value!r} is not allowed; {hint}write {expected}{'' if is_required else ', or remove the key'}"
    if detail.type == "string_type":
        return f"{name} {value!r} is not text; write one phrase"
    if detail.type == "tuple_type":
        return f"{name} {value!r} is not a list; write each entry on a line that starts with -"
    if detail.type == "too_short":
        return f"{name} is empty; write at least one entry"
    if detail.type == "bool_parsing":
        return f"{name} {value!r} is neither true nor false; write true or false, or remove the key"
    if detail.type == "value_error":
        return f"{name} {detail.ctx['error']}"
    return f"{name} {value!r}: {detail.msg}"
