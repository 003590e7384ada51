"""Reads YAML together with the line of every value, so that faults can state the line.

Anyone may write the files, so their size and nesting depth are checked before the parser builds any value. Anchors and
aliases are rejected, because they allow ten lines to expand to millions of entries.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

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
