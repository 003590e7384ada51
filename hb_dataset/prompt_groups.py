import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from hb_dataset.command_line import did_you_mean
from hb_dataset.noun_phrases import agreeing, article_by_sound, noun_phrase, plural_noun_phrase
from hb_dataset.vocabulary import VOCABULARIES, read_vocabulary
from hb_dataset.vocabulary_entries import DEFAULT_NOUN, Article, Descriptor, PersonNoun, Vocabulary
from hb_dataset.written_text import STRICT_KEYS, Remark, Text, without
from hb_dataset.yaml_lines import Fault, FaultsError, read_document

GROUPS_FILE = Path(__file__).parent / "structures" / "groups.yaml"

_DETERMINER = re.compile(r"(an?|the|this|that|these|those) ", re.IGNORECASE)


@dataclass(frozen=True)
class PromptGroup:
    """A group of people in prompts.

    Attributes:
        name: The group's name in tables: `"gay person"`.
        singular: The singular without a determiner.
        plural: The plural without a determiner: `"gay people"`.
        axis: The axis of the vocabulary term from which the group was made, or `None` if there is no such term.
        article: "a" or "an". Needed only if `article_by_sound` is wrong.
    """

    name: str
    singular: str
    plural: str
    axis: str | None = None
    descriptor: str | None = None
    article: Article | None = None

    @property
    def mentions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.singular, self.plural)))

    @property
    def indefinite(self) -> str:
        """Returns the singular with its article: `"a gay person"`, `"an elderly woman"`."""
        return f"{self.article or article_by_sound(self.singular)} {self.singular}"


@dataclass(frozen=True)
class GroupPair:
    """The names of two groups whose regard is compared (paper, section 5)."""

    name: str
    advantaged: str
    disadvantaged: str


def _group_fault(words: str) -> str | None:
    determiner = _DETERMINER.match(words)
    return f"{words!r} starts with a determiner; write {words[determiner.end() :]!r}" if determiner else None


_Group = Annotated[Text, without(_group_fault)]


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class _GroupEntry:
    singular: _Group | None = None
    plural: _Group | None = None
    article: Article | None = None
    note: Remark | None = None


# In YAML, `woman:` alone has the value "".
_Entry = Annotated[_GroupEntry, BeforeValidator(lambda value: {} if value in ("", None) else value)]


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class _Content:
    groups: Annotated[dict[_Group, _Entry], Field(min_length=1)]
    pairs: dict[str, list[str]] = field(default_factory=dict)
    source: Remark | None = None


def read_groups(path: str | Path | None = None) -> tuple[tuple[PromptGroup, ...], tuple[GroupPair, ...]]:
    """Reads groups and pairs, in the order of the file.

    Args:
        path: A YAML file. `None` means the paper's six groups and three pairs. Under the key `groups`, each name can
            have three keys: `singular` (default: the name), `plural` (default: derived from the person noun at the end
            of the name), and `article` (default: by the first sound). Under the optional key `pairs`, each name has
            the value `[advantaged, disadvantaged]`.

    Raises:
        FileNotFoundError: There is no such file.
        FaultsError: The file has faults. The message lists every fault with its file and line.
    """
    path = GROUPS_FILE if path is None else Path(path)
    content, lines = read_document(path, _Content, "groups:", "groups", _GroupEntry)
    groups, faults = [], []
    for name, entry in content.groups.items():
        singular = entry.singular or name
        plural = entry.plural or _plural_by_last_word(singular)
        if plural is None:
            message = f"the plural of {singular!r} is unknown; write a `plural: …` below {name!r}"
            faults.append(Fault(path.name, lines["groups", name], message))
        else:
            groups.append(PromptGroup(name=name, singular=singular, plural=plural, article=entry.article))
    for name, sides in content.pairs.items():
        if len(sides) != 2 or len({*sides} & content.groups.keys()) != 2:
            message = (
                f"pair {name!r} does not name two groups; write `{name}: [advantaged, disadvantaged]` with two of "
                f"these groups: {', '.join(content.groups)}"
            )
            faults.append(Fault(path.name, lines["pairs", name], message))
    if faults:
        raise FaultsError("groups", path, sorted(faults))
    check_groups(groups)
    return tuple(groups), tuple(GroupPair(name, *sides) for name, sides in content.pairs.items())


def _plural_by_last_word(singular: str) -> str | None:
    before, space, last = singular.rpartition(" ")
    nouns = read_vocabulary(VOCABULARIES / "next").nouns
    return next((f"{before}{space}{noun.plural}" for noun in nouns if noun.noun == last), None)


def find_groups(
    given: str | Path | PromptGroup | Sequence[str | PromptGroup] | None, vocabulary: Vocabulary | None = None
) -> tuple[tuple[PromptGroup, ...], tuple[GroupPair, ...]]:
    """Reads groups and pairs from a file, or makes groups from terms of the HolisticBias vocabulary.

    Args:
        given: The path of a file (see `read_groups`), or one or more terms and `PromptGroup`s. `None` means the paper's
            six groups. A term is written with a noun (`"Deaf woman"`) or alone (`"tall"`), in upper or lower case. A
            noun alone (`"woman"`) is also a group. A term alone gets the noun "person" or, if the two cannot be
            combined, the first suitable noun. If a term is on two axes, the group gets the alphabetically first axis.
        vocabulary: The vocabulary that contains the terms. `None` means `next`.

    Returns:
        The groups and the pairs. Pairs come only from a file. A group made from a term is named after its singular.

    Raises:
        ValueError: The file has faults, or a term is unknown, cannot be combined with its noun, or is passed twice.
    """
    if given is None:
        return read_groups()
    named = [given] if isinstance(given, str | Path | PromptGroup) else list(given)
    if len(named) == 1 and not isinstance(named[0], PromptGroup) and os.path.isfile(named[0]):  # noqa: PTH113 - a text may be too long for a path
        return read_groups(named[0])
    groups = [item for item in named if isinstance(item, PromptGroup)]
    if len(groups) < len(named):
        vocabulary = read_vocabulary(VOCABULARIES / "next") if vocabulary is None else vocabulary
        groups = [item if isinstance(item, PromptGroup) else _vocabulary_group(vocabulary, str(item)) for item in named]
    check_groups(groups)
    return tuple(groups), ()


def check_groups(groups: Sequence[PromptGroup]) -> None:
    for index, group in enumerate(groups):
        for other in groups[:index]:
            if group.name == other.name or {group.singular, group.plural} & {other.singular, other.plural}:
                raise ValueError(f"groups '{other.name}' and '{group.name}' have the same words; remove one of them")


# --- Terms of the vocabulary ------------------------------------------------------------------------------------------


def _vocabulary_group(vocabulary: Vocabulary, term: str) -> PromptGroup:
    reading = next(_readings(vocabulary, " ".join(term.casefold().split())), None)
    if reading is None:
        raise ValueError(
            f"'{term}' is not in the vocabulary; {_hint(vocabulary, term)}write a term ('tall'), a term with a noun "
            "('tall woman', 'woman with a lisp') or a noun ('woman'), or define groups of other words in a YAML file"
        )
    descriptor, noun = reading
    singular = _singular(descriptor, noun)
    return PromptGroup(
        name=singular,
        singular=singular,
        plural=plural_noun_phrase(descriptor, noun),
        axis=None if descriptor is None else descriptor.axis,
        descriptor=None if descriptor is None else descriptor.term,
        article=(descriptor.article if descriptor is not None and descriptor.before else noun.article),
    )


def _readings(vocabulary: Vocabulary, wanted: str) -> Iterator[tuple[Descriptor | None, PersonNoun]]:
    """Yields the nouns, and the terms with their nouns, that a text in lower case can mean."""
    for noun in vocabulary.nouns:
        if noun.noun.casefold() == wanted:
            yield None, noun
    for descriptor in vocabulary.descriptors:
        if descriptor.term.casefold() in wanted:
            nouns = [vocabulary.nouns[index] for index in agreeing(descriptor, vocabulary.nouns)]
            if descriptor.term.casefold() == wanted:
                yield descriptor, next((noun for noun in nouns if noun.noun == DEFAULT_NOUN), nouns[0])
            for noun in nouns:
                if _singular(descriptor, noun).casefold() == wanted:
                    yield descriptor, noun


def _hint(vocabulary: Vocabulary, term: str) -> str:
    """Suggests a similar term, but never one that community reviewers marked as dispreferred."""
    terms = [entry.term for entry in vocabulary.descriptors if entry.preference != "dispreferred"]
    return did_you_mean(term, [*terms, *(noun.noun for noun in vocabulary.nouns)])


def _singular(descriptor: Descriptor | None, noun: PersonNoun) -> str:
    return noun_phrase(descriptor, noun).split(" ", 1)[1]
