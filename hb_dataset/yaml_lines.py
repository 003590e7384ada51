"""YAML with the line of everything in it, so that a fault can be told with its place."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

# YAML counts these as line breaks, as no editor does: the lines of all that follows would be off.
_OTHER_LINE_BREAKS = re.compile("[\x85\u2028\u2029]")


class Fault(NamedTuple):
    """One thing wrong with a vocabulary: where, and what to write."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


def load_with_lines(path: Path, faults: list[Fault]) -> tuple[Any, dict[tuple, int]]:
    """Loads YAML with every scalar as the text that was written ("no" stays "no"), and where it stands.

    Args:
        path: The file.
        faults: Where a key that stands twice, or a line break of another kind, is reported.

    Returns:
        The document, and the line (from 1) of each place in it, keyed by the path of keys and indices that leads there.

    Raises:
        yaml.YAMLError, UnicodeDecodeError, RecursionError: It cannot be read; see `unreadable`.
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

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # libyaml where PyYAML was built with it
    text = path.read_text(encoding="utf-8")
    for found in _OTHER_LINE_BREAKS.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        faults.append(Fault(path.name, line, f"has a line break of another kind (U+{ord(found[0]):04X}); remove it"))
    root = yaml.compose(_OTHER_LINE_BREAKS.sub(" ", text), Loader=loader)
    return (None if root is None else plain(root, ())), lines


def unreadable(path: Path, error: yaml.YAMLError | UnicodeDecodeError | RecursionError) -> Fault:
    """The fault that a file which cannot be read has, at the line where reading stopped."""
    if isinstance(error, RecursionError):
        return Fault(path.name, 1, "holds an anchor that refers to itself; write the entries out")
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        last = path.read_text(encoding="utf-8").count("\n") + 1  # reading may stop behind it
        return Fault(path.name, min(error.problem_mark.line + 1, last), f"is not valid YAML: {error.problem}")
    if isinstance(error, UnicodeDecodeError):
        before, problem = path.read_bytes()[: error.start], "is not UTF-8 here; save the file as UTF-8"
    else:  # counts the bytes of the text that was composed, whose line breaks are all alike
        before = _OTHER_LINE_BREAKS.sub(" ", path.read_text(encoding="utf-8")).encode()[: getattr(error, "position", 0)]
        problem = "has a control character, which YAML refuses; remove it"
    return Fault(path.name, len(re.findall(rb"\r\n?|\n", before)) + 1, problem)
