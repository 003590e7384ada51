"""Checks added and changed entries for missing sources and for possible mistakes.

A missing source is a fault, which must be corrected. A possible mistake may be intended, and its message states what to
do in that case.
"""

import re
from collections.abc import Iterator, Sequence

from hb_dataset.matching import squeezed
from hb_dataset.noun_phrases import noun_phrase
from hb_dataset.vocabulary_entries import Descriptor, PersonNoun
from hb_dataset.vocabulary_faults import MAX_WORDS_BEFORE
from hb_dataset.written_text import other_letters
from hb_dataset.yaml_lines import Fault
from hub_scripts.terms.entries import (
    NOUN,
    STANDALONE,
    TEMPLATE,
    TERM,
    Changed,
    Changes,
    Entry,
    look_alike,
    one_edit_apart,
    same_but_for_spelling,
)

# A change to one of these keys may create a duplicate or wrong English.
_NAMING = frozenset(("term", "noun", "axis", "preference"))
WORDING = frozenset(("term", "noun", "noun_phrase", "template", "bucket", "plural", "article"))
_AFTER_A_NOUN = frozenset(("who", "who's", "with", "without", "in", "on", "of", "from", "at", "by", "for", "under"))
_PARTS_BEFORE = 4  # the maximum number of words between spaces or hyphens, as in "seventy-five-year-old"
# Words whose first letter may be misleading for the article: "European", "unique", "80-year-old", "FTM".
_MISLEADING = re.compile(r"(?i:eu|u[^n]|uni|one|ho[nu]|heir|\d)|[A-Z][A-Z0-9.-]")


def source_faults(before: Sequence[Entry], changes: Changes) -> list[Fault]:
    """Reports new entries without their own source. A file's source applies only to its older entries."""
    faults, old_files = [], {entry.file for entry in before}
    for entry in changes.added:
        of_file = "its file has none either" if entry.file_source is None else "the file's source is for older entries"
        source = entry.value.source
        if source is None or (entry.file in old_files and source == entry.file_source):
            message = (
                f"{entry.kind} {entry.name!r} is new and has no `source` ({of_file}); write `source:` and name a "
                "text, a person or a community that uses it"
            )
            faults.append(Fault(entry.file, entry.line, message))
    return faults


def hints(entries: Sequence[Entry], changes: Changes) -> set[Fault]:
    """Returns the possible mistakes in added and changed entries."""
    nouns = [entry.value for entry in entries if entry.kind == NOUN]
    templates = [entry.value for entry in entries if entry.kind == TEMPLATE and entry.name.count("{") == 1]
    openings = [_spoken(template.parts[0]) for template in templates]
    messages = [(change.after, message) for change in changes.changed for message in _history(change)]
    for entry in (*changes.added, *_changed_in(changes, _NAMING)):
        if entry.kind in (TERM, NOUN):
            messages += [(entry, message) for message in _near(entry, [o for o in entries if o.kind == entry.kind])]
    for entry in (*changes.added, *_changed_in(changes, WORDING)):
        messages += [(entry, message) for message in _wording(entry, nouns, openings)]
    for entry in changes.added:
        if entry.kind in (TERM, STANDALONE) and entry.value.preference is not None and entry.value.note is None:
            message = (
                f"term {entry.name!r} is labelled {entry.value.preference} and has no `note`; add a note that states "
                "who was asked and when, or omit `preference`, which records the answers of the people whom the "
                "term describes"
            )
            messages.append((entry, message))
    return {Fault(entry.file, entry.line, message) for entry, message in messages}


def _changed_in(changes: Changes, keys: frozenset[str]) -> list[Entry]:
    return [change.after for change in changes.changed if keys & change.differences.keys()]


def _near(entry: Entry, others: Sequence[Entry]) -> Iterator[str]:
    name, is_term = entry.name, entry.kind == TERM
    for other in others:
        if (other.line, other.file) == (entry.line, entry.file):
            continue
        other_line = f"{other.file}:{other.line}"
        same_words = name.casefold() == other.name.casefold()
        same = same_words or same_but_for_spelling(name, other.name)
        if same_words and entry.axis != other.axis:
            yield (
                f"{entry.kind} {name!r} is also in {other_line}; if it has two meanings (like 'queer', a gender and "
                "an orientation), state in `note` which meaning this entry has, otherwise remove one of the entries"
            )
        elif same and not same_words:
            yield (
                f"{entry.kind} {name!r} differs from {other.name!r} ({other_line}) only in case, hyphens, accents or a "
                "plural s; keep one of them, or state in `note` that people write both"
            )
        elif not same and one_edit_apart(name, other.name):
            yield (
                f"{entry.kind} {name!r} is one letter away from {other.name!r} ({other_line}); if this is a typing "
                "error, correct it, otherwise leave both"
            )
        elif not same and look_alike(name, other.name):
            yield (
                f"{entry.kind} {name!r} has characters that look like those in {other.name!r} ({other_line}); write "
                "the letters that people write, or leave both if they are different words"
            )
        if same and is_term and entry.value.preference != other.value.preference:
            yield (
                f"term {name!r} is {_labelled(entry)} here, and {other.name!r} ({other_line}) is {_labelled(other)}; "
                "if both labels are intended, state in `note` who said what, otherwise use the same label"
            )


def _wording(entry: Entry, nouns: Sequence[PersonNoun], openings: Sequence[Sequence[str]]) -> Iterator[str]:
    value = entry.value
    letters = other_letters(" ".join([entry.name, str(entry.fields.get("plural") or "")]))
    if letters:
        yield (
            f"{entry.kind} {entry.name!r} has letters other than a to z: {', '.join(letters)}; check that people "
            "write these letters, and that none is a look-alike"
        )
    if entry.kind == TERM and entry.name.casefold() in {name.casefold() for n in nouns for name in (n.noun, n.plural)}:
        yield (
            f"term {entry.name!r} is also a noun in nouns.yaml; remove the term, unless people say it before other "
            'nouns, as in "an enby friend"'
        )
    if digits := re.search(r"[^\W\d_]\d+[^\W\d_]", entry.name):
        yield (
            f"{entry.kind} {entry.name!r} has a digit between letters ({digits[0]}); if it stands for a letter, write "
            "the letter"
        )
    words = _spoken(entry.name)
    if entry.kind in (TERM, NOUN) and any(
        opening and words[: len(opening)] == opening[: len(words)] for opening in openings
    ):
        yield (
            f"{entry.kind} {entry.name!r} begins like a template; write only words for people, which the template's "
            "sentence contains in place of its slot"
        )
    if entry.kind == TERM and _like_a_sentence(value):
        yield (
            f"term {value.term!r} reads like a sentence and not like words {value.placement} a noun; write it as "
            'people say it beside "person", or leave it if it is correct'
        )
    if entry.kind == NOUN or (entry.kind == TERM and value.placement == "before" and nouns):
        written = noun_phrase(None, value) if entry.kind == NOUN else noun_phrase(value, nouns[0])
        if value.article is None and _MISLEADING.match(entry.name):
            yield (
                f"{entry.kind} {entry.name!r} would be written {written!r}; if the article is wrong, add `article: a` "
                "or `article: an`"
            )
    if entry.kind == TERM and value.plural is not None and re.search(r"\ban? ", value.plural):
        yield (
            f"term {value.term!r} has the `plural` {value.plural!r}, which may describe one person; write the form "
            'after a plural noun ("with lisps"), or leave it if several people can share what it describes'
        )


def _spoken(text: str) -> list[str]:
    return re.findall(r"[\w']+", squeezed(text))


def _like_a_sentence(term: Descriptor) -> bool:
    words = term.term.split()
    if term.placement == "after":
        return words[0] not in _AFTER_A_NOUN and not words[0].endswith(("ing", "ed"))
    begins_one = len(words) > 1 and words[0][0].isupper() and words[1][0].islower()
    return begins_one or len(words) >= MAX_WORDS_BEFORE or len(re.split("[ -]", term.term)) > _PARTS_BEFORE


def _history(change: Changed) -> Iterator[str]:
    """Reports notes that have lost text, and new labels without a new note, so that no recorded view is lost."""
    before, after = change.before, change.after
    old_note, note = before.value.note, after.value.note
    if old_note is not None and old_note.strip() not in (note or ""):
        yield (
            f"the `note` of {after.kind} {after.name!r} has lost text; restore other people's text and add to it, "
            "unless it was factually wrong"
        )
    if after.kind == TERM and before.value.preference != after.value.preference and note == old_note:
        yield (
            f"term {after.name!r} was {_labelled(before)} and is now {_labelled(after)}, but its `note` is "
            "unchanged; state in the `note` who said what, and keep the former view"
        )


def _labelled(entry: Entry) -> str:
    label = entry.value.preference if entry.kind == TERM else None
    return f"labelled {label}" if label else "without a label"
