"""Checks added and changed entries for missing sources and for possible mistakes.

A missing source is a fault, which must be corrected. A possible mistake may be intended, and its message states what to
do in that case.
"""

from collections.abc import Iterator, Sequence

from hb_dataset.noun_phrases import article_by_sound, first_letter_article, noun_phrase
from hb_dataset.vocabulary_entries import PersonNoun
from hb_dataset.written_text import other_letters
from hb_dataset.yaml_lines import Fault
from hub_scripts.terms.entries import NOUN, STANDALONE, TERM, Changed, Changes, Entry, resemble

# A change to one of these keys may create a duplicate or wrong English.
_NAMING = frozenset(("term", "noun", "axis", "preference"))
WORDING = frozenset(("term", "noun", "noun_phrase", "template", "bucket", "plural", "article"))


def source_faults(before: Sequence[Entry], changes: Changes) -> list[Fault]:
    """Reports new entries without their own source. A file's source applies only to its older entries."""
    faults, old_files = [], {entry.file for entry in before}
    for entry in changes.added:
        source = entry.value.source
        if source is None or (entry.file in old_files and source == entry.file_source):
            message = (
                f"{entry.kind} {entry.name!r} is new and has no `source`; write `source:` and name a text, a person or "
                "a community that uses it"
            )
            faults.append(Fault(entry.file, entry.line, message))
    return faults


def hints(entries: Sequence[Entry], changes: Changes) -> set[Fault]:
    """Returns the possible mistakes in added and changed entries."""
    nouns = [entry.value for entry in entries if entry.kind == NOUN]
    messages = [(change.after, message) for change in changes.changed for message in _history(change)]
    for entry in (*changes.added, *_changed_in(changes, _NAMING)):
        messages += [(entry, message) for message in _near(entry, entries)]
    for entry in (*changes.added, *_changed_in(changes, WORDING)):
        messages += [(entry, message) for message in _wording(entry, nouns)]
    for entry in changes.added:
        if entry.kind in (TERM, STANDALONE) and entry.value.preference is not None and entry.value.note is None:
            message = (
                f"term {entry.name!r} is labelled {entry.value.preference} and has no `note`; add a note that states "
                "who was asked and when, or omit `preference`"
            )
            messages.append((entry, message))
    return {Fault(entry.file, entry.line, message) for entry, message in messages}


def _changed_in(changes: Changes, keys: frozenset[str]) -> list[Entry]:
    return [change.after for change in changes.changed if keys & change.differences.keys()]


def _near(entry: Entry, others: Sequence[Entry]) -> Iterator[str]:
    for other in others:
        if entry.kind not in (TERM, NOUN) or other.kind not in (TERM, NOUN) or other[2:4] == entry[2:4]:
            continue
        names = [other.name, other.value.plural] if other.kind == NOUN else [other.name]
        other_is = f"the {other.kind} {other.name!r} ({other.file}:{other.line}, {_labelled(other)})"
        if entry.name.casefold() in [name.casefold() for name in names]:
            yield (
                f"{entry.kind} {entry.name!r} ({_labelled(entry)}) has the same words as {other_is}; if it has two "
                "meanings (like 'queer', a gender and an orientation), state them in `note`, otherwise remove one"
            )
        elif entry.kind == other.kind and resemble(entry.name, other.name):
            yield (
                f"{entry.kind} {entry.name!r} resembles {other_is}; correct it if it is a typing error, keep only one "
                "if they are two spellings, or leave both if they are different words"
            )


def _wording(entry: Entry, nouns: Sequence[PersonNoun]) -> Iterator[str]:
    value = entry.value
    if letters := other_letters(" ".join([entry.name, str(entry.fields.get("plural") or "")])):
        yield (
            f"{entry.kind} {entry.name!r} has letters other than a to z: {', '.join(letters)}; check that people "
            "write these letters, and that none is a look-alike"
        )
    is_before = entry.kind == NOUN or (entry.kind == TERM and value.placement == "before" and nouns)
    if is_before and value.article is None and article_by_sound(entry.name) != first_letter_article(entry.name):
        written = noun_phrase(None, value) if entry.kind == NOUN else noun_phrase(value, nouns[0])
        yield (
            f"{entry.kind} {entry.name!r} would be written {written!r}; if the article is wrong, add `article: a` or "
            "`article: an`"
        )


def _history(change: Changed) -> Iterator[str]:
    """Reports notes that have lost text, and new labels without a new note, so that no recorded view is lost."""
    before, after = change.before, change.after
    old_note, note = before.value.note, after.value.note
    if old_note is not None and old_note.strip() not in (note or ""):
        yield (
            f"the `note` of {after.kind} {after.name!r} has lost text; restore other people's text and add to it, "
            "unless it was factually wrong"
        )
    if _labelled(before) != _labelled(after) and note == old_note:
        yield (
            f"{after.kind} {after.name!r} was {_labelled(before)} and is now {_labelled(after)}, but its `note` is "
            "unchanged; state in the `note` who said what, and keep the former view"
        )


def _labelled(entry: Entry) -> str:
    label = entry.value.preference if entry.kind in (TERM, STANDALONE) else None
    return f"labelled {label}" if label else "without a label"
