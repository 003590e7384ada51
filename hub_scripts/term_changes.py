"""What a change to the vocabulary does: entries added, removed and changed, and the sentences that are new or gone."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import compress
from typing import Any, NamedTuple

from hb_dataset.noun_phrases import at_sentence_start, noun_phrase, plural_noun_phrase
from hb_dataset.prompt_masks import prompt_masks
from hb_dataset.standalone_phrases import standalone_table
from hb_dataset.vocabulary_entries import Descriptor, LeftOutNoun, PersonNoun, Template
from hub_scripts.near_terms import one_edit_apart, same_but_for_spelling
from hub_scripts.term_entries import (
    LEFT_OUT,
    LEFT_OUT_NOUN,
    NOUN,
    ORDER,
    SEAT_TEMPLATE,
    STANDALONE,
    TEMPLATE,
    TERM,
    Contents,
    Entry,
)

SENTENCES_TO_READ = 10
NAMED_KINDS = (TERM, STANDALONE, NOUN, TEMPLATE, SEAT_TEMPLATE)
# The keys whose values are in the sentences.
_WORDS = frozenset(("axis", "term", "noun", "noun_phrase", "template", "plural", "article", "gender"))
_COLUMNS = ("text", "plural", "template")
UNNAMED_KINDS = (ORDER, LEFT_OUT, LEFT_OUT_NOUN)


class Changed(NamedTuple):
    """An entry before and after a change, and its differences as (key, value before, value after)."""

    before: Entry
    after: Entry
    differences: tuple[tuple[str, Any, Any], ...]


class Changes(NamedTuple):
    """The entries that were added, removed and changed; of entries without a name only their numbers by kind."""

    added: tuple[Entry, ...]
    removed: tuple[Entry, ...]
    changed: tuple[Changed, ...]
    num_unnamed_added: dict[str, int]
    num_unnamed_removed: dict[str, int]

    @property
    def touched(self) -> tuple[Entry, ...]:
        """The entries that were added or changed, as they are now."""
        return (*self.added, *(change.after for change in self.changed))


class Counts(NamedTuple):
    """The number of prompts of the full config, and of distinct texts among them."""

    rows: int
    texts: int


class NewSentences(NamedTuple):
    """The new sentences with an entry: their number, and some of them to read aloud."""

    entry: Entry
    total: int
    chosen: tuple[str, ...]


class Effect(NamedTuple):
    """Counts of the full config before and after, and the new sentences with each entry that was added or changed.

    `num_not_shown` more entries have new sentences, of which none are chosen.
    """

    before: Counts
    after: Counts
    num_new: dict[Entry, int]
    to_read: tuple[NewSentences, ...]
    num_not_shown: int


class _Sentence(NamedTuple):
    text: str
    beside: str  # the noun, or of a noun or template the term
    plural: bool
    template: str


def compare(before: Contents, after: Contents) -> Changes:
    """Compares two vocabularies entry by entry.

    A term that moved to another axis, and an entry that is only spelled differently, counts as changed. An entry that
    is missing in a file that could not be read completely may be there, and is not reported as removed.
    """
    old = {_key(entry): entry for entry in before.of_kind(*NAMED_KINDS)}
    new = {_key(entry): entry for entry in after.of_kind(*NAMED_KINDS)}
    pairs = [(old[key], entry) for key, entry in new.items() if key in old]
    removed = [entry for key, entry in old.items() if key not in new]
    added = []
    for entry in (entry for key, entry in new.items() if key not in old):
        former = next((other for other in removed if _same_entry(other, entry)), None)
        if former is None:
            added.append(entry)
        else:
            removed.remove(former)
            pairs.append((former, entry))
    changed = (Changed(former, entry, _differences(former, entry)) for former, entry in pairs)
    unnamed_before, unnamed_after = (
        Counter(
            (entry.kind, entry.value) for entry in contents.of_kind(*UNNAMED_KINDS) if entry.file not in after.unread
        )
        for contents in (before, after)
    )
    return Changes(
        added=tuple(added),
        removed=tuple(entry for entry in removed if entry.file not in after.unread),
        changed=tuple(change for change in changed if change.differences),
        num_unnamed_added=_by_kind((unnamed_after - unnamed_before).elements()),
        num_unnamed_removed=_by_kind((unnamed_before - unnamed_after).elements()),
    )


def effect(before: Contents, after: Contents, changes: Changes, *, seed: int, most: int) -> Effect:
    """Counts the sentences of the full config before and after, and chooses new ones to read aloud.

    Args:
        before: The vocabulary that is compared with.
        after: The vocabulary as it is.
        changes: The result of `compare`.
        seed: The seed that chooses the sentences.
        most: The number of entries of which sentences are chosen; the others are counted.
    """
    rows_before, rows_after = _texts(before), _texts(after)
    known = set(rows_before)
    num_new: dict[Entry, int] = {}
    to_read: list[NewSentences] = []
    num_not_shown = 0
    same_sentences = {change.after for change in changes.changed if not _rewords(change)}
    for entry in (entry for entry in changes.touched if entry not in same_sentences):
        new = {sentence.text: sentence for sentence in _new_sentences(entry, after, known)}
        num_new[entry] = len(new)
        if new and len(to_read) < most:
            chosen = _choose(list(new.values()), seed)
            to_read.append(NewSentences(entry, len(new), tuple(sentence.text for sentence in chosen)))
        elif new:
            num_not_shown += 1
    return Effect(
        before=Counts(len(rows_before), len(known)),
        after=Counts(len(rows_after), len(set(rows_after))),
        num_new=num_new,
        to_read=tuple(to_read),
        num_not_shown=num_not_shown,
    )


def _key(entry: Entry) -> tuple[str | None, ...]:
    plural = entry.value.plural if entry.kind == STANDALONE else None  # one phrase may have two ("Rastas", "Rastafari")
    return entry.kind, entry.axis, entry.name, plural


def _same_entry(old: Entry, new: Entry) -> bool:
    """Whether one entry is the other, moved or spelled differently."""
    if old.kind != new.kind:
        return False
    if old.axis != new.axis:
        return old.name == new.name
    return same_but_for_spelling(old.name, new.name) or one_edit_apart(old.name, new.name)


def _differences(before: Entry, after: Entry) -> tuple[tuple[str, Any, Any], ...]:
    old, new = before.fields, after.fields
    return tuple((name, old[name], value) for name, value in new.items() if value != old[name])


def _by_kind(entries: Iterable[tuple[str, Any]]) -> dict[str, int]:
    return dict(Counter(kind for kind, _ in entries))


def _rewords(change: Changed) -> bool:
    """Whether a change may make new sentences: not one of remarks, nor the first `bucket` of a noun or sentence."""
    return any(
        name in _WORDS or (name == "bucket" and (change.after.kind == TERM or old is not None))
        for name, old, _ in change.differences
    )


def _texts(contents: Contents) -> list[str]:
    """The sentences of the full config, row by row, as `hb_dataset.prompt_table` makes them."""
    rows = _rows(contents.descriptors, contents.nouns, contents.templates, contents.left_out_nouns)
    return [text for _, _, texts, in_templates in rows for text in compress(texts, in_templates)]


def _rows(
    descriptors: Sequence[Descriptor],
    nouns: Sequence[PersonNoun],
    templates: Sequence[Template],
    left_out_nouns: Sequence[LeftOutNoun],
) -> Iterator[tuple[Descriptor, PersonNoun, list[str], list[bool]]]:
    """Each descriptor and noun, their sentence in each template, and whether there is such a prompt."""
    # A template takes one of four forms of each phrase: singular, plural, and both at the start of a sentence.
    parts = [(template.plural + 2 * (not template.parts[0]), *template.parts) for template in templates]
    of_descriptors = prompt_masks(descriptors, nouns, templates, left_out_nouns)
    for descriptor, takes in zip(descriptors, of_descriptors, strict=True):
        for noun, in_templates in zip(nouns, takes.tolist(), strict=True):
            if any(in_templates):
                phrases = (noun_phrase(descriptor, noun), plural_noun_phrase(descriptor, noun))
                forms = (*phrases, *map(at_sentence_start, phrases))
                yield descriptor, noun, [prefix + forms[form] + suffix for form, prefix, suffix in parts], in_templates


def _new_sentences(entry: Entry, contents: Contents, known: Set[str]) -> Iterator[_Sentence]:
    """The sentences that an entry is in, of the full config or of standalone noun phrases, and that are not known."""
    descriptors = [entry.value] if entry.kind == TERM else contents.descriptors
    nouns = [entry.value] if entry.kind == NOUN else contents.nouns
    templates = [entry.value] if entry.kind == TEMPLATE else contents.templates
    if entry.kind == STANDALONE:
        table = standalone_table([entry.value], contents.templates)
        for text, plural, template in zip(*(table[name].to_pylist() for name in _COLUMNS), strict=True):
            if text not in known:
                yield _Sentence(text, entry.name, plural, template)
        return
    if entry.kind == SEAT_TEMPLATE or (entry.kind == TEMPLATE and entry.value not in contents.templates):
        return
    for descriptor, noun, texts, in_templates in _rows(descriptors, nouns, templates, contents.left_out_nouns):
        beside = noun.noun if entry.kind == TERM else descriptor.term
        for text, template in compress(zip(texts, templates, strict=True), in_templates):
            if text not in known:
                yield _Sentence(text, beside, template.plural, template.template)


def _choose(sentences: Sequence[_Sentence], seed: int) -> list[_Sentence]:
    """Chooses sentences at random: singular and plural alternately, with as many nouns and templates as possible.

    The order is that of a hash, so that it does not depend on the rest of the vocabulary.
    """
    ordered = sorted(sentences, key=lambda sentence: hashlib.sha256(f"{seed}\x1f{sentence.text}".encode()).digest())
    by_number = [[sentence for sentence in ordered if sentence.plural is plural] for plural in (False, True)]
    used: Counter[tuple[str, str]] = Counter()
    chosen: list[_Sentence] = []
    for turn in range(min(SENTENCES_TO_READ, len(ordered))):
        among = by_number[turn % 2] or by_number[1 - turn % 2]
        best = min(among, key=lambda sentence: (used["beside", sentence.beside], used["template", sentence.template]))
        among.remove(best)
        used["beside", best.beside] += 1
        used["template", best.template] += 1
        chosen.append(best)
    return chosen
