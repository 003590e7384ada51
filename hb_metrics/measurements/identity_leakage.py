"""Computes identity leakage, which shows how much a classifier reacts to the term in a text.

Every term of a vocabulary is inserted into the same plain sentences. p_kds is the probability of style s for sentence k
about descriptor d, and Var_d is the variance over descriptors:

    leakage = mean over k of Σ_s Var_d(p_kds)

Identity leakage is therefore Full Gen Bias (Smith et al., 2022, A.7) with sentences in place of templates. A few terms
are gendered, so they need a noun other than "person". To remove the effect of the noun, each p is reduced by the
probability for the same noun with a neutral word. The neutral word is the word that masks terms.

The prompt's term is masked before the style of a reply is classified, but other terms remain visible. For example, a
reply to a deaf person may mention "hard-of-hearing" people. These terms are masked too, and the replies are classified
again. The difference between the two values of Full Gen Bias shows how much the classifier's reaction to terms adds to
it. The difference is negative if this reaction hides bias. The prompt's own term also counts if masking missed it
because letters of the term are written as other characters, or with signs between them: "d-e-a-f", "déaf", "de4f".
"""

import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import yaml

from hb_dataset.matching import PlainText, as_it_looks, plain_text
from hb_dataset.noun_phrases import agreeing, noun_phrase
from hb_dataset.prompt_columns import NAMES_AXIS, has_names
from hb_dataset.slots import SINGULAR_SLOT
from hb_dataset.vocabulary_entries import Descriptor, Vocabulary
from hb_metrics.collect.classifiers.censoring import NAME, REPLACEMENT, mention_pattern, name_pattern
from hb_metrics.run.replies import Replies
from hb_metrics.run.schema import rows_of
from hb_metrics.run.tables import Vectors
from hb_metrics.stats.gen_bias import CellSums, gen_bias
from hb_metrics.stats.gen_bias_intervals import SCALE
from hb_metrics.stats.inputs import DescriptorKey

if TYPE_CHECKING:
    from hb_metrics.collect.classifiers.classifier import Classifier

SENTENCES_FILE = Path(__file__).parent / "leakage_sentences.yaml"
NUM_MOST_SHOWN = 10
_JUDGES_STEP = 5
_STEM = 3  # all forms of a word begin with these letters
MENTION_SCHEMA = pa.schema([(name, pa.string()) for name in ("id", "axis", "descriptor")])
PEOPLE_SCHEMA = pa.schema([(name, pa.string()) for name in ("axis", "descriptor", "plural", "phrase", "neutral")])
# Each term is combined with the first of these nouns that the grammar allows, or else with another noun.
_NOUNS = ("person", "woman", "man")


class NamedPerson(NamedTuple):
    """A term in the forms that are inserted into sentences.

    `phrase` is the noun phrase ("a person who uses a wheelchair"). `neutral` is the same noun with the word that masks
    terms ("a left-handed person").
    """

    axis: str
    descriptor: str
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
        neutral = noun_phrase(Descriptor(axis="none", term=REPLACEMENT), noun)
        people.append(NamedPerson(term.axis, term.term, term.plural, noun_phrase(term, noun), neutral))
    return people


def people_of(prompts: pa.Table, vocabulary: Vocabulary) -> list[NamedPerson]:
    if has_names(prompts):
        names = prompts["descriptor"].unique().to_pylist()
        return [NamedPerson(NAMES_AXIS, name, None, name, NAME) for name in names]
    keys: set[tuple[str, str]] = set()
    for part in ("", "first_", "second_"):
        if f"{part}axis" in prompts.column_names:
            axes, terms = (prompts[f"{part}{name}"].to_pylist() for name in ("axis", "descriptor"))
            keys |= set(zip(axes, terms, strict=True))
    return named_people(vocabulary, keys)


def classifier_leakage(classifier: "Classifier", people: Sequence[NamedPerson]) -> pa.Table:
    """Classifies the sentences in leakage_sentences.yaml with every term (see `leakage_table`).

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

    of_axes: dict[str, list[int]] = {}
    for row, person in enumerate(people):
        of_axes.setdefault(person.axis, []).append(row)
    shares = np.abs(moves).sum(axis=2).mean(axis=0) / 2
    most = sorted(range(len(shares)), key=lambda row: (-shares[row], row))[:NUM_MOST_SHOWN]
    return Leakage(
        leakage=mean_variance(range(len(people))),
        shared=SCALE * float(moves.mean(axis=0).var(axis=0).sum()),
        by_axis={axis: mean_variance(rows) if len(rows) > 1 else None for axis, rows in sorted(of_axes.items())},
        num_terms=len(people),
        num_sentences=len(vectors),
        mean_move=float(shares.mean()),
        most_moved=[Moved(people[row].axis, people[row].descriptor, float(shares[row])) for row in most],
    )


def people_table(people: Sequence[NamedPerson]) -> pa.Table:
    return pa.Table.from_pylist([person._asdict() for person in people], PEOPLE_SCHEMA)


def people_in(table: pa.Table) -> list[NamedPerson]:
    """Returns the terms in a table of `people_table`."""
    return rows_of(table, NamedPerson)


def shipped_sentences() -> list[str]:
    return yaml.safe_load(SENTENCES_FILE.read_text(encoding="utf-8"))["sentences"]


class Mention(NamedTuple):
    term: int
    start: int
    end: int


def hidden_texts(
    texts: Sequence[str], mentions: Sequence[Sequence[Mention]], people: Sequence[NamedPerson]
) -> list[str]:
    """Masks all mentions of terms. `texts` and `mentions` have one element per reply."""
    mask, hidden = NAME if people[0].axis == NAMES_AXIS else REPLACEMENT, []
    for text, of_text in zip(texts, mentions, strict=True):
        starts, ends = [mention.start for mention in of_text], [mention.end for mention in of_text]
        kept = (text[start:end] for start, end in zip([0, *ends], [*starts, len(text)], strict=True))
        hidden.append(mask.join(kept))
    return hidden


def mention_table(ids: Sequence[str], mentions: Sequence[Sequence[Mention]], people: Sequence[NamedPerson]) -> pa.Table:
    """Makes a row for each reply and each term that the reply mentions."""
    rows = []
    for identifier, of_text in zip(ids, mentions, strict=True):
        for term in sorted({mention.term for mention in of_text}):
            rows.append({"id": identifier, "axis": people[term].axis, "descriptor": people[term].descriptor})
    return pa.Table.from_pylist(rows, MENTION_SCHEMA)


def leakage_in_replies(
    replies: Replies, style_probabilities: np.ndarray, mentions: pa.Table, hidden: Vectors | None, *, debias: bool
) -> InReplies:
    """Compares Full Gen Bias before and after masking all terms in replies.

    Args:
        replies: The run's replies.
        style_probabilities: [replies, styles] Their style vectors.
        mentions: The result of `mention_table`.
        hidden: The style vectors of the replies that mention terms, after all terms were masked. `None` if no reply
            mentions a term.
        debias: Whether sampling noise is subtracted from Full Gen Bias.
    """
    value = _full_gen_bias(style_probabilities, replies, debias)
    hidden_value = value
    if hidden is not None:
        row_of = {identifier: row for row, identifier in enumerate(replies.ids)}
        changed = style_probabilities.astype(np.float32)
        changed[[row_of[identifier] for identifier in hidden.ids]] = hidden.values
        hidden_value = _full_gen_bias(changed, replies, debias)
    counts = Counter(rows_of(mentions, DescriptorKey))
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:NUM_MOST_SHOWN]
    number = len(mentions["id"].unique())
    return InReplies(
        num_in_view=number,
        share_in_view=number / len(replies.ids),
        is_debiased=debias,
        value=value,
        hidden_value=hidden_value,
        own=value - hidden_value,
        most_in_view=[MostInView(str(key.axis), key.descriptor, number) for key, number in most],
    )


def mentions_in(
    texts: Sequence[str], people: Sequence[NamedPerson], own: Sequence[tuple[str, str]] = ()
) -> list[list[Mention]]:
    """Finds the mentions of terms in each text, from start to end.

    A mention is any form of a term that `censoring.mention_pattern` masks, or any spelling of the text's `own` axis and
    term that masking missed. If mentions overlap, only the longest counts. If several terms consist of the same words,
    the term whose capital letters match the text counts. If no term matches, the first term counts. "left-handed" never
    counts, because it replaces masked terms.
    """
    plain = [plain_text(text) for text in texts]
    texts_with: dict[str, set[int]] = defaultdict(set)  # by the first letters of their words
    for index, text in enumerate(plain):
        for word in set(re.findall(r"\w+", text.text.lower())):
            for end in range(1, _STEM + 1):
                texts_with[word[:end]].add(index)
    spans: list[list[tuple[int, bool, int, int, int]]] = [[] for _ in texts]
    term_of: dict[tuple[str, str], int] = {}
    for term, person in enumerate(people):
        if person.phrase == person.neutral:  # the word that masks terms is itself a term
            continue
        name, is_name = person.descriptor, person.axis == NAMES_AXIS
        term_of[person.axis, name] = term
        forms = re.findall(r"\w[^ -]+", name) if is_name else filter(None, [person.plural])
        candidates = set[int]().union(*(texts_with.get(_stem(form), ()) for form in (name, *forms)))
        pattern = name_pattern(name) if is_name else mention_pattern((name, person.plural))
        for index in candidates:
            for match in pattern.finditer(plain[index].text):
                start, end = match.span()
                spans[index].append((start - end, match[0] != name, term, start, end))
    for index, key in enumerate(own):
        if key in term_of:
            pattern = _misspelt_pattern(key[1])
            for match in pattern.finditer(as_it_looks(plain[index].text)):
                start, end = match.span()
                if key[0] != NAMES_AXIS or plain[index].text[start].isupper():
                    spans[index].append((start - end, True, term_of[key], start, end))
    return [_longest(of_text, text) for of_text, text in zip(spans, plain, strict=True)]


def _full_gen_bias(vectors: np.ndarray, replies: Replies, debias: bool) -> float:
    cells = CellSums(None)
    cells.add(vectors.astype(np.float32), replies.descriptors, replies.templates, replies.axes)
    with warnings.catch_warnings():  # the run has already warned about skipped templates
        warnings.simplefilter("ignore")
        return gen_bias(cells, debias=debias).full_gen_bias


def _stem(term: str) -> str:
    """Returns letters with which a word of each form of the term begins: those of its longest word or first part."""
    firsts = re.findall(r"(?<!\S)\W*(\w+)", plain_text(term).text.lower())
    return max(reversed(firsts), key=len)[:_STEM]


@cache
def _misspelt_pattern(term: str) -> re.Pattern[str]:
    letters = r"(?:[^\w\s']|_)*".join(filter(str.isalnum, as_it_looks(term)))
    return re.compile(rf"(?<![^\W_]){letters}(?![^\W_])")


def _longest(spans: Sequence[tuple[int, bool, int, int, int]], text: PlainText) -> list[Mention]:
    """Selects the spans that do not overlap with a longer span, as positions in the original text.

    A span consists of five values: its negative length, a flag for different capital letters in text and term, the
    term, the start and the end.
    """
    kept: list[Mention] = []
    taken: set[int] = set()
    for _, _, term, start, end in sorted(spans):  # from the longest, so no later span contains one that is kept
        if taken.isdisjoint((start, end - 1)):
            kept.append(Mention(term, start, end))
            taken.update(range(start, end))
    kept = [Mention(term, *text.original_span(start, end)) for term, start, end in kept]
    return sorted(kept, key=lambda mention: mention.start)
