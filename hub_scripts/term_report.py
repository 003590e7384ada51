"""Writes the report on a check of terms as text.

Anyone can propose words, so the report shows invisible characters as numbers.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hb_dataset.written_text import is_invisible
from hb_dataset.yaml_lines import Fault
from hub_scripts.term_changes import NAMED_KINDS, Changed, Changes, Effect, NewSentences
from hub_scripts.term_entries import LEFT_OUT_NOUN, NOUN, TEMPLATE, TERM, Contents, Entry

_CLIPPED_TO = 400  # the maximum number of characters in a message


class Report(NamedTuple):
    folder: Path
    against: str
    faults: Sequence[Fault]
    to_look_at: Sequence[Fault]
    before: Contents
    after: Contents
    changes: Changes
    effect: Effect
    seed: int


def as_text(report: Report) -> str:
    faults, things = _number(len(report.faults), "fault"), _number(len(report.to_look_at), "thing")
    lines = [f"Form: {faults}, {things} to look at. People judge the words", ""]
    lines += _faults(report.folder, "Faults: correct these before the terms can be added.", report.faults)
    about = (
        "To look at: these things may be intended. If so, leave them, and explain why in `note` or in the pull request."
    )
    lines += _faults(report.folder, about, report.to_look_at)
    lines += [f"The effect of the change, compared with {visible(report.against)}:"]
    lines += [f"  {line}" for line in (*_remarks(report), *_counts(report), *_unnamed(report.changes))]
    for title, entries in (("Added", report.changes.added), ("Removed", report.changes.removed)):
        lines += _listed(title, [f"{entry.file}:{entry.line} {_described(entry)}" for entry in entries])
    changed = report.changes.changed
    lines += _listed("Changed", [f"{change.after.file}:{change.after.line} {_change(change)}" for change in changed])
    for new in report.effect.to_read:
        lines += _listed(_sentences_title(new), list(new.chosen))
    if report.effect.to_read:
        lines += [
            "",
            (
                "Read these sentences aloud and check that they sound like spoken English. Kind and hateful sentences "
                f"are included on purpose. To see other sentences, use --seed {report.seed + 1}."
            ),
        ]
    if number := report.effect.num_not_shown:
        what = "1 more entry has" if number == 1 else f"{number:,} more entries have"
        lines += [f"{what} new sentences; to show all of them, use --show {number + len(report.effect.to_read)}."]
    return "\n".join(lines) + "\n"


def visible(text: str) -> str:
    return "".join(
        f"[U+{ord(character):04X}]" if character != " " and is_invisible(character) else character for character in text
    )


def _faults(folder: Path, title: str, faults: Sequence[Fault]) -> list[str]:
    if not faults:
        return []
    lines = [title]
    for fault in faults:
        message = visible(fault.message)
        if len(message) > _CLIPPED_TO:
            message = f"{message[:_CLIPPED_TO]}… ({len(message) - _CLIPPED_TO:,} more characters)"
        lines.append(f"  {visible(os.path.normpath(folder / fault.file))}:{fault.line}: {message}")
    return [*lines, ""]


def _remarks(report: Report) -> list[str]:
    remarks = []
    if number := len(report.before.faults):
        remarks.append(
            f"The vocabulary used for comparison has {_number(number, 'fault')}; its unreadable entries count as added."
        )
    if not report.after.entries:
        remarks.append("The folder was not read, so there are neither comparisons nor counts.")
    elif report.after.unread:
        remarks.append(
            f"Some entries in {', '.join(map(visible, sorted(report.after.unread)))} could not be read. The counts "
            f"and sentences below omit these entries, and entries missing from these files are not reported as "
            f"removed."
        )
    return remarks


def _counts(report: Report) -> list[str]:
    changes, effect = report.changes, report.effect
    if not report.after.entries:
        return []
    read = ", as far as read" if report.after.unread else ""
    lines = []
    for kind in NAMED_KINDS:
        old, new = (len(contents.of_kind(kind)) for contents in (report.before, report.after))
        numbers = {
            "added": sum(entry.kind == kind for entry in changes.added),
            "removed": sum(entry.kind == kind for entry in changes.removed),
            "changed": sum(change.after.kind == kind for change in changes.changed),
        }
        difference = ", ".join(f"{number:,} {what}" for what, number in numbers.items() if number)
        if difference or kind in (TERM, NOUN, TEMPLATE):
            lines.append(f"{kind}s{read}: {old:,} → {new:,}{f' ({difference})' if difference else ''}")
    for name, old, new in (
        ("prompts of all terms", effect.before.rows, effect.after.rows),
        ("distinct sentences among them", effect.before.texts, effect.after.texts),
    ):
        lines.append(f"{name}{read}: {old:,} → {new:,}{f' ({new - old:+,})' if new != old else ''}")
    return lines


def _unnamed(changes: Changes) -> list[str]:
    lines = []
    for what, numbers in (("added", changes.num_unnamed_added), ("removed", changes.num_unnamed_removed)):
        for kind, number in numbers.items():
            about = "" if kind == LEFT_OUT_NOUN else "for intersections, "
            lines.append(f"{about}{kind}: {number:,} {what}")
    return lines


def _listed(title: str, lines: list[str]) -> list[str]:
    return ["", f"{title}:", *(f"  {visible(line)}" for line in lines)] if lines else []


def _described(entry: Entry) -> str:
    named = ("axis", "bucket", "gender", "preference", "article", "plural")
    traits = "".join(f", {name} {entry.fields[name]}" for name in named if entry.fields.get(name))
    return f"{entry.kind} {entry.name!r}{traits}"


def _change(change: Changed) -> str:
    what = "; ".join(f"{name} {_value(old)} → {_value(new)}" for name, old, new in change.differences)
    return f"{change.after.kind} {change.before.name!r}: {what}"


def _value(value: Any) -> str:
    return "(none)" if value is None else str(value)


def _sentences_title(new: NewSentences) -> str:
    entry = new.entry
    axis = f" ({entry.axis})" if entry.axis else ""
    return visible(f"{entry.kind} {entry.name}{axis}, {len(new.chosen)} of its {_number(new.total, 'new sentence')}")


def _number(number: int, one: str) -> str:
    return f"{number:,} {one if number == 1 else f'{one}s'}"
