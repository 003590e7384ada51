"""Reads and checks the vocabulary: terms, person nouns and templates that people write in YAML.

A vocabulary is a folder with one YAML file per demographic axis (`ability.yaml`, …), `nouns.yaml`, `templates.yaml` and
optional files. All faults are reported at once, each with its file, line and correction.
"""

import hashlib
import json
from dataclasses import fields, is_dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from pydantic.dataclasses import dataclass

from hb_dataset.vocabulary_entries import (
    ADJECTIVE_ORDER_FILE,
    LEFT_OUT_FILE,
    LEFT_OUT_NOUNS_FILE,
    NOUNS_FILE,
    SEAT_TEMPLATES_FILE,
    STANDALONE_FILE,
    TEMPLATES_FILE,
    AdjectiveClass,
    Descriptor,
    LeftOutNoun,
    LeftOutPair,
    PersonNoun,
    StandaloneNounPhrase,
    Template,
)
from hb_dataset.vocabulary_faults import (
    adjective_order_faults,
    descriptor_faults,
    left_out_noun_faults,
    left_out_pair_faults,
    noun_faults,
    standalone_faults,
    template_faults,
)
from hb_dataset.yaml_lines import MAX_BYTES, Fault, FaultsError, Located, read_entries

VOCABULARIES = Path(__file__).parent / "vocabulary"

# Maps each file to the key of its list, the type of its entries, and the field of `Vocabulary`. Every other .yaml file
# contains the terms of an axis.
LISTS: dict[str, tuple[str, Any, str]] = {
    NOUNS_FILE: ("nouns", PersonNoun, "nouns"),
    TEMPLATES_FILE: ("templates", Template, "templates"),
    SEAT_TEMPLATES_FILE: ("templates", Template, "seat_templates"),
    ADJECTIVE_ORDER_FILE: ("classes", AdjectiveClass, "adjective_order"),
    LEFT_OUT_FILE: ("pairs", LeftOutPair, "left_out_pairs"),
    LEFT_OUT_NOUNS_FILE: ("combinations", LeftOutNoun, "left_out_nouns"),
    STANDALONE_FILE: ("noun_phrases", StandaloneNounPhrase, "standalone_noun_phrases"),
}


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The parts from which prompts are made. A vocabulary with an empty `adjective_order` has no intersections."""

    descriptors: tuple[Descriptor, ...]
    nouns: tuple[PersonNoun, ...]
    templates: tuple[Template, ...]
    seat_templates: tuple[Template, ...]
    adjective_order: tuple[AdjectiveClass, ...] = ()
    left_out_pairs: tuple[LeftOutPair, ...] = ()
    left_out_nouns: tuple[LeftOutNoun, ...] = ()
    standalone_noun_phrases: tuple[StandaloneNounPhrase, ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(sorted({descriptor.axis for descriptor in self.descriptors}))

    def marked_pairs(self, mark: str) -> list[tuple[str, str]]:
        return [(entry.template, other) for entry in self.templates if (other := getattr(entry, mark)) is not None]

    @cached_property
    def digest(self) -> str:
        """Returns the SHA-256 digest (hex) of the content. File layout, comments and absent keys have no effect.

        Marks of pairs of templates have no effect either, because they do not change the prompts. Digests therefore
        remain valid when a later version of the format adds a key.
        """
        return hashlib.sha256(json.dumps(_written(self), sort_keys=True).encode()).hexdigest()


def read_vocabulary(folder: str | Path | None = None) -> Vocabulary:
    """Reads and checks a vocabulary.

    Args:
        folder: The vocabulary's folder. `None` means v1.0, the paper's vocabulary.

    Returns:
        The vocabulary, with axes in alphabetical order and terms in the order of their files.

    Raises:
        NotADirectoryError: The folder does not exist.
        FaultsError: The vocabulary has faults. The message lists every fault with its file and line.
    """
    folder = VOCABULARIES / "v1.0" if folder is None else Path(folder)
    if not folder.is_dir():
        raise NotADirectoryError(
            f"the vocabulary folder '{folder}' does not exist; pass a folder that contains one YAML file per axis, "
            f"{NOUNS_FILE} and {TEMPLATES_FILE} (`holistic-bias new-vocabulary FOLDER` writes them)"
        )
    try:
        contents = tuple((path.name, _content(path)) for path in sorted(folder.iterdir()))
    except OSError:  # the reader reports the failure as a fault
        return _read(folder)
    return _read_once(folder, contents)


def _content(path: Path) -> bytes | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


@lru_cache(maxsize=8)
def _read_once(folder: Path, contents: tuple[tuple[str, bytes | None], ...]) -> Vocabulary:
    """Caches a vocabulary by its content, because a run reads the same folder several times."""
    return _read(folder)


def _read(folder: Path) -> Vocabulary:
    faults: list[Fault] = []
    descriptors: list[Located] = []
    read: dict[str, list[Located]] = {name: [] for name in LISTS}
    axis_files: list[str] = []
    for path in sorted(folder.iterdir()):
        if path.name in LISTS:
            key, entry_type, _ = LISTS[path.name]
            read[path.name] = read_entries(path, key, entry_type, faults)
        elif path.suffix == ".yaml" and path.is_file():
            axis_files.append(path.name)
            descriptors += read_entries(path, "terms", Descriptor, faults, axis=path.stem)
        elif path.suffix != ".md" and not path.name.startswith("."):
            faults.append(
                Fault(
                    path.name,
                    1,
                    "is not part of a vocabulary; if it is an axis file, rename it to <axis>.yaml, and if not, move it "
                    "to another folder",
                )
            )
    nouns, templates, seat_templates = read[NOUNS_FILE], read[TEMPLATES_FILE], read[SEAT_TEMPLATES_FILE]
    for name, entries in ((NOUNS_FILE, nouns), (TEMPLATES_FILE, templates), ("<axis>.yaml", descriptors)):
        if not entries and not any(fault.file in (name, *axis_files) for fault in faults):
            faults.append(Fault(name, 1, f"is missing or has no entries; see {VOCABULARIES / 'v1.0'} for an example"))
    faults += descriptor_faults(descriptors, nouns)
    faults += noun_faults(nouns)
    faults += template_faults(templates)
    faults += template_faults(seat_templates)
    faults += standalone_faults(read[STANDALONE_FILE], [Path(name).stem for name in axis_files])
    if not faults:  # these checks need all files, since entries name terms from other files
        faults += adjective_order_faults(read[ADJECTIVE_ORDER_FILE], read[LEFT_OUT_FILE], descriptors)
        faults += left_out_pair_faults(read[LEFT_OUT_FILE], descriptors)
        faults += left_out_noun_faults(read[LEFT_OUT_NOUNS_FILE], descriptors, nouns, [*templates, *seat_templates])
    if faults:
        raise FaultsError("vocabulary", folder, sorted(faults))
    lists = {LISTS[name][2]: tuple(located.entry for located in entries) for name, entries in read.items()}
    return Vocabulary(descriptors=tuple(located.entry for located in descriptors), **lists)


def vocabulary_files(vocabulary: Vocabulary) -> list[str]:
    return [
        *(f"{axis}.yaml" for axis in vocabulary.axes),
        *(name for name, (_, _, field) in LISTS.items() if getattr(vocabulary, field)),
    ]


def _written(entry: Any) -> Any:
    """Converts an entry to lists and dictionaries, without fields at their default values or outside the digest."""
    if isinstance(entry, tuple):
        return [_written(item) for item in entry]
    if not is_dataclass(entry):
        return entry
    digested = [field for field in fields(entry) if field.metadata.get("in_digest", True)]
    values = {field.name: (getattr(entry, field.name), field.default) for field in digested}
    return {name: _written(value) for name, (value, default) in values.items() if value != default}
