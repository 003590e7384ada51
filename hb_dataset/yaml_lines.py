"""YAML with the line of everything in it, so that a fault can be told with its place.

The files may be anyone's, so what one of them can ask for is limited before anything is built from it: its size, how
deep its lists lie in one another, and no part that stands for another part, by which ten lines can hold millions of
entries.
"""

import re
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import yaml

MAX_BYTES = 250_000  # the largest file of the vocabulary has 20,000
MAX_NODES = 25_000  # keys, texts, lists and mappings; that file has 800
MAX_DEPTH = 10  # as deep as mappings and lists may lie in one another; ours go to 5

# YAML counts these as line breaks, as no editor does: the lines of all that follows would be off.
_OTHER_LINE_BREAKS = re.compile("[\x85\u2028\u2029]")
# Those that say what a value is anyway: every scalar is read as the text that was written.
_PLAIN_TAG = re.compile("tag:yaml.org,2002:(bool|float|int|map|null|seq|str|timestamp)")
_NAME_SHOWN = 40
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # libyaml where PyYAML was built with it

TOO_LARGE = "has more than {most:,} bytes, and is not read; split it, or remove what does not belong there"
TOO_MANY = "has more than {most:,} keys and values up to here, and is not read further; split it"
TOO_DEEP = "nests lists or mappings more than {most} deep; no entry needs that, write them as the others are"
ANCHOR = "has {sign}{name}, by which YAML lets one part stand for another; write it out, or in quotes if it is text"
TAG = "has the tag {name}; remove it, or put quotes around what begins with ! if it is text"


class Fault(NamedTuple):
    """One thing wrong with a vocabulary: where, and what to write."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


class FaultsError(ValueError):
    """A file or folder with faults. `faults` holds them all; `kind` is what the message calls the file."""

    kind: ClassVar[str]

    def __init__(self, path: Path, faults: list[Fault]) -> None:
        self.faults = faults
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        super().__init__("\n".join([f"{count} in the {self.kind} {path}:", *(f"  {fault}" for fault in faults)]))


class RefusedError(yaml.YAMLError):
    """YAML that is not taken, well written or not: the line, and why."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


def load_with_lines(path: Path, faults: list[Fault]) -> tuple[Any, dict[tuple, int]]:
    """Loads YAML with every scalar as the text that was written ("no" stays "no"), and where it stands.

    Args:
        path: The file.
        faults: Where a key that stands twice, or a line break of another kind, is reported.

    Returns:
        The document, and the line (from 1) of each place in it, keyed by the path of keys and indices that leads there.

    Raises:
        yaml.YAMLError, UnicodeDecodeError, OSError: It cannot be read, or is not taken; see `unreadable`.
    """
    lines: dict[tuple, int] = {}

    def plain(node: yaml.Node, where: tuple) -> Any:
        lines.setdefault(where, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            mapping = {}
            for key_node, value_node in node.value:
                name = str(key_node.value)
                line = key_node.start_mark.line + 1
                if name in mapping:
                    faults.append(Fault(path.name, line, f"key {name!r} is here twice; remove one of them"))
                lines[(*where, name)] = line
                mapping[name] = plain(value_node, (*where, name))
            return mapping
        if isinstance(node, yaml.SequenceNode):
            return [plain(item, (*where, index)) for index, item in enumerate(node.value)]
        return node.value

    text = _read(path)
    for line, content in enumerate(text.split("\n"), start=1):
        for sign in sorted(set(_OTHER_LINE_BREAKS.findall(content))):
            faults.append(Fault(path.name, line, f"has a line break of another kind (U+{ord(sign):04X}); remove it"))
    text = _OTHER_LINE_BREAKS.sub(" ", text)
    _check_form(text)
    root = yaml.compose(text, Loader=_LOADER)
    return (None if root is None else plain(root, ())), lines


def unreadable(path: Path, error: yaml.YAMLError | UnicodeDecodeError | OSError) -> Fault:
    """The fault that a file which cannot be read has, at the line where reading stopped."""
    if isinstance(error, RefusedError):
        return Fault(path.name, error.line, error.problem)
    if isinstance(error, OSError):
        return Fault(path.name, 1, f"cannot be read ({error.strerror}); put a text file here")
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        last = path.read_text(encoding="utf-8").count("\n") + 1  # reading may stop behind it
        return Fault(path.name, min(error.problem_mark.line + 1, last), f"is not valid YAML: {error.problem}")
    if isinstance(error, UnicodeDecodeError):
        before, problem = path.read_bytes()[: error.start], "is not UTF-8 here; save the file as UTF-8"
    else:  # counts the bytes of the text that was composed, whose line breaks are all alike
        before = _OTHER_LINE_BREAKS.sub(" ", path.read_text(encoding="utf-8")).encode()[: getattr(error, "position", 0)]
        problem = "has a control character, which YAML refuses; remove it"
    return Fault(path.name, len(re.findall(rb"\r\n?|\n", before)) + 1, problem)


def _read(path: Path) -> str:
    """The text of a file, with line breaks all alike, of which no more is read than is allowed."""
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise RefusedError(1, TOO_LARGE.format(most=MAX_BYTES))
    return re.sub("\r\n?", "\n", content.decode())


def _check_form(text: str) -> None:
    """Reads YAML event by event, building nothing, and refuses what could grow or nest without end."""
    depth = num_nodes = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if not isinstance(event, yaml.NodeEvent):
            continue
        line = event.start_mark.line + 1 if event.start_mark else 1
        if event.anchor is not None:
            sign = "*" if isinstance(event, yaml.AliasEvent) else "&"
            raise RefusedError(line, ANCHOR.format(sign=sign, name=_clipped(event.anchor)))
        tag = event.tag if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) else None
        if tag is not None and _PLAIN_TAG.fullmatch(tag) is None:
            raise RefusedError(line, TAG.format(name=_clipped(tag)))
        depth += isinstance(event, yaml.CollectionStartEvent)
        if depth > MAX_DEPTH:
            raise RefusedError(line, TOO_DEEP.format(most=MAX_DEPTH))
        num_nodes += 1
        if num_nodes > MAX_NODES:
            raise RefusedError(line, TOO_MANY.format(most=MAX_NODES))


def _clipped(name: str) -> str:
    return name if len(name) <= _NAME_SHOWN else f"{name[:_NAME_SHOWN]}…"
