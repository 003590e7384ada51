"""Reads YAML together with the line of every value, so that faults can state the line.

Anyone may write the files, so their size and depth are limited, and no tag makes an object.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import yaml
from pydantic import TypeAdapter, ValidationError

from hb_dataset.command_line import did_you_mean

MAX_BYTES = 10_000_000  # the largest file of the vocabulary has 20,000 bytes
MAX_VALUES = 200_000  # aliases could expand ten lines to millions of values
MAX_DEPTH = 10  # the depth of nested mappings and lists; the files in this package have 5

# Control characters, which YAML forbids, and characters that are line breaks for YAML but not for editors.
_UNREADABLE = re.compile("[^\t\n -~\xa0-\u2027\u202a-\ufffd\U00010000-\U0010ffff]")
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # uses libyaml if PyYAML was built with it


class Fault(NamedTuple):
    """An error in a file: its line number (counted from 1), and a message that states the correction."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


class FaultsError(ValueError):
    def __init__(self, kind: str, path: Path, faults: list[Fault]) -> None:
        self.faults = faults
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        super().__init__("\n".join([f"{count} in the {kind} {path}:", *(f"  {fault}" for fault in faults)]))


def load_with_lines(path: Path) -> tuple[Any, dict[tuple, int]]:
    """Loads a YAML file, and the line of each value.

    The keys of the second result are tuples such as `("terms", 0, "note")`. Lines are counted from 1. Scalars remain as
    written ("no" is text), except null and ~ without quotes, which programs write for absent values.

    Raises:
        FaultsError: The file is not valid YAML, is too large or too deep, or contains a key twice.
    """
    lines: dict[tuple, int] = {}

    def plain(node: yaml.Node, keys: tuple) -> Any:
        lines.setdefault(keys, node.start_mark.line + 1)
        if len(keys) > MAX_DEPTH or len(lines) > MAX_VALUES:
            message = f"is more than {MAX_DEPTH} levels deep, or has more than {MAX_VALUES:,} values; write less"
            _refuse(path, lines[keys], message)
        if isinstance(node, yaml.MappingNode):
            mapping = {}
            for key_node, value_node in node.value:
                name = str(key_node.value)
                lines[(*keys, name)] = key_node.start_mark.line + 1
                if name in mapping:
                    _refuse(path, lines[(*keys, name)], f"key {name!r} occurs twice; remove one of the two")
                mapping[name] = plain(value_node, (*keys, name))
            return mapping
        if isinstance(node, yaml.SequenceNode):
            return [plain(item, (*keys, index)) for index, item in enumerate(node.value)]
        is_plain = isinstance(node, yaml.ScalarNode) and not node.style
        return None if is_plain and node.value in ("null", "~") else node.value

    text = _read(path)
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        # Reading may stop after the last line.
        line = min(error.problem_mark.line, text.count("\n")) + 1 if error.problem_mark else 1
        _refuse(path, line, f"is not valid YAML: {error.problem}")
    return (None if root is None else plain(root, ())), lines


def load_values(path: Path) -> Any:
    """Loads a YAML file with values of YAML's types.

    Raises:
        ValueError: The file is not valid YAML, or contains a key twice. YAML itself would ignore the first value.
    """
    load_with_lines(path)
    try:
        return yaml.safe_load(_read(path))
    except yaml.MarkedYAMLError as error:  # such as an unknown tag, or a list as a key
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(f"line {line} of '{path}' is not valid YAML ({error.problem}); correct it") from error
    except ValueError as error:  # such as an invalid date
        raise ValueError(f"'{path}' is not valid YAML ({error}); correct the file") from error


def _read(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        _refuse(path, 1, f"is larger than the limit of {MAX_BYTES:,} bytes; remove content that does not belong in it")
    try:
        text = re.sub("\r\n?", "\n", content.decode())
    except UnicodeDecodeError as error:
        _refuse(path, content[: error.start].count(b"\n") + 1, "is not UTF-8 here; save the file as UTF-8")
    if match := _UNREADABLE.search(text):
        line = text[: match.start()].count("\n") + 1
        _refuse(path, line, f"has a control character or an unusual line break (U+{ord(match[0]):04X}); remove it")
    return text


def _refuse(path: Path, line: int, message: str) -> NoReturn:
    raise FaultsError("file", path, [Fault(path.name, line, message)])


class Located(NamedTuple):
    file: str
    line: int
    entry: Any

    def fault(self, message: str) -> Fault:
        return Fault(self.file, self.line, message)


def read_entries(path: Path, key: str, entry_type: Any, faults: list[Fault], **given: str) -> list[Located]:
    """Reads the valid entries of a file.

    The file has a list of entries under `key`, and optionally a `source` for all entries. `given` contains other keys
    that the file must have, with their required values, such as `axis="age"`. These values become fields of each entry.
    Faults are appended to `faults`.
    """
    try:
        document, lines = load_with_lines(path)
    except FaultsError as error:
        faults += error.faults
        return []
    if not isinstance(document, dict) or not isinstance(document.get(key), list):
        message = f"has no list `{key}:`; write `{key}:` and, below it, entries that start with -"
        faults.append(Fault(path.name, 1, message))
        return []
    keys_of_file = [key, "source", *given]
    messages: list[tuple[tuple, str]] = []
    messages += [((name,), unknown_key(name, keys_of_file)) for name in document.keys() - {*keys_of_file}]
    for name, value in given.items():
        if document.get(name) != value:
            messages.append(((name,), f"`{name}` is {document.get(name)!r}; write `{name}: {value}` at the top"))
    of_file = {"source": document["source"]} if "source" in document else {}
    adapter, located = TypeAdapter(entry_type), []
    for index, entry in enumerate(document[key]):
        if not isinstance(entry, dict):
            messages.append(((key, index), "entry has no `key: value` lines; write its keys, each on its own line"))
            continue
        for name in given.keys() & entry.keys():
            if entry[name] != given[name]:
                about = f"`{name}` is {entry[name]!r} in a file of {given[name]!r}; move the entry, or remove the key"
                messages.append(((key, index, name), about))
        try:
            value = adapter.validate_python({**of_file, **entry, **given})
            located.append(Located(path.name, lines[(key, index)], value))
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                name = str(detail["loc"][0])
                keys = (key, index, name) if name in entry or name not in document else (name,)
                messages.append((keys, explained(name, detail, entry_type)))
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
    path: Path, entry_type: Any, first: str, kind: str, nested: Any = None, remedy: str = ""
) -> tuple[Any, dict[tuple, int]]:
    """Reads a file with one entry, and the line of each value.

    `first` is the line with which such a file begins. `nested` is the type of the entries in the entry, if there are
    any. `remedy` states the correction of all faults.

    Raises:
        FaultsError: The file has faults.
    """
    document, lines = load_with_lines(path)
    if not isinstance(document, dict):
        _refuse(path, 1, f"has no `key: value` lines; begin with the line `{first}`")
    try:
        return TypeAdapter(entry_type).validate_python(document), lines
    except ValidationError as problem:
        faults = []
        for detail in problem.errors(include_url=False):
            keys = detail["loc"]
            name = next(key for key in reversed(keys) if isinstance(key, str) and key != "[key]")
            if keys[-1] == "[key]":
                name = f"{keys[0]} {name!r}"
            of_type = entry_type if nested is None or len(keys) == 1 else nested
            message = f"{detail['msg']}; {remedy}" if remedy else explained(name, detail, of_type)
            faults.append(Fault(path.name, line_of(lines, keys), message))
        raise FaultsError(kind, path, sorted(faults)) from None


def line_of(lines: dict[tuple, int], keys: tuple) -> int:
    """Returns the line of the value at `keys` or, if it is unknown, of the list that contains the value."""
    return next((lines[keys[:end]] for end in range(len(keys), -1, -1) if keys[:end] in lines), 1)


def repeat_faults(located: list[Located], name: str, key: Callable[[Any], object] | None = None) -> Iterator[Fault]:
    first: dict[object, Located] = {}
    for entry in located:
        value = getattr(entry.entry, name)
        before = first.setdefault(value if key is None else key(entry.entry), entry)
        if before is not entry:
            yield entry.fault(f"{name} {value!r} is already in {before.file} line {before.line}; remove one of the two")


def unknown_key(name: str, allowed: list[str]) -> str:
    return f"unknown key {name!r}; {did_you_mean(name, allowed)}allowed: {', '.join(allowed)}"


def explained(name: str, detail: Mapping[str, Any], entry_type: Any) -> str:
    """Writes the message for one of the `errors` of a `ValidationError`."""
    if detail["type"] == "unexpected_keyword_argument":
        return unknown_key(name, [field.name for field in fields(entry_type)])
    if detail["type"] == "missing":
        return f"entry has no `{name}`; write `{name}: …`"
    if detail["type"] == "value_error":
        return f"{name} {detail['ctx']['error']}"
    if detail["type"] in ("list_type", "tuple_type"):
        return f"{name} {detail['input']!r} is not a list; write each entry on a line that starts with -"
    if detail["type"] == "dataclass_type":
        return f"{name} {detail['input']!r} has no `key: value` lines; write its keys, each on its own line"
    return f"{name} {detail['input']!r} is invalid: {detail['msg']}"
