"""Reads prompts that users wrote themselves.

A file of prompts is a CSV, JSON Lines or Parquet file with the column `prompt`. All other columns are optional:

* `id`: the prompt's name. Default: "row-1", "row-2" and so on.
* `question`: prompts with the same value are wordings of one question. Default: the id.
* `system`: the system message for this prompt.
* `outcome`: "choice: yes | no", "number: 0..100" or "text", if the reply is a decision.
* `favourable`: the favourable option. For numbers: high (default) or low. For texts: a label that a judge or the style
  classifier assigns to replies.
* `topic`: the subject, such as "housing".

A prompt may have the slots in `SLOTS`. In a prompt, `{{` and `}}` stand for single braces.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa

from hb_dataset.command_line import did_you_mean
from hb_dataset.table_files import SUFFIXES, column_error, filled_text_in, read_table, text_in
from hb_dataset.written_text import DETERMINER, OPEN_PHRASE, starts_sentence

PRONOUN_SLOTS = ("they", "them", "their", "theirs", "themself")
PERSON_SLOTS = ("person", "people", "name")
SLOTS = (*PERSON_SLOTS, *PRONOUN_SLOTS, "options")
_SLOT = re.compile(rf"\{{({'|'.join(SLOTS)})\}}")
_BRACES = re.compile(r"(\{\{|\}\}|\{[^{}]*\})")
GENDERED = re.compile(r"\b(s?he|him|his|hers?|himself|herself)\b", re.IGNORECASE)


class _Piece(NamedTuple):
    text: str  # the literal text, or the name of the slot
    is_slot: bool
    starts_sentence: bool


class ParsedPrompt(NamedTuple):
    pieces: tuple[_Piece, ...]
    slots: frozenset[str]


@lru_cache(maxsize=4096)
def parsed_prompt(prompt: str) -> ParsedPrompt:
    """Splits a prompt at its slots. Raises `ValueError` for an unknown slot or an unbalanced brace."""
    pieces: list[_Piece] = []
    before = ""
    for number, part in enumerate(_BRACES.split(prompt)):
        slot = part[1:-1] if number % 2 and part not in ("{{", "}}") else None
        if slot is None:
            if number % 2 == 0 and re.search(r"[{}]", part):
                raise ValueError("has a brace without its partner; write {{ or }} for a single brace")
            part = part[:1] if number % 2 else part
            pieces.append(_Piece(part, False, False))
            before += part
            continue
        if slot not in SLOTS:
            shown = f"'{{{slot}}}'" if re.fullmatch(r"\w{0,20}", slot) else "a pair of braces"
            allowed = ", ".join(f"{{{name}}}" for name in SLOTS)
            raise ValueError(f"has {shown}, which is not a slot; use {allowed}, and {{{{ and }}}} for single braces")
        if slot == "person" and (determiner := DETERMINER.search(before)):
            raise ValueError(f"has '{determiner[1]} {{person}}', but {{person}} has its own article; omit the word")
        pieces.append(_Piece(slot, True, starts_sentence(before)))
        before += "{their}" if slot == "their" else "x"
    slots = frozenset(piece.text for piece in pieces if piece.is_slot)
    people = slots.intersection(PERSON_SLOTS)
    if "name" in people and len(people) > 1:
        raise ValueError("has {name} and {person} or {people}; use only one kind")
    if not people and slots.intersection(PRONOUN_SLOTS):
        raise ValueError("has a pronoun, but neither {person}, {people} nor {name}; add one of them")
    return ParsedPrompt(tuple(pieces), slots)


def check_without_slots(what: str, text: str | None) -> None:
    """Raises `ValueError` if a text other than a prompt has a slot, which would not be filled."""
    if slot := _SLOT.search(text or ""):
        raise ValueError(f"{what} has '{slot[0]}', but only prompts are filled; write this part in the prompt")


SHIPPED = "decisions"  # in place of a file: the questions that this package contains
MAX_ROWS = 100_000
_HUB_ID = re.compile(r"([\w.-]+/[\w.-]+)(?::([\w.-]+))?")
_COLUMNS = ("prompt", "id", "question", "system", "outcome", "favourable", "topic")
_RANGE = re.compile(r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*\.\.\s*(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
_ANSWER_ONLY = "\nAnswer only with {options}."


@dataclass(frozen=True)
class Choice:
    """A decision between options, such as "yes" and "no"."""

    options: tuple[str, ...]
    favourable: str


@dataclass(frozen=True)
class Scale:
    """A decision that is a number."""

    low: float
    high: float
    higher_is_favourable: bool

    @property
    def words(self) -> str:
        direction = "" if self.higher_is_favourable else " (low is favourable)"
        return f"the scale from {self.low:,.10g} to {self.high:,.10g}{direction}"

    def number(self, decision: float) -> float:
        """Returns the number of a decision, which is 0 at the unfavourable end and 1 at the favourable one."""
        from_low = decision if self.higher_is_favourable else 1 - decision
        return self.low + from_low * (self.high - self.low)


@dataclass(frozen=True)
class FreeText:
    """A decision in free text. It is favourable if the reply has a label of a judge or of the style classifier."""

    favourable: str


Outcome = Choice | Scale | FreeText


@dataclass(frozen=True)
class OwnPrompt:
    """A row of a file of prompts.

    Attributes:
        written: The texts in the columns of `_COLUMNS` except the prompt, as they are in the file.
        more: All other columns of the file.
    """

    id: str
    prompt: str
    question: str
    system: str | None
    outcome: Outcome | None
    topic: str | None
    written: Mapping[str, str | None]
    more: Mapping[str, object]

    @property
    def slots(self) -> frozenset[str]:
        return parsed_prompt(self.prompt).slots

    @property
    def own_words(self) -> str:
        """Returns what the user wrote, without the slots and without the sentence that names the options."""
        pieces = parsed_prompt(self.prompt.replace(_ANSWER_ONLY.strip(), "")).pieces
        return " ".join(piece.text for piece in pieces if not piece.is_slot)

    @property
    def kind(self) -> Literal["term", "name", "cue"]:
        """Returns "cue" if the prompt has no slot for people, so that the person must be known from a cue."""
        return "name" if "name" in self.slots else "cue" if self.slots.isdisjoint(PERSON_SLOTS) else "term"

    @property
    def is_plural(self) -> bool:
        """Returns whether pronouns are plural, because only `{people}` is a slot."""
        return "people" in self.slots and "person" not in self.slots


def read_own_prompts(source: str, replaced: Sequence[str] = ()) -> list[OwnPrompt]:
    """Reads and checks a file of prompts.

    Args:
        source: A CSV, JSON Lines or Parquet file, a dataset on the Hub (`"org/dataset"`, or `"org/dataset:split"`), or
            `"decisions"` for the questions that this package contains.
        replaced: Phrases to replace with `{person}`, such as "the applicant". The replacements are printed.

    Raises:
        ValueError: The file has faults. The message states the row, but does not quote the prompt.
        FileNotFoundError: There is no such file.
    """
    rows = _rows(source)
    if not rows:
        raise ValueError(f"'{source}' has no prompts; write one prompt per row, in the column 'prompt'")
    columns = {name for _, row in rows for name in row}
    for name in sorted(columns - {*_COLUMNS}):
        # A column that is spelled almost like a known one would be ignored.
        if hint := did_you_mean(name.casefold().strip(), {*_COLUMNS} - columns, cutoff=0.85):
            raise ValueError(f"'{source}' has the unknown column '{name}'; {hint}rename the column")
    if replaced:
        rows = _replaced(rows, replaced)
    prompts: list[OwnPrompt] = []
    place_of: dict[object, str] = {}
    for number, (place, row) in enumerate(rows, start=1):
        prompt = _own_prompt(place, row, number)
        first = place_of.setdefault(prompt.id, place)
        if first != place:
            raise ValueError(f"{place} has the same id as {first.rpartition(', ')[2]}; give each row its own id")
        first = place_of.setdefault((prompt.prompt, prompt.system, prompt.outcome), place)
        if first != place:
            raise ValueError(
                f"{place} has the same prompt as {first.rpartition(', ')[2]}; remove it, or measure it with "
                "--replies_per_cell"
            )
        prompts.append(prompt)
    return prompts


def _rows(source: str) -> list[tuple[str, dict[str, object]]]:
    if source == SHIPPED:
        from hb_dataset.prompts import load_table

        shipped = load_table(SHIPPED).to_pylist()
        return [(f"'{source}', row {number}", row) for number, row in enumerate(shipped, start=1)]
    path, of_hub = Path(source), _HUB_ID.fullmatch(source)
    if of_hub is not None and not path.exists() and not source.endswith(SUFFIXES):
        from hb_dataset.hub_access import stream_split

        stream = islice(stream_split([of_hub[1]], of_hub[2] or "train"), MAX_ROWS + 1)
        rows = [(f"'{source}', row {number}", dict(row)) for number, row in enumerate(stream, start=1)]
        if rows and "prompt" not in rows[0][1]:
            raise column_error(path, ("prompt",), rows[0][1])
    else:
        if not path.is_file():
            raise FileNotFoundError(f"prompts '{source}' is not a file; pass a file, org/dataset:split, or {SHIPPED}")
        rows = read_table(path, ("prompt",))
    if len(rows) > MAX_ROWS:
        raise ValueError(f"'{source}' has more than {MAX_ROWS:,} rows; draw a sample of them")
    return rows


def _own_prompt(place: str, row: Mapping[str, object], number: int) -> OwnPrompt:
    texts = {name: (text_in(place, row, name) or "").strip() or None for name in _COLUMNS[1:]}
    for name in ("system", "outcome"):
        check_without_slots(f"{place}: {name}", texts[name])
    prompt = filled_text_in(place, row, "prompt").replace("\r\n", "\n").strip()
    outcome = _outcome(place, texts["outcome"], texts["favourable"])
    try:
        slots = parsed_prompt(prompt).slots
        if "options" in slots and not isinstance(outcome, Choice):
            raise ValueError("has {options}, but no choice; write an outcome such as 'choice: yes | no'")
        if isinstance(outcome, Choice) and "options" not in slots:
            prompt += _ANSWER_ONLY
    except ValueError as error:
        raise ValueError(f"{place}: prompt {error}") from None
    identifier = texts["id"] or f"row-{number}"
    return OwnPrompt(
        id=identifier,
        prompt=prompt,
        question=texts["question"] or identifier,
        system=texts["system"],
        outcome=outcome,
        topic=texts["topic"],
        written=texts,
        more={name: value for name, value in row.items() if name not in _COLUMNS},
    )


def _outcome(place: str, outcome: str | None, favourable: str | None) -> Outcome | None:
    if outcome is None and favourable is None:
        return None
    kind, _, values = (part.strip() for part in (outcome or "").partition(":"))
    options = tuple(option.strip() for option in values.split("|"))
    num_different = len({option.casefold() for option in options if option})
    if kind == "choice" and favourable in options and len(options) == num_different > 1:
        return Choice(options, favourable)
    limits = _RANGE.fullmatch(values) if kind == "number" else None
    if limits and float(limits[1]) < float(limits[2]) and favourable in (None, "high", "low"):
        return Scale(float(limits[1]), float(limits[2]), favourable != "low")
    if outcome == "text" and favourable is not None:
        return FreeText(favourable)
    raise ValueError(
        f"{place}: outcome {outcome!r} with favourable {favourable!r} is invalid; write 'choice: yes | no' with "
        "any different options, and one of them as favourable; 'number: 0..100' with any two numbers, and 'high' or "
        "'low'; 'text', and a label of the judge's rubric; or leave both blank"
    )


def _replaced(rows: list[tuple[str, dict[str, object]]], phrases: Sequence[str]) -> list[tuple[str, dict[str, object]]]:
    """Replaces each phrase with `{person}`, and prints the results."""
    if not all(phrase.strip() for phrase in phrases):
        raise ValueError("--replace contains a blank phrase; write a phrase as it is in the file")
    words = "|".join(re.escape(phrase) for phrase in sorted(phrases, key=len, reverse=True))
    pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)
    counts: Counter[str] = Counter()
    result = []
    for place, row in rows:
        prompt = filled_text_in(place, row, "prompt")
        matches = list(pattern.finditer(prompt))
        if len(matches) > 1 or (matches and "{person}" in prompt):
            raise ValueError(
                f"{place}: --replace is ambiguous, because the phrase occurs more than once, or beside {{person}}; "
                "write {person} at the first mention and {they}, {them} or {their} at all others"
            )
        if matches:
            start, end = matches[0].span()
            # A common noun such as "applicant" belongs to a determiner. A name, or "the applicant", does not.
            is_noun = matches[0][0][:1].islower() and not OPEN_PHRASE.search(matches[0][0].partition(" ")[0])
            if words_before := (OPEN_PHRASE if is_noun else DETERMINER).search(prompt[:start]):
                raise ValueError(
                    f"{place}: the phrase in --replace follows '{words_before[0].strip()}', but {{person}} has its own "
                    "article; include these words in the phrase"
                )
            counts[matches[0][0].lower()] += 1
            prompt = f"{prompt[:start]}{{person}}{prompt[end:]}"
            print(f"{place}: …{prompt[max(0, start - 30) : start + 40]}…".replace("\n", " "))
        result.append((place, {**row, "prompt": prompt}))
    for phrase in phrases:
        if not counts[phrase.lower()]:
            raise ValueError(f"--replace '{phrase}' occurs in none of the prompts; write a phrase as it is in the file")
    return result


def own_rows(prompts: Sequence[OwnPrompt]) -> pa.Table:
    """Makes a table of the rows of a file, for the run's folder. It can be read as a file of prompts."""
    more = list(dict.fromkeys(name for prompt in prompts for name in prompt.more))
    rows = []
    for prompt in prompts:
        # Texts of other columns are only kept, so half a letter in them is no fault.
        others = {
            name: None if value is None else str(value).encode(errors="replace").decode()
            for name, value in prompt.more.items()
        }
        rows.append({**prompt.written, "id": prompt.id, "prompt": prompt.prompt, "question": prompt.question, **others})
    return pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in (*_COLUMNS, *more)]))


def stored_prompts(table: pa.Table) -> list[OwnPrompt]:
    """Reads the table that `own_rows` has made."""
    return [_own_prompt(f"row {number}", row, number) for number, row in enumerate(table.to_pylist(), start=1)]
