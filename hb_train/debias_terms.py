"""The terms of a bias specification in a model's tokens: how they are written, and where they stand in a text.

Terms are whole words in any case, the longest first: "african american" is no "american". An attribute may end in a
wildcard: "greed*" is greed, greedy, greediness. Places are found in the text and carried over to the tokens that cover
it, so that a term of several sub-words, after a space or at the start of a text, is found whatever the tokenizer.
"""

import re
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import torch
from transformers import PreTrainedTokenizerBase

from hb_dataset.bias_specification import BiasSpecification

_CASES = (str.lower, str.title, str.upper)
# A term's forms: what stands in a text is compared with terms in the same case, and as much after a space.
NUM_FORMS = 2 * len(_CASES)
RUNNING_FORM = 1  # in lower case, after a space: how a term is written in running text

NO_OFFSETS_ERROR = "the tokenizer does not tell which characters a token covers; give a model with a fast tokenizer"
NO_PAIRS_ERROR = "specification '{name}' has no pairs of target terms; give some"
NO_TOKENS_ERROR = "the tokenizer makes no token of the target term in {place}; leave it out"


class Terms(NamedTuple):
    """The terms of P in a model's tokens.

    Attributes:
        terms: The terms, each once.
        pairs: [pairs, 2] the distinct pairs, as indices of terms.
        ids: [forms, terms, longest] their tokens, −1 behind the last.
    """

    terms: tuple[str, ...]
    pairs: torch.Tensor
    ids: torch.Tensor


class Match(NamedTuple):
    """A term in a text: characters from `start` to before `end`, and which of the terms it is."""

    start: int
    end: int
    term: int


def read_terms(
    specification: BiasSpecification, tokenizer: PreTrainedTokenizerBase, *, with_forms: bool = False
) -> Terms:
    """The terms of a specification's pairs, and their tokens in each form.

    Args:
        specification: The bias type.
        tokenizer: The model's, a fast one.
        with_forms: Whether plurals and other forms of a pair's terms are pairs too, so that they are found in texts;
            else P is as printed, and no pair weighs more for having a plural.

    Raises:
        ValueError: There are no pairs, or the tokenizer cannot be used.
    """
    pairs = list(dict.fromkeys((pair.t1.lower(), pair.t2.lower()) for pair in specification.pairs))
    if with_forms:
        forms = [(t1.lower(), t2.lower()) for pair in specification.pairs for t1, t2 in pair.forms]
        plurals = [(f"{t1}s", f"{t2}s") for t1, t2 in pairs if not (t1.endswith("s") or t2.endswith("s"))]
        pairs = list(dict.fromkeys([*pairs, *forms, *plurals]))
    if not pairs:
        raise ValueError(NO_PAIRS_ERROR.format(name=specification.bias_type))
    terms = tuple(dict.fromkeys(term for pair in pairs for term in pair))
    written = [
        [_tokens_of(case(term), tokenizer, after_space=after_space, place=place) for place, term in enumerate(terms)]
        for case, after_space in product(_CASES, (False, True))
    ]
    ids = torch.full((NUM_FORMS, len(terms), max(len(each) for form in written for each in form)), -1)
    for form, term in product(range(NUM_FORMS), range(len(terms))):
        tokens = written[form][term]
        ids[form, term, : len(tokens)] = torch.tensor(tokens)
    return Terms(terms, torch.tensor([[terms.index(t1), terms.index(t2)] for t1, t2 in pairs]), ids)


def term_pattern(terms: Sequence[str]) -> re.Pattern[str]:
    """A pattern that finds whole words, and words that begin so where a term ends in `*`; one group for each term."""
    order = sorted(range(len(terms)), key=lambda place: -len(terms[place]))
    return re.compile(
        r"(?<!\w)(?:" + "|".join(f"(?P<t{place}>{_pattern(terms[place])})" for place in order) + r")(?!\w)",
        re.IGNORECASE,
    )


def find_terms(text: str, pattern: re.Pattern[str]) -> list[Match]:
    """Where terms stand in a text, from left to right, none inside another."""
    return [Match(*found.span(), int(str(found.lastgroup)[1:])) for found in pattern.finditer(text)]


def form_of(text: str, match: Match) -> int:
    """In which form the term stands in the text."""
    word = text[match.start : match.end]
    case = 2 if len(word) > 1 and word.isupper() else int(word[0].isupper())
    return 2 * case + (text[match.start - 1 : match.start] == " ")


def covering(offsets: Sequence[tuple[int, int]], start: int, end: int) -> list[int]:
    """The tokens that cover some of the characters from `start` to before `end`."""
    return [place for place, (first, last) in enumerate(offsets) if first < end and last > start and last > first]


def term_vectors(weight: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """The terms' vectors: the mean of their sub-words' (footnote 12).

    Args:
        weight: [vocabulary, hidden] of the output layer.
        ids: [terms, longest] their tokens, −1 behind the last.

    Returns:
        [terms, hidden].
    """
    there = ids >= 0
    return (weight[ids.clamp(min=0)] * there[..., None]).sum(1) / there.sum(1, keepdim=True)


def term_logits(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """The terms' logits: the mean of their sub-words', which is the logit of the mean of their vectors (footnote 12).

    Args:
        logits: [occurrences, vocabulary].
        ids: [occurrences, terms, longest] the terms' tokens in the form of the occurrence, −1 behind the last.

    Returns:
        [occurrences, terms].
    """
    there = ids >= 0
    found = logits.gather(1, ids.clamp(min=0).flatten(1)).view(ids.shape)
    return (found * there).sum(2) / there.sum(2)


def span_means(vectors: torch.Tensor, spans: torch.Tensor) -> torch.Tensor:
    """The mean vector of each attribute in a batch (footnote 12).

    Args:
        vectors: [rows, length, hidden].
        spans: [rows, length] 0 where there is no attribute, else which of the row's it is of, from 1.

    Returns:
        [occurrences, hidden].
    """
    inside = spans > 0
    rows = torch.arange(len(spans), device=spans.device)[:, None].expand_as(spans)
    keys = (rows * (spans.max() + 1) + spans)[inside]
    which, number = keys.unique(return_inverse=True, return_counts=True)[1:]
    sums = vectors.new_zeros(len(number), vectors.shape[2]).index_add(0, which, vectors[inside])
    return sums / number[:, None]


def _pattern(term: str) -> str:
    words = (re.escape(word.removesuffix("*")) + (r"\w*" if word.endswith("*") else "") for word in term.split())
    return r"\s+".join(words)


def _tokens_of(word: str, tokenizer: PreTrainedTokenizerBase, *, after_space: bool, place: int) -> list[int]:
    """The tokens of a word, after a space or at the start of a text."""
    if not tokenizer.is_fast:
        raise ValueError(NO_OFFSETS_ERROR)
    before = "a " if after_space else ""
    encoded = tokenizer(before + word, add_special_tokens=False, return_offsets_mapping=True)
    tokens = covering(encoded["offset_mapping"], len(before), len(before) + len(word))
    if not tokens:
        raise ValueError(NO_TOKENS_ERROR.format(place=f"place {place + 1} of the pairs' terms"))
    return [encoded["input_ids"][token] for token in tokens]
