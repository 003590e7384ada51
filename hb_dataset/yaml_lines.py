"""Reads YAML together with the line of every value, so that faults can state the line.

Anyone may write the files, so their size and nesting depth are checked before the parser builds any value. Anchors and
aliases are rejected, because they allow ten lines to expand to millions of entries.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import yaml
from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError

from hb_dataset.command_line import did_you_mean
from hb_dataset.written_text import remark_fault, sentence_fault, text_fault, words_fault

MAX_BYTES = 250_000  # the largest file of the vocabulary has 20,000 bytes
MAX_DEPTH = 10  # the depth of nested mappings and lists; the files in this package have 5

# YAML counts these characters as line breaks, but editors do not, so all later line numbers would be wrong.
_OTHER_LINE_BREAKS = re.compile("[\x85\u2028\u2029]")
# Tags that have no effect, because every scalar is read as text.
_PLAIN_TAG = re.compile("tag:yaml.org,2002:(bool|float|int|map|null|seq|str|timestamp)")
_NAME_SHOWN = 40
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # uses libyaml if PyYAML was built with it


class Fault(NamedTuple):
    """An error in a file: its line number (counted from 1), and a message that states the correction."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


class Detail(NamedTuple):
    """An error of pydantic, at the keys `loc`. `ctx` contains what the type of error adds."""

    type: str
    loc: tuple[Any, ...]
    msg: str
    input: Any
    ctx: dict[str, Any] = {}  # noqa: RUF012


def details_of(error: ValidationError) -> list[Detail]:
    details: list[Any] = error.errors(include_url=False)
    return [Detail(**detail) for detail in details]


class FaultsError(ValueError):
    def __init__(self, kind: str, path: Path, faults: list[Fault]) -> None:
        self.faults = faults
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        super().__init__("\n".join([f"{count} in the {kind} {path}:", *(f"  {fault}" for fault in faults)]))


class RefusedError(yaml.YAMLError):
    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


def load_with_lines(path: Path, faults: list[Fault]) -> tuple[Any, dict[tuple, int]]:
    """Loads a YAML file, and the line of each value.

    The keys of the second result are tuples such as `("terms", 0, "note")`. Lines are counted from 1. Scalars remain as
    written ("no" is text). Faults for repeated keys and unusual line breaks are appended to `faults`. Other problems
    raise errors, which `unreadable` converts to a fault.
    """
    lines: dict[tuple, int] = {}

    def plain(node: yaml.Node, keys: tuple) -> Any:
        lines.setdefault(keys, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            mapping = {}
            for key_node, value_node in node.value:
                name = str(key_node.value)
                line = key_node.start_mark.line + 1
                if name in mapping:
                    faults.append(Fault(path.name, line, f"key {name!r} occurs twice; remove one of the two"))
                lines[(*keys, name)] = line
                mapping[name] = plain(value_node, (*keys, name))
            return mapping
        if isinstance(node, yaml.SequenceNode):
            return [plain(item, (*keys, index)) for index, item in enumerate(node.value)]
        return node.value

    text = _read(path)
    for line, content in enumerate(text.split("\n"), start=1):
        for sign in sorted(set(_OTHER_LINE_BREAKS.findall(content))):
            faults.append(Fault(path.name, line, f"has an unusual line break (U+{ord(sign):04X}); remove it"))
    text = _OTHER_LINE_BREAKS.sub(" ", text)
    _check_form(text)
    root = yaml.compose(text, Loader=_LOADER)
    return (None if root is None else plain(root, ())), lines


class _UniqueKeys(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in names:
                raise RefusedError(key.start_mark.line + 1, f"key {key.value!r} occurs twice; remove one of the two")
            names.add(str(key.value))
        return super().construct_mapping(node, deep)


def load_values(path: Path) -> Any:
    """Loads a YAML file with values of YAML's types.

    Raises:
        ValueError: The file is not valid YAML, or contains a key twice. YAML itself would ignore the first value.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _UniqueKeys)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"'{path}' cannot be read: {unreadable(path, error)}") from error
    except (ValueError, RecursionError) as error:  # such as an invalid date
        raise ValueError(f"'{path}' is not valid YAML ({error}); correct the file") from error


def unreadable(path: Path, error: yaml.YAMLError | UnicodeDecodeError | OSError) -> Fault:
    if isinstance(error, RefusedError):
        return Fault(path.name, error.line, error.problem)
    if isinstance(error, OSError):
        return Fault(path.name, 1, f"cannot be read ({error.strerror}); put a text file here")
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        last = path.read_text(encoding="utf-8").count("\n") + 1  # reading may stop after the last line
        return Fault(path.name, min(error.problem_mark.line + 1, last), f"is not valid YAML: {error.problem}")
    if isinstance(error, UnicodeDecodeError):
        before, problem = path.read_bytes()[: error.start], "is not UTF-8 here; save the file as UTF-8"
    else:  # the error's position counts bytes of the parsed text, in which every line break is a space or \n
        before = _OTHER_LINE_BREAKS.sub(" ", path.read_text(encoding="utf-8")).encode()[: getattr(error, "position", 0)]
        problem = "has a control character, which YAML forbids; remove it"
    return Fault(path.name, len(re.findall(rb"\r\n?|\n", before)) + 1, problem)


def _read(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise RefusedError(
            1,
            f"is larger than the limit of {MAX_BYTES:,} bytes; split the file, or remove content that does not belong "
            "in it",
        )
    return re.sub("\r\n?", "\n", content.decode())


def _check_form(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):  # LibYAML itself rejects very deep nesting
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if not isinstance(event, yaml.NodeEvent):
            continue
        line = event.start_mark.line + 1 if event.start_mark else 1
        if event.anchor is not None:
            sign = "*" if isinstance(event, yaml.AliasEvent) else "&"
            name = f"{sign}{event.anchor[:_NAME_SHOWN]}"
            raise RefusedError(line, f"contains the YAML anchor or alias {name}; write it out, or quote the text")
        tag = event.tag if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) else None
        if tag is not None and _PLAIN_TAG.fullmatch(tag) is None:
            raise RefusedError(line, f"has the tag {tag[:_NAME_SHOWN]}; remove it, or quote the text")
        depth += isinstance(event, yaml.CollectionStartEvent)
        if depth > MAX_DEPTH:
            raise RefusedError(line, f"nests lists or mappings more than {MAX_DEPTH} deep; write flat entries")


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
