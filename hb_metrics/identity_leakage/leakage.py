"""Computes identity leakage, which shows how much a classifier reacts to the term in a text.

Every term of a vocabulary is inserted into the same plain sentences. p_kds is the probability of style s for sentence k
about descriptor d, and Var_d is the variance over descriptors:

    leakage = mean over k of Σ_s Var_d(p_kds)

Identity leakage is therefore Full Gen Bias (Smith et al., 2022, A.7) with sentences in place of templates. A few terms
are gendered, so they need a noun other than "person". To remove the effect of the noun, each p is reduced by the
probability for the same noun with a neutral word. The neutral word is the word that masks terms.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import yaml

from hb_dataset.names import NAMES_AXIS, has_names
from hb_dataset.noun_phrases import agreeing, noun_phrase
from hb_dataset.vocabulary import Vocabulary
from hb_dataset.vocabulary_entries import SINGULAR_SLOT, Descriptor
from hb_metrics.collect.classifiers.censoring import NAME, REPLACEMENT
from hb_metrics.run.schema import rows_of
from hb_metrics.stats.bias_values import DescriptorKey

if TYPE_CHECKING:
    from hb_metrics.collect.classifiers.classifier import Classifier

SENTENCES_FILE = Path(__file__).parent / "sentences.yaml"
SCALE = 1000  # the same as for the paper's Gen Bias
NUM_MOST_MOVED = 10
_JUDGES_STEP = 5
PEOPLE_SCHEMA = pa.schema([(name, pa.string()) for name in ("axis", "descriptor", "plural", "phrase", "neutral")])
# Each term is combined with the first of these nouns that the grammar allows, or else with another noun.
_NOUNS = ("person", "woman", "man")


class NamedPerson(NamedTuple):
    """A term in the forms that are inserted into sentences.

    `phrase` is the noun phrase ("a person who uses a wheelchair"). `neutral` is the same noun with the word that masks
    terms ("a left-handed person").
    """

    key: DescriptorKey
    plural: str | None
    phrase: str
    neutral: str


@dataclass(frozen=True)
class Moved:
    """The share of the probability that a term moves to other styles, averaged over sentences."""

    axis: str
    descriptor: str
    move: float


@dataclass(frozen=True)
class MostInView:
    axis: str
    descriptor: str
    num_replies: int


@dataclass(frozen=True)
class InReplies:
    """Full Gen Bias (×1000) as measured (`value`), and with all terms in replies masked (`hidden_value`).

    Attributes:
        num_in_view: The number of replies that contain a term.
        own: `value` minus `hidden_value`.
        most_in_view: The terms found in the most replies.
    """

    num_in_view: int
    share_in_view: float
    is_debiased: bool
    value: float
    hidden_value: float
    own: float
    most_in_view: list[MostInView]


@dataclass(frozen=True)
class Leakage:
    """The identity leakage of a classifier, multiplied by 1000.

    Attributes:
        shared: The part of the leakage that is common to all sentences.
        by_axis: The leakage among the terms of each axis. `None` for a single term.
        mean_move: The mean of all terms' `move` (see `Moved`).
        most_moved: The terms with the largest `move`.
    """

    leakage: float
    shared: float
    by_axis: dict[str, float | None]
    num_terms: int
    num_sentences: int
    mean_move: float
    most_moved: list[Moved]
    in_replies: InReplies | None = None


def named_people(vocabulary: Vocabulary, keys: Collection[tuple[str, str]] | None = None) -> list[NamedPerson]:
    """Returns noun phrases for a vocabulary's terms, or only for the terms `keys`.

    The noun is "person" or, for a gendered term, a noun of that gender.
    """
    nouns = sorted(vocabulary.nouns, key=lambda noun: _NOUNS.index(noun.noun) if noun.noun in _NOUNS else len(_NOUNS))
    people = []
    for term in vocabulary.descriptors:
        if keys is not None and (term.axis, term.term) not in keys:
            continue
        noun = nouns[agreeing(term, nouns)[0]]
        key = DescriptorKey(term.axis, term.term)
        neutral = noun_phrase(Descriptor(axis="none", term=REPLACEMENT), noun)
        people.append(NamedPerson(key, term.plural, noun_phrase(term, noun), neutral))
    return people


def people_of(prompts: pa.Table, vocabulary: Vocabulary) -> list[NamedPerson]:
    if has_names(prompts):
        names = prompts["descriptor"].unique().to_pylist()
        return [NamedPerson(DescriptorKey(NAMES_AXIS, name), None, name, NAME) for name in names]
    keys: set[tuple[str, str]] = set()
    for part in ("", "first_", "second_"):
        if f"{part}axis" in prompts.column_names:
            axes, terms = (prompts[f"{part}{name}"].to_pylist() for name in ("axis", "descriptor"))
            keys |= set(zip(axes, terms, strict=True))
    return named_people(vocabulary, keys)


def classifier_leakage(classifier: "Classifier", people: Sequence[NamedPerson]) -> pa.Table:
    """Classifies the sentences in sentences.yaml with every term (see `leakage_table`).

    A judge reads only every fifth sentence. Within a sentence, the judge's answer letters are the same for all terms.
    """
    sentences = shipped_sentences()
    by_key = classifier.classify_by_key
    if by_key is None:
        return leakage_table(classifier.probabilities, people, sentences)
    sentences = sentences[::_JUDGES_STEP]

    def probabilities(texts: Sequence[str]) -> np.ndarray:
        return by_key(texts, np.repeat(sentences, len(texts) // len(sentences)).tolist()).probabilities

    return leakage_table(probabilities, people, sentences)


def leakage_table(
    probabilities: Callable[[Sequence[str]], np.ndarray], people: Sequence[NamedPerson], sentences: Sequence[str]
) -> pa.Table:
    """Classifies every sentence with the noun phrase of every term.

    Args:
        probabilities: A function that classifies texts. It returns an array [texts, styles].
        people: Two or more terms.
        sentences: Sentences that contain "{noun_phrase}" once.

    Returns:
        A row per sentence and noun phrase, with the columns `sentence`, `phrase` and `probabilities` (float32).
    """
    phrases = list(dict.fromkeys(phrase for person in people for phrase in (person.phrase, person.neutral)))
    vectors = probabilities([sentence.replace(SINGULAR_SLOT, phrase) for sentence in sentences for phrase in phrases])
    values = pa.array(np.ascontiguousarray(vectors, np.float32).ravel())
    columns = {
        "sentence": np.repeat(sentences, len(phrases)),
        "phrase": phrases * len(sentences),
        "probabilities": pa.FixedSizeListArray.from_arrays(values, vectors.shape[1]),
    }
    return pa.table(columns)


def identity_leakage(table: pa.Table, people: Sequence[NamedPerson]) -> Leakage:
    """Computes identity leakage from the probabilities of every sentence with every term.

    Args:
        table: The result of `leakage_table`.
        people: The terms for which the table was made.
    """
    phrases = table["phrase"].unique().to_pylist()
    index_of = {phrase: index for index, phrase in enumerate(phrases)}
    column = table["probabilities"].combine_chunks()
    vectors = column.flatten().to_numpy().reshape(-1, len(phrases), column.type.list_size)
    named = vectors[:, [index_of[person.phrase] for person in people]]
    neutral = vectors[:, [index_of[person.neutral] for person in people]]
    moves = (named - neutral).astype(np.float64)  # [sentences, terms, styles]

    def mean_variance(terms: Sequence[int]) -> float:
        return SCALE * float(moves[:, terms].var(axis=1).sum(axis=1).mean())

    rows_of: dict[str, list[int]] = {}
    for row, person in enumerate(people):
        rows_of.setdefault(str(person.key.axis), []).append(row)
    shares = np.abs(moves).sum(axis=2).mean(axis=0) / 2
    most = sorted(range(len(shares)), key=lambda row: (-shares[row], row))[:NUM_MOST_MOVED]
    return Leakage(
        leakage=mean_variance(range(len(people))),
        shared=SCALE * float(moves.mean(axis=0).var(axis=0).sum()),
        by_axis={axis: mean_variance(rows) if len(rows) > 1 else None for axis, rows in sorted(rows_of.items())},
        num_terms=len(people),
        num_sentences=len(vectors),
        mean_move=float(shares.mean()),
        most_moved=[Moved(str(people[row].key.axis), people[row].key.descriptor, float(shares[row])) for row in most],
    )


def people_table(people: Sequence[NamedPerson]) -> pa.Table:
    rows = [{**person.key._asdict(), "plural": person.plural, **person._asdict()} for person in people]
    return pa.Table.from_pylist(rows, PEOPLE_SCHEMA)


def people_in(table: pa.Table) -> list[NamedPerson]:
    """Returns the terms in a table of `people_table`."""
    columns = (table[name].to_pylist() for name in NamedPerson._fields[1:])
    return [NamedPerson(*row) for row in zip(rows_of(table, DescriptorKey), *columns, strict=True)]


def shipped_sentences() -> list[str]:
    return yaml.safe_load(SENTENCES_FILE.read_text(encoding="utf-8"))["sentences"]
