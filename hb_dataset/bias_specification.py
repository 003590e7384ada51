"""Reads the bias specifications of RedditBias (Barikeri et al. 2021, sections 2.1, 3.1 and appendix A).

A specification contains terms for two groups of people (T1 and T2), stereotypes and their opposites (A1 and A2), and
the pairs of terms to swap.
"""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from hb_dataset.written_text import STRICT_KEYS, Key, Remark, Text, text_fault, without
from hb_dataset.yaml_lines import Fault, FaultsError, read_document, shipped_or_own

SPECIFICATIONS = Path(__file__).parent / "bias_specifications"


def _term_fault(term: str) -> str | None:
    if term != term.lower():
        return f"{term!r} is not in lower case; write {term.lower()!r} (it matches words in any case)"
    return text_fault(term)


def _attribute_fault(term: str) -> str | None:
    if re.search(r"\*(?![ ]|$)|(^| )\*", term):
        return f"{term!r} has a * that is not at the end of a word; put * only at the end, as in `greed*`"
    return text_fault(term)


_Term = Annotated[str, without(_term_fault)]
_Attribute = Annotated[str, without(_attribute_fault)]
_Filled = Field(min_length=1)


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class TargetPair:
    """A term of the minoritized group and the term that replaces it (paper, appendix A).

    Attributes that begin with `published_` apply only to the authors' own rule. Regular plurals ("girls") are added
    automatically.

    Attributes:
        t1: The term of the minoritized group, in lower case.
        t2: The term of the dominant group, in lower case.
        forms: Pairs of other forms of t1 and t2: irregular plurals, plurals of adjectives ("jews" for "jewish") and
            derived words.
        one_way: If true, mode `"word"` never replaces t2, because t2 often has another meaning ("straight").
        published_spaces: Where the published rule requires spaces: `after` both terms, or `around` them.
        published_one_way: If true, the published rule replaces t1 but never t2, even if it swaps the terms of other
            pairs.
        published_one_way_beside: In texts that contain these words, the published rule replaces t1 but never t2.
    """

    t1: _Term
    t2: _Term
    forms: tuple[tuple[_Term, _Term], ...] = ()
    one_way: bool = False
    published_spaces: Literal["after", "around"] | None = None
    published_one_way: bool = False
    published_one_way_beside: Text | None = None
    note: Remark | None = None

    def __post_init__(self) -> None:
        if self.t1 == self.t2:
            raise ValueError(f"t1 and t2 are both {self.t1!r}; write two different terms, or remove the pair")

    @property
    def published_terms(self) -> tuple[str, str]:
        before = " " if self.published_spaces == "around" else ""
        after = " " if self.published_spaces else ""
        return f"{before}{self.t1}{after}", f"{before}{self.t2}{after}"


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class BiasSpecification:
    """Two groups and their terms (paper, section 2.1 and appendix A).

    Attributes:
        bias_type: The name, which is also the name of the file: `"religion1"`.
        group_1: The minoritized group, in plain words.
        group_2: The dominant group, in plain words.
        target_terms_1: T1, the search terms, which include the verb ("women are").
        target_terms_2: T2, in the order of `target_terms_1`.
        pairs: The pairs, in the order in which the published rule applies them.
        attributes_1: A1, stereotypes of the minoritized group. `greed*` matches every word that begins with "greed".
        attributes_2: A2, the approximate opposites of A1.
        kept_phrases: Phrases that mode `"word"` leaves unchanged, because the term in them does not refer to the group.
        published_two_way: If true, the published rule swaps t1 and t2. Otherwise, it only replaces t1 with t2.
        published_folder: The bias type's folder in the authors' data, if its name differs from the bias type.
    """

    bias_type: Key
    dimension: Key
    group_1: Text
    group_2: Text
    target_terms_1: Annotated[tuple[Text, ...], _Filled]
    target_terms_2: Annotated[tuple[Text, ...], _Filled]
    pairs: Annotated[tuple[TargetPair, ...], _Filled]
    attributes_1: Annotated[tuple[_Attribute, ...], _Filled]
    attributes_2: tuple[_Attribute, ...]
    kept_phrases: tuple[Text, ...] = ()
    published_two_way: bool = False
    published_folder: Key | None = None
    source: Remark | None = None
    notes: Remark | None = None


def specification_names() -> list[str]:
    """Returns the names of this package's specifications, in alphabetical order."""
    return sorted(path.stem for path in SPECIFICATIONS.glob("*.yaml"))


def read_specification(name_or_path: str | Path) -> BiasSpecification:
    """Reads and checks a bias specification.

    Args:
        name_or_path: A name from `specification_names()`, or the path of your own YAML file.

    Raises:
        FileNotFoundError: There is no specification with this name, and no such file.
        FaultsError: The specification has faults. The message lists every fault with its file and line.
    """
    names = specification_names()
    ours = {} if name_or_path in names else {read_specification(name).published_folder: name for name in names}
    theirs = ours.get(str(name_or_path))
    hint = f"RedditBias calls this type '{name_or_path}', but this toolkit calls it '{theirs}'; " if theirs else ""
    path = shipped_or_own(SPECIFICATIONS, name_or_path, "bias specification", hint)
    specification, lines = read_document(path, BiasSpecification, "bias_type: …", "bias specification", TargetPair)
    if specification.bias_type != path.stem:
        message = f"`bias_type` is {specification.bias_type!r}; write `bias_type: {path.stem}`, as in the file's name"
        raise FaultsError("bias specification", path, [Fault(path.name, lines[("bias_type",)], message)])
    return specification
