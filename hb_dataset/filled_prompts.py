"""Fills the slots of prompts with people."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hb_dataset.command_line import did_you_mean
from hb_dataset.grouped import grouped
from hb_dataset.names import PersonName
from hb_dataset.noun_phrases import article_by_sound, at_sentence_start, noun_phrase, plural_noun_phrase, prompt_masks
from hb_dataset.own_prompts import PERSON_SLOTS, PRONOUN_SLOTS, Choice, OwnPrompt, parsed_prompt
from hb_dataset.prompt_columns import NAMES_AXIS, PROMPT_SCHEMA, content_digest
from hb_dataset.prompt_table import descriptors_of_most_nouns, small_descriptors
from hb_dataset.slots import SINGULAR_SLOT
from hb_dataset.vocabulary_entries import (
    AFTER_THE_NOUN,
    DEFAULT_NOUN,
    Descriptor,
    PersonNoun,
    Template,
    Vocabulary,
    follows_noun,
)

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
_GENDERS = {
    "female": {"woman", "women", "female", "females", "girl", "girls", "feminine"},
    "male": {"man", "men", "male", "males", "boy", "boys", "masculine"},
}
STATEMENT = f"I'm {SINGULAR_SLOT}."  # with a cue: the sentence in which users describe themselves
_ID_DIGITS = 20
# The first words of terms of the user's own that suit no place beside the noun.
_NO_BEGINNING = re.compile("an?|the|who(?:se|['’]s)?|that(?:['’]s)?|which")


@dataclass(frozen=True)
class Person:
    """The person in a prompt: a term with a noun, a noun alone, or a name.

    Attributes:
        axis: The term's axis, `NAMES_AXIS` for a name, or `None` for a noun alone.
        descriptor: The term or the name, or `None` for a noun alone.
        bucket: The term's bucket, or the name's group.
        noun: The noun, or the name.
        singular: The noun phrase with its article ("a Deaf woman"), or the name.
        plural: The plural noun phrase ("Deaf women"), or the name.
        noun_gender: The gender of pronouns. `None` and "non-binary" mean they.
    """

    axis: str | None
    descriptor: str | None
    bucket: str | None
    noun: str
    singular: str
    plural: str
    noun_gender: str | None = None
    descriptor_gender: str | None = None
    preference: str | None = None
    placement: str | None = None

    @property
    def is_name(self) -> bool:
        return self.axis == NAMES_AXIS


def fill(prompt: OwnPrompt, person: Person) -> str:
    """Fills the slots of a prompt, with its options as in the file.

    Args:
        prompt: The prompt. A prompt without a slot for people is returned with its `{options}` filled.
        person: The person. Pronouns agree with the person's gender, or are plural if only `{people}` is a slot.
    """
    return _filled(prompt, person, 0)[0]


def _filled(prompt: OwnPrompt, person: Person, order: int) -> tuple[str, list[int]]:
    """Returns the text, and the start and end of each noun phrase without its article."""
    parsed = parsed_prompt(prompt.prompt)
    gender = "plural" if prompt.is_plural else person.noun_gender if person.noun_gender in _GENDERS else "they"
    values = dict(zip(PRONOUN_SLOTS, _PRONOUNS[gender], strict=True))
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
            if slot in PERSON_SLOTS:
                spans += [len(text) + (added.index(" ") + 1 if slot == "person" else 0), len(text) + len(added)]
            added = at_sentence_start(added) if piece.starts_sentence and slot != "options" else added
        elif before == "people" and added[:2] in ("'s", "’s") and text.endswith("s"):
            added = added[0] + added[2:]
        text += added
    return text, spans


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
            "ability:hearing" is a term of the user's own, or a term of the vocabulary on another axis.
        small: If true, and without `terms`, only the terms of the small config are used.

    Raises:
        ValueError: A term is unknown, or is not on one of these axes.
    """
    listed = terms and [term for term in terms if ":" not in term]
    descriptors = find_terms(vocabulary, axes, listed) + own_terms(vocabulary, terms or ())
    descriptors = list({(term.axis, term.term.casefold()): term for term in descriptors}.values())
    if small and terms is None:
        descriptors = small_descriptors(
            [descriptor for descriptor in descriptors_of_most_nouns(vocabulary) if descriptor in descriptors]
        )
    # The nouns that a term excludes depend on its axis in the vocabulary, even if the user writes another axis.
    known = {(term.axis, term.term): term for term in vocabulary.descriptors}
    named = {term.term.casefold(): term for term in reversed(vocabulary.descriptors)}
    ruled = [known.get((term.axis, term.term), named.get(term.term.casefold(), term)) for term in descriptors]
    masks = prompt_masks(ruled, vocabulary.nouns, [Template(template=SINGULAR_SLOT)], vocabulary.left_out_nouns)
    return [
        Person(
            axis=descriptor.axis,
            descriptor=descriptor.term,
            bucket=descriptor.bucket,
            noun=noun.noun,
            singular=noun_phrase(descriptor, noun, article_by_sound),
            plural=plural_noun_phrase(descriptor, noun),
            noun_gender=noun.gender,
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
    on_axes = [descriptor for descriptor in vocabulary.descriptors if axes is None or descriptor.axis in axes]
    if terms is None:
        return on_axes
    wanted = {" ".join(term.split()).casefold(): term for term in terms}
    known = {descriptor.term.casefold() for descriptor in on_axes}
    if unknown := [term for key, term in wanted.items() if key not in known]:
        # Terms that people dislike are not suggested.
        liked = [descriptor.term for descriptor in on_axes if descriptor.preference != "dispreferred"]
        raise ValueError(
            f"term '{unknown[0]}' is not in the vocabulary{'' if axes is None else ', or not on one of these axes'}; "
            f"{did_you_mean(unknown[0], liked)}write one of its terms or, to add a term to your own prompts, its axis "
            f"before it, such as 'ability:{unknown[0]}'"
        )
    return [descriptor for descriptor in on_axes if descriptor.term.casefold() in wanted]


def own_terms(vocabulary: Vocabulary, terms: Sequence[str]) -> list[Descriptor]:
    """Returns the terms of the user's own among `terms`: those with an axis, such as "ability:hearing"."""
    own = list(dict.fromkeys(term for term in terms if ":" in term))
    if len({term.casefold() for term in own}) < len(own):
        raise ValueError(f"terms '{', '.join(own)}' contain a term in two spellings; write each term once")
    return [_own_term(vocabulary, term) for term in own]


def _own_term(vocabulary: Vocabulary, written: str) -> Descriptor:
    axis, _, term = (" ".join(part.split()) for part in written.partition(":"))
    axis = axis.replace(" ", "_")
    known = [entry for entry in vocabulary.descriptors if entry.term.casefold() == term.casefold()]
    try:
        if known:
            return replace(known[0], axis=axis)
        first = term.split(" ")[0].lower()
        own = Descriptor(axis=axis, term=term, bucket=AFTER_THE_NOUN if follows_noun(term) else None)
        nouns = {word for noun in vocabulary.nouns for word in (noun.noun, noun.plural)}
        is_phrase = first != term.lower() and first in nouns  # "people of color"
        if not _NO_BEGINNING.fullmatch(first) and not is_phrase and not own.ends_in(vocabulary.nouns):
            return own
    except ValueError:  # pydantic's message would not name the option
        pass
    raise ValueError(
        f"term '{written}' is not an axis and a term; write the axis in lower case (not '{NAMES_AXIS}'), and the term "
        "without an article and a noun, such as 'ability:hearing' or 'ability:with a cast', or write a vocabulary"
    )


def people_of_names(names: Iterable[PersonName]) -> list[Person]:
    """Makes a person for each name. Pronouns are gendered only if the name's group states a gender: "Black women"."""
    people = []
    for name in names:
        words = set(re.findall(r"\w+", name.group.lower()))
        genders = [gender for gender, of_gender in _GENDERS.items() if words & of_gender]
        gender = genders[0] if len(genders) == 1 else None
        people.append(Person(NAMES_AXIS, name.name, name.group, name.name, name.name, name.name, gender))
    return people


def baseline_person(noun: PersonNoun) -> Person:
    """Makes a person without a term: "a person"."""
    singular, plural = noun_phrase(None, noun, article_by_sound), plural_noun_phrase(None, noun)
    return Person(None, None, None, noun.noun, singular, plural, noun.gender)


def default_noun_rows(people: Sequence[Person]) -> list[Person]:
    """Selects one person per term: with the noun "person" or, if the two cannot be combined, with the first noun."""
    by_term = grouped(((person.axis, person.descriptor), person) for person in people).values()
    return [next((person for person in group if person.noun == DEFAULT_NOUN), group[0]) for group in by_term]


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
            f"{len(prompts):,} prompts with {len(people):,} people are {number:,} ({size >> 20:,} MiB); the limit is "
            f"{MAX_FILLED:,} ({MAX_FILLED_BYTES >> 20:,} MiB). Use fewer prompts, --axes, --terms or a small config"
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


def _row(prompt: OwnPrompt, person: Person, number: int, order: int | None) -> dict[str, object]:
    """Fills a prompt. `number` is the row's number in its cell, which determines the order if it is `None`."""
    order = 0 if not isinstance(prompt.outcome, Choice) else number % 2 if order is None else order
    text, spans = _filled(prompt, person, order)
    question = None
    if prompt.kind == "cue":
        cue = SINGULAR_SLOT if person.is_name else STATEMENT
        question, text = text, cue.replace(SINGULAR_SLOT, person.singular)
        start, end = cue.index("{"), len(text) - len(cue) + cue.index("}") + 1
        spans = [start if person.is_name else text.index(" ", start) + 1, end]
    copy = str(number) if person.is_name else ""
    key = (prompt.id, question or text, person.axis or "", person.descriptor or "", person.noun, copy)
    return {
        **{name: value for name, value in vars(person).items() if name in OWN_SCHEMA.names},
        "id": content_digest(*key)[:_ID_DIGITS],
        "text": text,
        "noun_phrase": person.plural if prompt.is_plural else person.singular,
        "plural": prompt.is_plural,
        "own_id": prompt.id,
        "question": question,
        "system": prompt.system,
        "order": order,
        "spans": spans,
    }
