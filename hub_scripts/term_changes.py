import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.prompt_table import prompt_table
from hb_dataset.standalone_phrases import standalone_table
from hub_scripts.near_terms import near_index, near_places, one_edit_apart, same_but_for_spelling
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
# The keys whose values appear in sentences.
_WORDS = frozenset(("axis", "term", "noun", "noun_phrase", "template", "plural", "article", "gender"))
UNNAMED_KINDS = (ORDER, LEFT_OUT, LEFT_OUT_NOUN)


class Changed(NamedTuple):
    before: Entry
    after: Entry
    differences: tuple[tuple[str, Any, Any], ...]


class Changes(NamedTuple):
    """The added, removed and changed entries. Entries without a name are only counted by kind."""

    added: tuple[Entry, ...]
    removed: tuple[Entry, ...]
    changed: tuple[Changed, ...]
    num_unnamed_added: Counter[str]
    num_unnamed_removed: Counter[str]

    @property
    def touched(self) -> tuple[Entry, ...]:
        return (*self.added, *(change.after for change in self.changed))


class Counts(NamedTuple):
    rows: int
    texts: int


class NewSentences(NamedTuple):
    entry: Entry
    total: int
    chosen: tuple[str, ...]


class Effect(NamedTuple):
    """The numbers of prompts before and after a change, and new sentences to read aloud.

    `num_not_shown` counts the entries with new sentences that are not in `to_read`.
    """

    before: Counts
    after: Counts
    to_read: tuple[NewSentences, ...]
    num_not_shown: int


def compare(before: Contents, after: Contents) -> Changes:
    """Compares two vocabularies entry by entry.

    A term that moved to another axis, and an entry with another spelling, count as changed. If some entries in a file
    cannot be read, no entry of this file is reported as removed.
    """
    old = {_key(entry): entry for entry in before.of_kind(*NAMED_KINDS)}
    new = {_key(entry): entry for entry in after.of_kind(*NAMED_KINDS)}
    pairs = [(old[key], entry) for key, entry in new.items() if key in old]
    removed = [entry for key, entry in old.items() if key not in new]
    added, moved = [], set()
    index = near_index(entry.name for entry in removed)
    for entry in (entry for key, entry in new.items() if key not in old):
        formers = (place for place in near_places(entry.name, index) if place not in moved)
        former = next((place for place in formers if _same_entry(removed[place], entry)), None)
        if former is None:
            added.append(entry)
        else:
            moved.add(former)
            pairs.append((removed[former], entry))
    removed = [entry for place, entry in enumerate(removed) if place not in moved]
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
        num_unnamed_added=Counter(kind for kind, _ in (unnamed_after - unnamed_before).elements()),
        num_unnamed_removed=Counter(kind for kind, _ in (unnamed_before - unnamed_after).elements()),
    )


def effect(before: Contents, after: Contents, changes: Changes, *, seed: int, most: int) -> Effect:
    """Counts the prompts before and after a change, and selects new sentences to read aloud.

    Sentences are selected for at most `most` entries. All other entries with new sentences are only counted.
    """
    rows_before, rows_after = _prompts(before), _prompts(after)
    known = rows_before["text"].unique()
    new_texts = _texts_by_name(rows_after.filter(pc.invert(pc.is_in(rows_after["text"], known))))
    to_read: list[NewSentences] = []
    num_not_shown = 0
    same_sentences = {change.after for change in changes.changed if not _rewords(change)}
    for entry in (entry for entry in changes.touched if entry not in same_sentences):
        if entry.kind == STANDALONE:
            texts = standalone_table([entry.value], after.templates)["text"]
            new = texts.filter(pc.invert(pc.is_in(texts, known))).unique()
        else:
            new = new_texts.get((entry.kind, entry.axis, entry.name), ())
        if len(new) and len(to_read) < most:
            # A hash makes the selection independent of the rest of the vocabulary.
            chosen = sorted(map(str, new), key=lambda text: hashlib.sha256(f"{seed}\x1f{text}".encode()).digest())
            to_read.append(NewSentences(entry, len(new), tuple(chosen[:SENTENCES_TO_READ])))
        elif len(new):
            num_not_shown += 1
    return Effect(
        before=Counts(len(rows_before), len(known)),
        after=Counts(len(rows_after), len(rows_after["text"].unique())),
        to_read=tuple(to_read),
        num_not_shown=num_not_shown,
    )


def _key(entry: Entry) -> tuple[str | None, ...]:
    # A phrase may have two entries with different plurals ("Rastas", "Rastafari").
    plural = entry.value.plural if entry.kind == STANDALONE else None
    return entry.kind, entry.axis, entry.name, plural


def _same_entry(old: Entry, new: Entry) -> bool:
    if old.kind != new.kind:
        return False
    if old.axis != new.axis:
        return old.name == new.name
    return same_but_for_spelling(old.name, new.name) or one_edit_apart(old.name, new.name)


def _differences(before: Entry, after: Entry) -> tuple[tuple[str, Any, Any], ...]:
    old, new = before.fields, after.fields
    return tuple((name, old[name], value) for name, value in new.items() if value != old[name])


def _rewords(change: Changed) -> bool:
    """Returns whether a change may create new sentences. A new note, source or first `bucket` creates none."""
    return any(
        name in _WORDS or (name == "bucket" and (change.after.kind == TERM or old is not None))
        for name, old, _ in change.differences
    )


def _prompts(contents: Contents) -> pa.Table:
    return prompt_table(contents.descriptors, contents.nouns, contents.templates, contents.left_out_nouns)


def _texts_by_name(prompts: pa.Table) -> dict[tuple[str | None, ...], Sequence[Any]]:
    """Returns the distinct sentences of each entry, by its kind, axis and name."""
    texts: dict[tuple[str | None, ...], Sequence[Any]] = {}
    for kind, columns in ((TERM, ["axis", "descriptor"]), (NOUN, ["noun"]), (TEMPLATE, ["template"])):
        groups = prompts.group_by(columns).aggregate([("text", "distinct")])
        axes = groups["axis"].to_pylist() if kind == TERM else [None] * len(groups)
        names = groups[columns[-1]].to_pylist()
        for axis, name, of_entry in zip(axes, names, groups["text_distinct"], strict=True):
            texts[kind, axis, name] = of_entry
    return texts
