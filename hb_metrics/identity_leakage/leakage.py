"""Identity leakage of a style classifier: how far its probabilities move when only the term in a text changes.

Every term of a vocabulary is put into the same plain sentences. With p_kds the probability of style s for sentence k
about descriptor d, and Var_d the variance over descriptors,

    leakage = mean over k of Σ_s Var_d(p_kds)

is Full Gen Bias (Smith et al., 2022, A.7) with sentences for templates: the value that this classifier would give to a
speaker who says the same of everyone, if terms were not hidden from it. p is less the probability with the same noun
and the word that terms are hidden by, so that nothing of the noun is in it: the few gendered terms have another one.
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import yaml
from huggingface_hub.constants import HF_HOME

from hb_dataset.noun_phrases import agreeing, noun_phrase
from hb_dataset.vocabulary import Vocabulary
from hb_dataset.vocabulary_entries import SINGULAR_SLOT, Descriptor, PersonNoun
from hb_dataset.whole_files import write_atomically
from hb_metrics.inference.classifiers.censoring import REPLACEMENT
from hb_metrics.stats.bias_values import DescriptorKey

if TYPE_CHECKING:
    from hb_metrics.inference.classifiers.classifier import Classifier

SENTENCES_FILE = Path(__file__).parent / "sentences.yaml"
SCALE = 1000  # as the paper's Gen Bias
NUM_MOST_MOVED = 10
# The nouns that terms are put beside: the first of these that grammar allows, else any.
_NOUNS = ("person", "woman", "man")


class NamedPerson(NamedTuple):
    """A term as it is put into sentences.

    Attributes:
        key: The descriptor and its axis.
        plural: The term after a plural noun, where that is another.
        phrase: The noun phrase: "a person who uses a wheelchair".
        neutral: The same noun with the word that terms are hidden by: "a left-handed person".
    """

    key: DescriptorKey
    plural: str | None
    phrase: str
    neutral: str


class Leakage(NamedTuple):
    """How far the probabilities of a classifier move with the term.

    Attributes:
        moves: [sentences, terms, styles] float32, how much larger the probability of a style is than with the neutral
            phrase of the same noun.
        people: [terms] the terms.
        leakage: The mean over sentences of the summed variance over terms, ×1000.
        shared: The part that all sentences have in common: the summed variance of the mean over sentences, ×1000.
        by_axis: Axis → `leakage` among its terms; `None` for an axis with a single term.
    """

    moves: np.ndarray
    people: list[NamedPerson]
    leakage: float
    shared: float
    by_axis: dict[str, float | None]


def named_people(vocabulary: Vocabulary, keys: Collection[tuple[str, str]] | None = None) -> list[NamedPerson]:
    """The terms of a vocabulary as noun phrases: with "person", or the first noun of their gender.

    Args:
        vocabulary: The vocabulary.
        keys: Axis and term of those that are wanted; `None`: all.

    Raises:
        ValueError: A term agrees with no noun of the vocabulary.
    """
    nouns = sorted(vocabulary.nouns, key=lambda noun: _NOUNS.index(noun.noun) if noun.noun in _NOUNS else len(_NOUNS))
    people = []
    for term in vocabulary.descriptors:
        if keys is not None and (term.axis, term.term) not in keys:
            continue
        allowed = agreeing(term, nouns)
        if not allowed:
            raise ValueError(
                f"the vocabulary has no noun that agrees with the term '{term.term}'; add one to nouns.yaml"
            )
        noun = nouns[allowed[0]]
        key = DescriptorKey(term.axis, term.term)
        people.append(NamedPerson(key, term.plural, noun_phrase(term, noun), _neutral_phrase(noun)))
    return people


def identity_leakage(
    probabilities: Callable[[Sequence[str]], np.ndarray], people: Sequence[NamedPerson], sentences: Sequence[str]
) -> Leakage:
    """Classifies every sentence with every term.

    Args:
        probabilities: The classifier: [texts, styles] float64 of texts, each row summing to 1.
        people: The terms; two or more.
        sentences: Sentences with "{noun_phrase}" in each, once.
    """
    phrases = list(dict.fromkeys(phrase for person in people for phrase in (person.phrase, person.neutral)))
    index_of = {phrase: index for index, phrase in enumerate(phrases)}
    texts = [sentence.replace(SINGULAR_SLOT, phrase) for sentence in sentences for phrase in phrases]
    vectors = probabilities(texts).reshape(len(sentences), len(phrases), -1)
    named, neutral = (
        vectors[:, [index_of[getattr(person, name)] for person in people]] for name in ("phrase", "neutral")
    )
    # In the order of memory that it is read back in: sums over another differ in their last bits.
    return leakage_of(np.ascontiguousarray(named - neutral, np.float32), people)


def leakage_of(moves: np.ndarray, people: Sequence[NamedPerson]) -> Leakage:
    """The figures of `identity_leakage` from [sentences, terms, styles] moves."""
    exact = moves.astype(np.float64)

    def mean_variance(terms: Sequence[int]) -> float:
        return SCALE * float(exact[:, terms].var(axis=1).sum(axis=1).mean())

    rows_of: dict[str, list[int]] = {}
    for row, person in enumerate(people):
        rows_of.setdefault(str(person.key.axis), []).append(row)
    return Leakage(
        moves,
        list(people),
        leakage=mean_variance(range(len(people))),
        shared=SCALE * float(exact.mean(axis=0).var(axis=0).sum()),
        by_axis={axis: mean_variance(rows) if len(rows) > 1 else None for axis, rows in sorted(rows_of.items())},
    )


def kept_leakage(
    classifier: "Classifier", people: Sequence[NamedPerson], cache_dir: str | Path | None = None
) -> Leakage:
    """`identity_leakage` over the shipped sentences, kept in a file for each classifier and set of terms.

    Args:
        classifier: The style classifier.
        people: The terms.
        cache_dir: Where the files are; `None`: `$HF_HOME`. If it cannot be written, nothing is kept.
    """
    sentences = shipped_sentences()
    depends_on = (classifier.digest, classifier.version, classifier.temperature, classifier.labels, people, sentences)
    digest = hashlib.sha256(repr(depends_on).encode()).hexdigest()
    path = Path(cache_dir or HF_HOME) / "holistic_bias" / f"leakage-{digest[:16]}.npz"
    moves = _kept(path, digest)
    if moves is not None:
        return leakage_of(moves, people)
    leakage = identity_leakage(classifier.probabilities, people, sentences)
    with suppress(OSError):  # it is computed again the next time
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, partial(_save, moves=leakage.moves, digest=digest))
    return leakage


def shipped_sentences() -> list[str]:
    """The plain sentences, with "{noun_phrase}" where the person is named."""
    return yaml.safe_load(SENTENCES_FILE.read_text(encoding="utf-8"))["sentences"]


def leakage_results(leakage: Leakage) -> dict[str, Any]:
    """The figures as plain values, with the terms that move the probabilities most.

    Returns:
        `leakage`, `shared`, `by_axis`, `num_terms`, `num_sentences`, and `most_moved`: `axis`, `descriptor` and `move`
        of the terms with the longest mean move, which is the summed difference of probabilities, halved: 0 if nothing
        moves, 1 if all probability goes to other styles.
    """
    shares = np.abs(leakage.moves.astype(np.float64)).sum(axis=2).mean(axis=0) / 2
    most = sorted(range(len(shares)), key=lambda row: (-shares[row], row))[:NUM_MOST_MOVED]
    return {
        "leakage": leakage.leakage,
        "shared": leakage.shared,
        "by_axis": leakage.by_axis,
        "num_terms": len(leakage.people),
        "num_sentences": len(leakage.moves),
        "mean_move": float(shares.mean()),
        "most_moved": [{**leakage.people[row].key._asdict(), "move": float(shares[row])} for row in most],
    }


def _neutral_phrase(noun: PersonNoun) -> str:
    return noun_phrase(Descriptor(axis="none", term=REPLACEMENT), noun)


def _kept(path: Path, digest: str) -> np.ndarray | None:
    """The moves that were computed before; `None` if there are none, or their file is damaged or of another digest."""
    try:
        with path.open("rb") as file, np.load(file) as stored:  # checks the CRC of each array
            if str(stored["digest"]) == digest and np.isfinite(stored["moves"]).all():
                return stored["moves"]
    except Exception:  # noqa: BLE001 - whatever it is, they are computed again
        return None
    return None


def _save(path: Path, moves: np.ndarray, digest: str) -> None:
    with path.open("wb") as file:  # given a path, numpy would add a suffix
        np.savez_compressed(file, moves=moves, digest=np.array(digest))
