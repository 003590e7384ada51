"""Checks of changed entries beyond `read_vocabulary`: faults, and things to look at.

A fault needs a correction. A thing to look at may be intended; its message states what to do then.
"""

import re
from collections.abc import Iterator, Sequence

from hb_dataset.noun_phrases import noun_phrase
from hb_dataset.vocabulary_entries import Descriptor, PersonNoun
from hb_dataset.vocabulary_faults import MAX_WORDS_BEFORE
from hb_dataset.written_text import other_letters
from hb_dataset.yaml_lines import Fault
from hub_scripts.near_terms import one_edit_apart, same_but_for_spelling, same_in_other_words
from hub_scripts.term_changes import Changed, Changes
from hub_scripts.term_english import sound_articles, verb_after_plural
from hub_scripts.term_entries import NOUN, STANDALONE, TERM, Contents, Entry

# The keys whose change may make a duplicate, or wrong English.
_NAMING = frozenset(("term", "noun", "axis", "preference"))
_WORDING = frozenset(("term", "noun", "noun_phrase", "template", "bucket", "plural", "article"))
_AFTER_A_NOUN = frozenset(("who", "who's", "with", "without", "in", "on", "of", "from", "at", "by", "for", "under"))
_PARTS_BEFORE = 4  # between spaces and hyphens: "seventy-five-year-old"
_WHO_VERB = re.compile(r"who(?:'s| (\w+(?:'\w+)?))(?= |$)")


def source_faults(before: Contents, changes: Changes) -> list[Fault]:
    """The faults of new entries without their own source: their file's source belongs to older entries."""
    faults = []
    for entry in changes.added:
        of_file = "its file has none either" if entry.file_source is None else "the file's source is for older entries"
        inherited = entry.value.source is None or (
            entry.file in before.files and entry.value.source == entry.file_source
        )
        if inherited:
            message = (
                f"{entry.kind} {entry.name!r} is new and has no `source` ({of_file}); write `source:` and a text "
                f"that uses it, or a person or community who does"
            )
            faults.append(Fault(entry.file, entry.line, message))
    return faults


def things_to_look_at(before: Contents, after: Contents, changes: Changes) -> list[Fault]:
    """Possible mistakes in entries that were added or changed; each may be intended."""
    things = [*_file_sources(before, after)]
    for entry in (*changes.added, *_changed_in(changes, _NAMING)):
        things += [Fault(entry.file, entry.line, message) for message in _near(entry, after)]
    for entry in (*changes.added, *_changed_in(changes, _WORDING)):
        things += [Fault(entry.file, entry.line, message) for message in _wording(entry, after.nouns)]
    for entry in changes.added:
        if entry.kind in (TERM, STANDALONE) and entry.value.preference is not None and entry.value.note is None:
            message = (
                f"term {entry.name!r} is labelled {entry.value.preference} and has no `note`; write there which of "
                f"the named people were asked and when, or leave `preference` out, which records their answers and "
                f"not our judgement"
            )
            things.append(Fault(entry.file, entry.line, message))
    for change in changes.changed:
        things += [Fault(change.after.file, change.after.line, message) for message in _history(change)]
    return sorted(set(things))


def _changed_in(changes: Changes, keys: frozenset[str]) -> list[Entry]:
    return [change.after for change in changes.changed if keys & {name for name, _, _ in change.differences}]


def _file_sources(before: Contents, after: Contents) -> Iterator[Fault]:
    old = {entry.file: entry.file_source for entry in before.entries}
    for file, source in {entry.file: entry.file_source for entry in after.entries}.items():
        if file in old and source != old[file]:
            message = (
                "the file's `source`, which applies to all terms without their own, was changed; restore it, and "
                "write a `source` for each new term. If the old one was wrong, keep the change, and say so in the "
                "pull request"
            )
            yield Fault(file, 1, message)


def _near(entry: Entry, after: Contents) -> Iterator[str]:
    """Messages about entries that this one may repeat, and about labels that differ from theirs."""
    if entry.kind not in (TERM, NOUN):
        return
    name, is_term = entry.name, entry.kind == TERM
    for other in after.of_kind(entry.kind):
        if (other.line, other.file) == (entry.line, entry.file):
            continue
        other_line = f"{other.file}:{other.line}"
        same_words = name.casefold() == other.name.casefold()
        same = same_words or same_but_for_spelling(name, other.name)
        if same_words and entry.axis != other.axis:
            yield (
                f"{entry.kind} {name!r} is in {other_line} too; if it has two meanings, name this one in `note` "
                f"(like 'queer', a gender and an orientation), else remove one"
            )
        elif same and not same_words:
            yield (
                f"{entry.kind} {name!r} differs from {other.name!r} ({other_line}) only in case, hyphens, accents or a "
                "plural s; keep one of them, or say in `note` that people write both"
            )
        elif not same and is_term and same_in_other_words(name, other.name):
            yield (
                f"term {name!r} means the same as {other.name!r} ({other_line}) in other words; if people use both, "
                f"say so in `note`, else keep one"
            )
        elif not same and one_edit_apart(name, other.name):
            yield (
                f"{entry.kind} {name!r} is one letter away from {other.name!r} ({other_line}); correct it if that is a "
                "typing error, else leave both"
            )
        if same and is_term and entry.value.preference != other.value.preference:
            yield (
                f"term {name!r} is {_labelled(entry)} here, and {other.name!r} ({other_line}) is {_labelled(other)}; "
                "if both labels are intended, state in `note` who said what, else use the same label"
            )


def _wording(entry: Entry, nouns: Sequence[PersonNoun]) -> Iterator[str]:
    """Messages about letters that may be wrong, and phrases, articles and plurals that do not sound like English."""
    value = entry.value
    letters = other_letters(" ".join([entry.name, entry.fields.get("plural") or ""]))
    if letters:
        yield (
            f"{entry.kind} {entry.name!r} has letters beyond a to z: {', '.join(letters)}; check that people write "
            f"these letters, and that none is a look-alike"
        )
    if entry.kind == TERM and entry.name.casefold() in {name.casefold() for n in nouns for name in (n.noun, n.plural)}:
        yield (
            f"term {entry.name!r} is also a noun of nouns.yaml; remove it, unless people say it before other nouns, "
            'as "an enby friend"'
        )
    if entry.kind == TERM and _like_a_sentence(value):
        yield (
            f"term {value.term!r} reads like a sentence and not like words {value.placement} a noun; "
            'write it as people say it beside "person", or leave it if that is right'
        )
    if entry.kind == STANDALONE:
        sounds = sound_articles(value.term)
        if value.noun_phrase.split(" ", 1)[0] not in sounds:
            yield (
                f"{entry.kind} {entry.name!r} takes {min(sounds)!r} by its sound; write it so, or say in "
                "`note` how it is pronounced"
            )
    if entry.kind == NOUN:
        yield from _article(entry, noun_phrase(None, value))
    elif entry.kind == TERM and value.placement == "before":
        for noun in nouns[:1]:
            yield from _article(entry, noun_phrase(value, noun))
    elif entry.kind == TERM:
        yield from _plural_phrase(value.term, value.plural)


def _like_a_sentence(term: Descriptor) -> bool:
    words = term.term.split()
    if term.placement == "after":
        return words[0] not in _AFTER_A_NOUN and not words[0].endswith(("ing", "ed"))
    begins_one = len(words) > 1 and words[0][0].isupper() and words[1][0].islower()
    return begins_one or len(words) >= MAX_WORDS_BEFORE or len(re.split("[ -]", term.term)) > _PARTS_BEFORE


def _article(entry: Entry, phrase: str) -> Iterator[str]:
    written, articles = phrase.split(" ", 1)[0], sound_articles(entry.name)
    if len(articles) == 1 and written not in articles:
        (sound,) = articles
        remedy = f"write `article: {sound}`"
        if entry.value.article is not None:
            remedy += ", or leave it and say in `note` how it is pronounced"
        yield f"{entry.kind} {entry.name!r} would be written {phrase!r}, and takes {sound!r} by its sound; {remedy}"
    elif len(articles) > 1 and entry.value.article is None and re.match("[A-Z]{2}", entry.name):
        yield (
            f"{entry.kind} {entry.name!r} would be written {phrase!r}; write `article: an` if it is read letter by "
            "letter, else `article: a` for a word"
        )


def _plural_phrase(term: str, plural: str | None) -> Iterator[str]:
    """Messages about a phrase after the noun: after a plural noun, its verb and its nouns are plural too."""
    if plural is None:
        return
    if verb := _WHO_VERB.match(plural):
        agreeing = "are" if verb[1] is None else verb_after_plural(verb[1])
        if agreeing != verb[1]:
            yield (
                f"term {term!r} has the `plural` {plural!r}, whose verb has the form for one person; write "
                f"{f'who {agreeing}{plural[verb.end() :]}'!r}"
            )
            return
    if re.search(r"\ban? ", plural) or plural == re.sub(r"\ban? ", "", term) != term:
        yield (
            f'term {term!r} has the `plural` {plural!r}, which is about one; after a plural noun write as in "with '
            'lisps", or leave it if several share one'
        )


def _history(change: Changed) -> Iterator[str]:
    """Messages about removed views: a new view must join the recorded views and not replace them."""
    before, after = change.before, change.after
    old_note, note = before.value.note, after.value.note
    if old_note is not None and old_note.strip() not in (note or ""):
        yield (
            f"{after.kind} {after.name!r} has lost the text of its `note`; restore other people's text and add to "
            f"it, unless it was factually wrong"
        )
    if after.kind == TERM and before.value.preference != after.value.preference and note == old_note:
        yield (
            f"term {after.name!r} was {_labelled(before)} and is {_labelled(after)} now, but its `note` "
            "is unchanged; write there who said what, and keep the former view"
        )


def _labelled(entry: Entry) -> str:
    label = entry.value.preference if entry.kind == TERM else None
    return f"labelled {label}" if label else "without a label"
