"""The report of a check of terms, as text for a terminal and as Markdown for a comment on a pull request.

Anyone can write into the vocabulary. In text, its invisible characters are shown. In Markdown it is only written as
code, where GitHub does not notify people and makes no links, pictures or HTML of it.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hb_dataset.markdown_table import backticks, code_span, markdown_table, table_row
from hb_dataset.written_text import is_invisible
from hb_dataset.yaml_lines import Fault
from hub_scripts.term_changes import NAMED_KINDS, Changed, Changes, Effect, NewSentences
from hub_scripts.term_entries import LEFT_OUT_NOUN, NOUN, TEMPLATE, TERM, Contents, Entry
from hub_scripts.term_history import Removed, VersionHistory

# GitHub allows 65,536 characters in a comment; the rest is for what the workflow adds to the report.
MARKDOWN_BYTES = 60_000
_CLIPPED_TO = 400  # characters of one text in Markdown, and of one message
_MORE_BYTES = 120  # for the line with the number of items of a section that are left out

ABOUT_FAULTS = "A fault has to be corrected before the terms can be added."
ABOUT_LOOKING = "What follows may be intended. If it is, leave it, and say why in `note` or in the pull request."
ABOUT_NOTHING_READ = "Nothing of it was read, so nothing is compared or counted."


class Report(NamedTuple):
    """The result of a check.

    Attributes:
        folder: The vocabulary folder.
        against: The name of what it was compared with.
        faults: What has to be corrected.
        to_look_at: What may be a mistake.
        before: The vocabulary that it was compared with.
        after: The vocabulary.
        changes: The change, entry by entry.
        effect: The effect of the change on the sentences.
        seed: The seed by which the sentences to read were chosen.
        history: What frozen versions removed and renamed, newest first, if it was compared with the newest.
    """

    folder: Path
    against: str
    faults: Sequence[Fault]
    to_look_at: Sequence[Fault]
    before: Contents
    after: Contents
    changes: Changes
    effect: Effect
    seed: int
    history: Sequence[VersionHistory] = ()


class _Section(NamedTuple):
    """A part of the Markdown. Items for which there is no room are left out, and counted."""

    opening: str
    items: list[str]
    closing: str
    what: str


def as_text(report: Report) -> str:
    """The report for a terminal."""
    folder = report.folder
    lines = [_headline(report), ""]
    for title, about, faults in (
        ("Faults", ABOUT_FAULTS, report.faults),
        ("To look at", ABOUT_LOOKING, report.to_look_at),
    ):
        if faults:
            lines += [f"{title}: {about}"]
            lines += [
                f"  {_path(folder, fault.file)}:{fault.line}: {_clipped(visible(fault.message))}" for fault in faults
            ] + [""]
    lines += [f"What the change does, compared with {visible(report.against)}:"]
    lines += [f"  {remark}" for remark in _remarks(report, visible)]
    lines += [f"  {name}: {before:,} → {after:,}{gone}" for name, before, after, gone in _counts(report)]
    lines += [f"  {line}" for line in _unnamed(report.changes)]
    for title, entries in (("Added", report.changes.added), ("Removed", report.changes.removed)):
        lines += _listed(title, [f"{visible(_file_line(entry))} {_described(entry, visible)}" for entry in entries])
    changed = report.changes.changed
    lines += _listed(
        "Changed", [f"{visible(_file_line(change.after))} {_change(change, visible)}" for change in changed]
    )
    for new in report.effect.to_read:
        lines += ["", f"{_sentences_title(new, visible)}:", *(f"  {visible(sentence)}" for sentence in new.chosen)]
    if report.effect.to_read:
        lines += ["", _about_reading(report), *_not_shown(report)]
    for history in report.history:
        lines += _listed(_removed_title(history), [_gone(removed, visible) for removed in history.removed])
        lines += _listed(_renamed_title(history), [_change(change, visible) for change in history.renamed])
    return "\n".join(lines) + "\n"


def as_markdown(report: Report, *, limit: int = MARKDOWN_BYTES) -> str:
    """The report for a comment.

    Args:
        report: The result of the check.
        limit: The size in bytes; items that do not fit are left out, and their number is reported.
    """
    sections = [
        _Section(f"## {_headline(report)}\n\n", [], "", ""),
        _fault_section("Faults", ABOUT_FAULTS, report.faults, "faults"),
        _fault_section("To look at", ABOUT_LOOKING, report.to_look_at, "things to look at"),
        _Section(_what_it_does(report), [], "", ""),
        _table("Added", ("added", "", "new sentences"), [_added_row(entry, report) for entry in report.changes.added]),
        _table("Removed", ("removed", ""), [(code(entry.name), _where(entry)) for entry in report.changes.removed]),
        _table("Changed", ("changed", ""), [_changed_row(change) for change in report.changes.changed]),
        _Section(
            f"### To read aloud\n\n{_about_reading(report)}\n\n" if report.effect.to_read else "",
            [_sentences(new) for new in report.effect.to_read],
            "".join(f"{line}\n" for line in _not_shown(report)),
            "entries with sentences",
        ),
        *(section for history in report.history for section in _history_sections(history)),
    ]
    return _fitted([section for section in sections if section.opening], limit)


def visible(text: str) -> str:
    """A text on one line, with every control, invisible or line-breaking character shown by its number."""
    return "".join(
        f"[U+{ord(character):04X}]" if character != " " and is_invisible(character) else character for character in text
    )


def code(text: str) -> str:
    """A text as Markdown code that nothing in it can end, also in a cell of a table."""
    shown = _clipped(visible(text).replace("|", "[U+007C]"))
    if not shown.strip():
        return "(nothing)"
    return code_span(shown)


def _clipped(text: str) -> str:
    return text if len(text) <= _CLIPPED_TO else f"{text[:_CLIPPED_TO]}… ({len(text) - _CLIPPED_TO:,} more characters)"


def _headline(report: Report) -> str:
    """The number of faults, and a reminder that people judge the words: no fault is not an approval."""
    faults, things = _number(len(report.faults), "fault"), _number(len(report.to_look_at), "thing")
    return f"Form: {faults}, {things} to look at. Words: a person decides"


def _remarks(report: Report, write: Callable[[str], str]) -> list[str]:
    remarks = []
    if report.before.faults:
        remarks.append(
            f"The vocabulary that it is compared with has {_number(len(report.before.faults), 'fault')} "
            "of its own; entries of it that cannot be read count as added."
        )
    if not report.after.entries:
        remarks.append(ABOUT_NOTHING_READ)
    elif report.after.unread:
        remarks.append(
            f"Not every entry of {', '.join(map(write, sorted(report.after.unread)))} could be read. "
            "Those that could not are in no count and no sentence below, and entries that are missing in "
            "these files are not reported as removed."
        )
    return remarks


def _counts(report: Report) -> list[tuple[str, int, int, str]]:
    """The rows of the table of counts: name, before, after, and how many were added, removed and changed."""
    changes, effect = report.changes, report.effect
    counts: list[tuple[str, int, int, str]] = []
    if not report.after.entries:
        return counts
    read = ", as far as read" if report.after.unread else ""
    for kind in NAMED_KINDS:
        old, new = (len(contents.of_kind(kind)) for contents in (report.before, report.after))
        numbers = [
            (sum(entry.kind == kind for entry in changes.added), "added"),
            (sum(entry.kind == kind for entry in changes.removed), "removed"),
            (sum(change.after.kind == kind for change in changes.changed), "changed"),
        ]
        difference = ", ".join(f"{number:,} {what}" for number, what in numbers if number)
        if difference or kind in (TERM, NOUN, TEMPLATE):
            counts.append((f"{kind}s{read}", old, new, f" ({difference})" if difference else ""))
    for name, old, new in (
        ("prompts of all terms", effect.before.rows, effect.after.rows),
        ("distinct sentences among them", effect.before.texts, effect.after.texts),
    ):
        counts.append((f"{name}{read}", old, new, f" ({new - old:+,})" if new != old else ""))
    return counts


def _unnamed(changes: Changes) -> list[str]:
    """The numbers of entries about which words go together, which have no name to compare them by."""
    lines = []
    for what, numbers in (("added", changes.num_unnamed_added), ("removed", changes.num_unnamed_removed)):
        for kind, number in numbers.items():
            about = "" if kind == LEFT_OUT_NOUN else "for intersections, "
            lines.append(f"{about}{kind}: {number:,} {what}")
    return lines


def _listed(title: str, lines: list[str]) -> list[str]:
    return ["", f"{title}:", *(f"  {line}" for line in lines)] if lines else []


def _where(entry: Entry) -> str:
    """Kind, axis, bucket, gender and label; what comes from the vocabulary is in code."""
    return f"{entry.kind}{''.join(f', {name} {code(str(value))}' for name, value in _traits(entry))}"


def _described(entry: Entry, write: Callable[[str], str]) -> str:
    traits = "".join(f", {name} {write(str(value))}" for name, value in _traits(entry))
    return f"{entry.kind} {write(repr(entry.name))}{traits}"


def _traits(entry: Entry) -> list[tuple[str, Any]]:
    named = ("axis", "bucket", "gender", "preference", "article", "plural")
    return [(name, entry.fields[name]) for name in named if entry.fields.get(name)]


def _change(change: Changed, write: Callable[[str], str]) -> str:
    what = "; ".join(f"{name} {_value(old, write)} → {_value(new, write)}" for name, old, new in change.differences)
    return f"{change.after.kind} {write(repr(change.before.name))}: {what}"


def _value(value: Any, write: Callable[[str], str]) -> str:
    return "(none)" if value is None else write(str(value))


def _file_line(entry: Entry) -> str:
    return f"{entry.file}:{entry.line}"


def _path(folder: Path, file: str) -> str:
    return visible(os.path.normpath(folder / file))


def _sentences_title(new: NewSentences, write: Callable[[str], str]) -> str:
    entry = new.entry
    number = f"{len(new.chosen)} of its {_number(new.total, 'new sentence')}"
    return f"{entry.kind} {write(entry.name)}{f' ({write(entry.axis)})' if entry.axis else ''}, {number}"


def _removed_title(history: VersionHistory) -> str:
    return f"Removed in {history.version}, compared with {history.before}"


def _renamed_title(history: VersionHistory) -> str:
    return f"Renamed or moved in {history.version}, compared with {history.before}"


def _gone(removed: Removed, write: Callable[[str], str]) -> str:
    described = _described(removed.entry, write)
    return f"{described} (still there: {_names(removed.near, write)})" if removed.near else described


def _names(entries: Iterable[Entry], write: Callable[[str], str]) -> str:
    return ", ".join(f"{write(entry.name)} in {write(str(entry.axis))}" for entry in entries)


def _history_sections(history: VersionHistory) -> list[_Section]:
    removed = [(code(gone.entry.name), _where(gone.entry), _names(gone.near, code)) for gone in history.removed]
    return [
        _table(_removed_title(history), ("removed", "", "still there"), removed),
        _table(_renamed_title(history), ("changed", ""), [_changed_row(change) for change in history.renamed]),
    ]


def _about_reading(report: Report) -> str:
    return (
        "Read them aloud: does each sound like English that people speak? Kind and hateful sentences "
        f"are there on purpose. For other sentences, use --seed {report.seed + 1}."
    )


def _not_shown(report: Report) -> list[str]:
    number = report.effect.num_not_shown
    if not number:
        return []
    what = _number(number, "more entry", "more entries")
    return [
        f"{what} added or changed with new sentences, of which none are shown here; to show all of them, use "
        f"--show {number + len(report.effect.to_read)}"
    ]


def _number(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def _fault_section(title: str, about: str, faults: Iterable[Fault], what: str) -> _Section:
    items = [f"- {code(f'{fault.file}:{fault.line}')}: {code(fault.message)}\n" for fault in faults]
    return _Section(f"### {title}\n\n{about}\n\n" if items else "", items, "\n", what)


def _what_it_does(report: Report) -> str:
    remarks = "".join(f"{remark}\n\n" for remark in _remarks(report, code))
    rows = [(name, f"{old:,}", f"{new:,}", gone.strip(" ()")) for name, old, new, gone in _counts(report)]
    table = f"{markdown_table(['', 'before', 'after', ''], rows, numbers=(1, 2))}\n" if rows else ""
    unnamed = "".join(f"- {line}\n" for line in _unnamed(report.changes))
    return f"### What the change does, compared with {code(report.against)}\n\n{remarks}{table}\n{unnamed}\n"


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> _Section:
    opening = f"<details><summary>{title}: {len(rows):,}</summary>\n\n{markdown_table(header, [])}\n"
    lines = [f"{table_row(row)}\n" for row in rows]
    return _Section(opening if rows else "", lines, "\n</details>\n\n", title.lower())


def _added_row(entry: Entry, report: Report) -> tuple[str, ...]:
    return code(entry.name), _where(entry), f"{report.effect.num_new.get(entry, 0):,}"


def _changed_row(change: Changed) -> tuple[str, ...]:
    what = "; ".join(f"`{name}` {_value(old, code)} → {_value(new, code)}" for name, old, new in change.differences)
    return code(change.before.name), what


def _sentences(new: NewSentences) -> str:
    lines = [visible(sentence) for sentence in new.chosen]
    fence = backticks("\n".join(lines))
    block = "\n".join([f"{fence}text", *lines, fence])
    return f"{_sentences_title(new, code)}\n\n{block}\n\n"


def _fitted(sections: list[_Section], limit: int) -> str:
    """The sections one after the other, each with as many of its items as there is room for."""
    room = limit - sum(_size(section.opening + section.closing) + _MORE_BYTES for section in sections)
    parts = []
    for section in sections:
        shown = []
        for item in section.items:
            if _size(item) > room:
                break
            room -= _size(item)
            shown.append(item)
        left_out = len(section.items) - len(shown)
        # An empty line would be needed after a table, and does no harm after anything else.
        more = (
            f"\n{left_out:,} more {section.what} left out here; the check on your own machine shows all.\n"
            if left_out
            else ""
        )
        parts.append(f"{section.opening}{''.join(shown)}{more}{section.closing}")
    return "".join(parts)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
