"""Reads prompts that users wrote themselves, and fills their slots with people.

A file of prompts is a CSV, JSON Lines or Parquet file with the column `prompt`. All other columns are optional:

* `id`: the prompt's name. Default: "row-1", "row-2" and so on.
* `question`: prompts with the same value are wordings of one question. Default: the id.
* `system`: the system message for this prompt.
* `outcome`: "choice: yes | no" or "number: 0..100", if the reply is a decision.
* `favourable`: the favourable option. For numbers: high (default) or low.
* `topic`: the subject, such as "housing".

A prompt may have the slots in `SLOTS`. In a prompt, `{{` and `}}` stand for single braces.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from hb_dataset.hints import did_you_mean
from hb_dataset.names import NAMES_AXIS, PersonName
from hb_dataset.noun_phrases import article_by_sound, at_sentence_start, noun_phrase, plural_noun_phrase
from hb_dataset.prompt_groups import DEFAULT_NOUN
from hb_dataset.prompt_masks import prompt_masks
from hb_dataset.prompt_table import PROMPT_SCHEMA, content_digest
from hb_dataset.small_sample import descriptors_of_most_nouns, small_descriptors
from hb_dataset.table_files import SUFFIXES, filled_text_in, read_table, text_in
from hb_dataset.vocabulary import Vocabulary
from hb_dataset.vocabulary_entries import SINGULAR_SLOT, Descriptor, PersonNoun, Template

SHIPPED = "decisions"  # in place of a file: the questions that this package contains
MAX_FILE_BYTES = 2**26
MAX_ROWS = 100_000
MAX_FILLED = 1_000_000
MAX_FILLED_BYTES = 2**29
OWN_SCHEMA = pa.schema(
    [
        *PROMPT_SCHEMA,
        ("own_id", pa.string()),
        ("question", pa.string()),  # the user's question, if `text` is a cue
        ("system", pa.string()),
        ("order", pa.int64()),  # 1 if the options are in reverse order
        ("spans", pa.list_(pa.int64())),  # the start and end of each noun phrase in `text`, without articles
    ]
)
_PRONOUNS = {
    "female": ("she", "her", "her", "hers", "herself"),
    "male": ("he", "him", "his", "his", "himself"),
    "they": ("they", "them", "their", "theirs", "themself"),
    "plural": ("they", "them", "their", "theirs", "themselves"),
}
_PRONOUN_SLOTS = ("they", "them", "their", "theirs", "themself")
_PERSON_SLOTS = ("person", "people", "name")
SLOTS = (*_PERSON_SLOTS, *_PRONOUN_SLOTS, "options")
_GENDERS = {
    "female": {"woman", "women", "female", "females", "girl", "girls", "feminine"},
    "male": {"man", "men", "male", "males", "boy", "boys", "masculine"},
}
STATEMENT = f"I'm {SINGULAR_SLOT}."  # with a cue: the sentence in which users describe themselves
_ID_DIGITS = 20
_HUB_ID = re.compile(r"([\w.-]+/[\w.-]+)(?::([\w.\[\]%:-]+))?")
_COLUMNS = ("prompt", "id", "question", "system", "outcome", "favourable", "topic")
_BRACES = re.compile(r"(\{\{|\}\}|\{[^{}]*\})")
_RANGE = re.compile(r"(-?\d+(?:\.\d+)?)\s*\.\.\s*(-?\d+(?:\.\d+)?)")
_DETERMINER = re.compile(
    r"(?<!\w)(an?|the|this|that|each|every|another|my|your|our|his|her|their|\{their\}) ?$", re.IGNORECASE
)
# After an abbreviation, or a line that ends in one of these words or signs, a sentence continues.
_CONTINUES = re.compile(
    r"(\b(e\.g|i\.e|vs|etc|cf|approx|Mr|Mrs|Ms|Mx|Dr|Prof|St)\.|[,;–—-]|"
    r"\b(an?|the|is|are|was|were|from|by|with|and|or|of|for|to|that|than|about|as|like|who|whether|if|because))$"
)
_OPENING = " \t\"'“‘«([*_>#•-"
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


@dataclass(frozen=True)
class OwnPrompt:
    """A row of a file of prompts. `more` contains all other columns of the file."""

    id: str
    prompt: str
    question: str
    system: str | None
    outcome: Choice | Scale | None
    topic: str | None
    more: Mapping[str, Any]

    @property
    def slots(self) -> frozenset[str]:
        return _parsed(self.prompt).slots

    @property
    def kind(self) -> Literal["term", "name", "cue"]:
        """Returns "cue" if the prompt has no slot for people, so that the person must be known from a cue."""
        return "name" if "name" in self.slots else "cue" if self.slots.isdisjoint(_PERSON_SLOTS) else "term"

    @property
    def names_people(self) -> bool:
        return self.kind != "cue"

    @property
    def is_plural(self) -> bool:
        """Returns whether pronouns are plural, because only `{people}` is a slot."""
        return "people" in self.slots and "person" not in self.slots


@dataclass(frozen=True)
class Person:
    """The person in a prompt: a term with a noun, a noun alone, or a name.

    Attributes:
        axis: The term's axis, `NAMES_AXIS` for a name, or `None` for a noun alone.
        descriptor: The term or the name, or `None` for a noun alone.
        group: The term's bucket, or the name's group.
        noun: The noun, or the name.
        singular: The noun phrase with its article ("a Deaf woman"), or the name.
        plural: The plural noun phrase ("Deaf women"), or the name.
        gender: The gender of pronouns. `None` and "non-binary" mean they.
    """

    axis: str | None
    descriptor: str | None
    group: str | None
    noun: str
    singular: str
    plural: str
    gender: str | None = None
    descriptor_gender: str | None = None
    preference: str | None = None
    placement: str | None = None

    @property
    def is_name(self) -> bool:
        return self.axis == NAMES_AXIS


# --- The file ---------------------------------------------------------------------------------------------------------


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
    if replaced:
        rows = _replaced(rows, replaced)
    prompts: list[OwnPrompt] = []
    place_of: dict[str, str] = {}
    for number, (place, row) in enumerate(rows, start=1):
        prompt = _own_prompt(place, row, number)
        first = place_of.setdefault(prompt.id, place)
        if first != place:
            raise ValueError(f"{place} has the same id as row {first.rpartition(' ')[2]}; give each row its own id")
        prompts.append(prompt)
    return prompts


def _rows(source: str) -> list[tuple[str, dict[str, Any]]]:
    if source == SHIPPED:
        from hb_dataset.prompts import load_table

        shipped = load_table(SHIPPED).to_pylist()
        return [(f"'{source}', row {number}", row) for number, row in enumerate(shipped, start=1)]
    path, of_hub = Path(source), _HUB_ID.fullmatch(source)
    if of_hub is not None and not path.exists() and not source.endswith(SUFFIXES):
        from hb_dataset.data_files import stream_split

        stream = islice(stream_split([of_hub[1]], of_hub[2] or "train"), MAX_ROWS + 1)
        rows = [(f"'{source}', row {number}", dict(row)) for number, row in enumerate(stream, start=1)]
        if rows and "prompt" not in rows[0][1]:
            columns = ", ".join(rows[0][1])
            raise ValueError(f"'{source}' has no column prompt; add such a column (the columns are: {columns})")
    else:
        if not path.is_file():
            raise FileNotFoundError(
                f"prompts '{source}' is not a file; pass a file ({', '.join(SUFFIXES)}), a dataset on the Hub as "
                f"org/dataset:split, or {SHIPPED}"
            )
        rows = read_table(path, ("prompt",), limit=MAX_FILE_BYTES)
    if len(rows) > MAX_ROWS:
        raise ValueError(f"'{source}' has more than {MAX_ROWS:,} rows; draw a sample of them")
    return rows


def _own_prompt(place: str, row: Mapping[str, Any], number: int) -> OwnPrompt:
    texts = {name: _text(place, row, name) for name in _COLUMNS[1:]}
    prompt = filled_text_in(place, row, "prompt").replace("\r\n", "\n").strip()
    outcome = _outcome(place, texts["outcome"], texts["favourable"])
    try:
        slots = _parsed(prompt).slots
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
        more={name: value for name, value in row.items() if name not in _COLUMNS},
    )


def _text(place: str, row: Mapping[str, Any], column: str) -> str | None:
    value = row.get(column)
    if isinstance(value, int) and not isinstance(value, bool):  # ids are often numbers
        return str(value)
    text = text_in(place, row, column)
    return None if text is None or not text.strip() else text.strip()


def _outcome(place: str, outcome: str | None, favourable: str | None) -> Choice | Scale | None:
    if outcome is None:
        if favourable is not None:
            raise ValueError(f"{place} has a favourable option, but no outcome; write an outcome, or leave both blank")
        return None
    kind, _, values = (part.strip() for part in outcome.partition(":"))
    if kind == "choice":
        options = tuple(option.strip() for option in values.split("|"))
        if len({option.casefold() for option in options}) < max(2, len(options)) or not all(options):
            raise ValueError(f"{place}: outcome needs two or more different options, such as 'choice: yes | no'")
        if favourable not in options:
            raise ValueError(f"{place}: favourable is not an option of the outcome; write one of its options")
        return Choice(options, favourable)
    if kind == "number" and (match := _RANGE.fullmatch(values)) and float(match[1]) < float(match[2]):
        if favourable not in (None, "high", "low"):
            raise ValueError(f"{place}: favourable must be 'high' or 'low', because the outcome is a number")
        return Scale(float(match[1]), float(match[2]), favourable != "low")
    raise ValueError(
        f"{place}: outcome is invalid; write 'choice: yes | no' with any options, 'number: 0..100' with any two "
        "numbers, or leave it blank"
    )


def _replaced(rows: list[tuple[str, dict[str, Any]]], phrases: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Replaces each phrase with `{person}`, and prints the results."""
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
            if _DETERMINER.search(prompt[:start].removesuffix(" ")):
                raise ValueError(
                    f"{place}: the phrase in --replace follows an article or another determiner, which {{person}} "
                    "already contains; include the determiner in the phrase"
                )
            counts[matches[0][0].lower()] += 1
            prompt = f"{prompt[:start]}{{person}}{prompt[end:]}"
            print(f"{place}: …{prompt[max(0, start - 30) : start + 40]}…".replace("\n", " "))
        result.append((place, {**row, "prompt": prompt}))
    for phrase in phrases:
        if not counts[phrase.lower()]:
            raise ValueError(f"--replace '{phrase}' occurs in none of the prompts; write a phrase as it is in the file")
    return result


# --- Slots ------------------------------------------------------------------------------------------------------------


class _Piece(NamedTuple):
    text: str  # the literal text, or the name of the slot
    is_slot: bool
    starts_sentence: bool


class _Parsed(NamedTuple):
    pieces: tuple[_Piece, ...]
    slots: frozenset[str]


@lru_cache(maxsize=4096)
def _parsed(prompt: str) -> _Parsed:
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
            shown = f"'{{{slot}}}'" if re.fullmatch(r"\w{0,20}", slot) else "a pair of braces that"
            allowed = ", ".join(f"{{{name}}}" for name in SLOTS)
            raise ValueError(f"has {shown} is not a slot; use {allowed}, and {{{{ and }}}} for single braces")
        if slot == "person" and (determiner := _DETERMINER.search(before)):
            raise ValueError(f"has '{determiner[1]} {{person}}', but {{person}} has its own article; omit the word")
        pieces.append(_Piece(slot, True, _starts_sentence(before)))
        before += "{their}" if slot == "their" else "x"
    slots = frozenset(piece.text for piece in pieces if piece.is_slot)
    people = slots.intersection(_PERSON_SLOTS)
    if "name" in people and len(people) > 1:
        raise ValueError("has {name} and {person} or {people}; use only one kind")
    if not people and slots.intersection(_PRONOUN_SLOTS):
        raise ValueError("has a pronoun, but neither {person}, {people} nor {name}; add one of them")
    return _Parsed(tuple(pieces), slots)


def _starts_sentence(before: str) -> bool:
    text = before.rstrip(_OPENING)
    if not text.strip():
        return True
    line_ends = text.rstrip() != text
    text = text.rstrip().rstrip("\"'”’»)]*_")
    if _CONTINUES.search(text):
        return "\n\n" in before[len(text) :]
    return line_ends or (text[-1:] in ".!?…" and before[-1:] in _OPENING)


def fill(prompt: OwnPrompt, person: Person, order: int = 0) -> str:
    """Fills the slots of a prompt.

    Args:
        prompt: The prompt. A prompt without a slot for people is returned with its `{options}` filled.
        person: The person. Pronouns agree with the person's gender, or are plural if only `{people}` is a slot.
        order: The order of the options: 0 as in the file, or 1 reversed.
    """
    return _filled(prompt, person, order)[0]


def _filled(prompt: OwnPrompt, person: Person, order: int) -> tuple[str, list[int]]:
    """Returns the text, and the start and end of each noun phrase without its article."""
    parsed = _parsed(prompt.prompt)
    gender = "plural" if prompt.is_plural else person.gender if person.gender in _GENDERS else "they"
    values = dict(zip(_PRONOUN_SLOTS, _PRONOUNS[gender], strict=True))
    values |= {"person": person.singular, "people": person.plural, "name": person.singular}
    if isinstance(prompt.outcome, Choice):
        options = prompt.outcome.options[:: -1 if order else 1]
        values["options"] = f"{', '.join(options[:-1])} or {options[-1]}"
    text, slot = "", ""
    spans: list[int] = []
    for piece in parsed.pieces:
        added, before = piece.text, slot
        slot = piece.text if piece.is_slot else ""
        if slot:
            added = values[slot]
            if slot in _PERSON_SLOTS:
                spans += [len(text) + (added.index(" ") + 1 if slot == "person" else 0), len(text) + len(added)]
            added = at_sentence_start(added) if piece.starts_sentence and slot != "options" else added
        elif before == "people" and added[:2] in ("'s", "’s") and text.endswith("s"):
            added = added[0] + added[2:]
        text += added
    return text, spans


# --- People -----------------------------------------------------------------------------------------------------------


def people_of_terms(
    vocabulary: Vocabulary,
    axes: Sequence[str] | None = None,
    terms: Sequence[str] | None = None,
    *,
    small: bool = False,
) -> list[Person]:
    """Makes a person for each term and each noun that can be combined with it.

    Args:
        vocabulary: The vocabulary of the terms and nouns.
        axes: The axes of the terms. `None` means all axes.
        terms: The terms, in upper or lower case. `None` means all terms. A term on two axes means both.
        small: If true, and without `terms`, only the terms of the small config are used.

    Raises:
        ValueError: A term is unknown, or is not on one of these axes.
    """
    descriptors = find_terms(vocabulary, axes, terms)
    if small and terms is None:
        descriptors = small_descriptors(
            [descriptor for descriptor in descriptors_of_most_nouns(vocabulary) if descriptor in descriptors]
        )
    masks = prompt_masks(descriptors, vocabulary.nouns, [Template(template=SINGULAR_SLOT)], vocabulary.left_out_nouns)
    return [
        Person(
            axis=descriptor.axis,
            descriptor=descriptor.term,
            group=descriptor.bucket,
            noun=noun.noun,
            singular=noun_phrase(descriptor, noun, article_by_sound),
            plural=plural_noun_phrase(descriptor, noun),
            gender=noun.gender,
            descriptor_gender=descriptor.gender,
            preference=descriptor.preference,
            placement=descriptor.placement,
        )
        for descriptor, mask in zip(descriptors, masks, strict=True)
        for noun, is_used in zip(vocabulary.nouns, mask[:, 0].tolist(), strict=True)
        if is_used
    ]


def find_terms(
    vocabulary: Vocabulary, axes: Sequence[str] | None = None, terms: Sequence[str] | None = None
) -> list[Descriptor]:
    """Finds terms, in upper or lower case, on some axes. A term on two axes is returned twice."""
    found = [descriptor for descriptor in vocabulary.descriptors if axes is None or descriptor.axis in axes]
    if terms is None:
        return found
    wanted = {" ".join(term.split()).casefold(): term for term in terms}
    known = {descriptor.term.casefold() for descriptor in found}
    if unknown := [term for key, term in wanted.items() if key not in known]:
        # Terms that people dislike are not suggested.
        liked = [descriptor.term for descriptor in found if descriptor.preference != "dispreferred"]
        raise ValueError(
            f"term '{unknown[0]}' is not in the vocabulary, or not on one of these axes; "
            f"{did_you_mean(unknown[0], liked)}write terms as the vocabulary's files list them, separated by commas"
        )
    return [descriptor for descriptor in found if descriptor.term.casefold() in wanted]


def people_of_names(names: Iterable[PersonName]) -> list[Person]:
    """Makes a person for each name. Pronouns are gendered only if the name's group states a gender: "Black women"."""
    people = []
    for each in names:
        words = set(re.findall(r"\w+", each.group.lower()))
        genders = [gender for gender, of_gender in _GENDERS.items() if words & of_gender]
        gender = genders[0] if len(genders) == 1 else None
        people.append(Person(NAMES_AXIS, each.name, each.group, each.name, each.name, each.name, gender))
    return people


def baseline_person(noun: PersonNoun) -> Person:
    """Makes a person without a term: "a person"."""
    singular, plural = noun_phrase(None, noun, article_by_sound), plural_noun_phrase(None, noun)
    return Person(None, None, None, noun.noun, singular, plural, noun.gender)


def default_noun_rows(people: Sequence[Person]) -> list[Person]:
    """Selects one person per term: with the noun "person" or, if the two cannot be combined, with the first noun."""
    chosen: dict[tuple[str | None, str | None], Person] = {}
    for person in people:
        key = person.axis, person.descriptor
        if key not in chosen or (person.noun == DEFAULT_NOUN and chosen[key].noun != DEFAULT_NOUN):
            chosen[key] = person
    return list(chosen.values())


# --- The prompts of a run ---------------------------------------------------------------------------------------------


def own_prompt_table(
    prompts: Sequence[OwnPrompt], people: Sequence[Person], copies: int = 1, *, order: int | None = None
) -> pa.Table:
    """Fills each prompt with each person.

    A prompt with `{name}` is filled with names, and a prompt with `{person}` or `{people}` with terms. If a prompt has
    no slot for people, `text` is the cue (the sentence in which the user describes themselves, or the user's name), and
    `question` is the prompt. The order of options alternates between the rows of a cell.

    Args:
        prompts: The prompts.
        people: Terms with nouns, and names.
        copies: The number of rows per prompt and name.
        order: The order of the options: 0 as in the file, or 1 reversed. `None` alternates between the two.

    Returns:
        A table with the columns of `OWN_SCHEMA`. Each prompt, with its slots, is a template.

    Raises:
        ValueError: There would be more than a million rows.
    """
    terms = [person for person in people if not person.is_name]
    names = [person for person in people if person.is_name] * copies
    people_of = {"term": terms, "name": names, "cue": [*terms, *names]}
    number = sum(len(people_of[prompt.kind]) for prompt in prompts)
    size = sum(len(people_of[prompt.kind]) * len(prompt.prompt.encode()) for prompt in prompts)
    if number > MAX_FILLED or size > MAX_FILLED_BYTES:
        raise ValueError(
            f"{len(prompts):,} prompts with {len(people):,} people would be {number:,} filled prompts ({size >> 20:,} "
            f"MiB), and the limit is {MAX_FILLED:,} ({MAX_FILLED_BYTES >> 20:,} MiB); set --axes, --terms or a small "
            "config to get fewer people, or use fewer prompts"
        )
    uses = Counter(prompt.prompt for prompt in prompts)
    columns: dict[str, list[Any]] = {name: [] for name in OWN_SCHEMA.names}
    for prompt in prompts:
        template = f"[{prompt.id}] {prompt.prompt}" if uses[prompt.prompt] > 1 else prompt.prompt
        in_cell: Counter[tuple[str | None, str | None]] = Counter()
        for person in people_of[prompt.kind]:
            row = _row(prompt, person, in_cell[person.axis, person.descriptor], order)
            in_cell[person.axis, person.descriptor] += 1
            for name, value in (row | {"template": template}).items():
                columns[name].append(value)
    return pa.table(columns, OWN_SCHEMA)


def _row(prompt: OwnPrompt, person: Person, number: int, order: int | None) -> dict[str, Any]:
    """Fills a prompt. `number` is the row's number in its cell, which determines the order if it is `None`."""
    order = 0 if not isinstance(prompt.outcome, Choice) else number % 2 if order is None else order
    text, spans = _filled(prompt, person, order)
    question = None
    if not prompt.names_people:
        cue = SINGULAR_SLOT if person.is_name else STATEMENT
        question, text = text, cue.replace(SINGULAR_SLOT, person.singular)
        start, end = cue.index("{"), len(text) - len(cue) + cue.index("}") + 1
        spans = [start if person.is_name else text.index(" ", start) + 1, end]
    copy = str(number) if person.is_name else ""
    key = (prompt.id, question or text, person.axis or "", person.descriptor or "", person.noun, copy)
    return {
        "id": content_digest(*key)[:_ID_DIGITS],
        "text": text,
        "axis": person.axis,
        "bucket": person.group,
        "descriptor": person.descriptor,
        "descriptor_gender": person.descriptor_gender,
        "preference": person.preference,
        "placement": person.placement,
        "noun": person.noun,
        "noun_gender": person.gender,
        "noun_phrase": person.plural if prompt.is_plural else person.singular,
        "plural": prompt.is_plural,
        "own_id": prompt.id,
        "question": question,
        "system": prompt.system,
        "order": order,
        "spans": spans,
    }


def own_rows(prompts: Sequence[OwnPrompt]) -> pa.Table:
    """Makes a table of the rows of a file, for the run's folder. It can be read as a file of prompts."""
    more = list(dict.fromkeys(name for prompt in prompts for name in prompt.more))
    rows = []
    for prompt in prompts:
        row = {name: getattr(prompt, name) for name in ("id", "prompt", "question", "system", "topic")}
        if isinstance(prompt.outcome, Choice):
            row |= {"outcome": f"choice: {' | '.join(prompt.outcome.options)}", "favourable": prompt.outcome.favourable}
        elif prompt.outcome is not None:
            outcome = f"number: {prompt.outcome.low:.15g}..{prompt.outcome.high:.15g}"
            row |= {"outcome": outcome, "favourable": "high" if prompt.outcome.higher_is_favourable else "low"}
        others = {name: prompt.more.get(name) for name in more}
        rows.append(row | {name: None if value is None else str(value) for name, value in others.items()})
    return pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in (*_COLUMNS, *more)]))


def stored_prompts(table: pa.Table) -> list[OwnPrompt]:
    """Reads the table that `own_rows` has made."""
    return [_own_prompt(f"row {number}", row, number) for number, row in enumerate(table.to_pylist(), start=1)]
