"""Measures how close responses are to people's replies, and how varied they are.

Barikeri et al. (2021, section 3 and appendix C.1) use the measures of DialoGPT (Zhang et al., 2020), but do not name a
tokenizer. This toolkit uses sacrebleu's tokenizer `13a` on lower-case text, so figures are comparable only between runs
of this toolkit.

`meteor` requires nltk's WordNet corpus (`python -m nltk.downloader wordnet`). `meteor_exact_stem` ignores synonyms.
nltk uses the parameters of Banerjee and Lavie (2005), and not those of the program METEOR 1.5.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

# NIST halves the score if the responses are two thirds as long as the references.
_NIST_BETA = math.log(0.5) / math.log(1.5) ** 2


def response_metrics(responses: Sequence[str | None], references: Sequence[Sequence[str]]) -> dict[str, object]:
    """Computes all measures of responses. An undefined measure is `None`.

    All measures include empty responses. BLEU-4 and METEOR range from 0 to 100. NIST-2 is in bits and `entropy_4` in
    nats. `dist_2` is the number of distinct bigrams per 100 bigrams. Each prompt needs a reference that contains a
    word.

    BLEU-4 and NIST-2 are computed over the whole set. If no n-gram of some length matches, BLEU-4 is smoothed as in
    mteval. METEOR is the mean over responses, and compares each response with its best reference.
    """
    texts = [response or "" for response in responses]
    tokens = [words(text) for text in texts]
    reference_tokens = [list(filter(None, map(words, replies))) for replies in references]
    bleu, signature = _bleu(texts, references)
    wordnet = _wordnet()
    dist = distinct_ngrams(tokens, 2)
    return {
        "bleu_4": bleu,
        "nist_2": nist(tokens, reference_tokens, 2),
        "meteor": None if wordnet is None else _meteor(tokens, reference_tokens, wordnet),
        "meteor_exact_stem": _meteor(tokens, reference_tokens, SimpleNamespace(synsets=lambda word: [])),
        "entropy_4": ngram_entropy(tokens, 4),
        "dist_2": None if dist is None else 100 * dist,
        "mean_length": sum(map(len, tokens)) / len(tokens),
        "num_responses": len(tokens),
        "num_empty": sum(not response for response in tokens),
        "num_references": sum(map(len, reference_tokens)),
        "bleu_signature": signature,
    }


def nist(tokens: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]], size: int) -> float | None:
    """Computes NIST of all responses in bits, for n-grams up to the length `size` (Doddington, 2002; mteval-v13a).

    Each n-gram that a response shares with a reference is weighted by its information, log2(a / b). b is the number of
    times that the n-gram occurs in the references. a is the number of times that its first n − 1 words occur in the
    references or, if n = 1, the number of all words in the references. In a response, an n-gram counts at most as often
    as it occurs in any one reference.

    The length of a response is compared with the mean length of its references. (mteval requires the same number of
    references for all responses.) Returns `None` if all responses are shorter than `size` words.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    reference_length = 0.0
    for replies in references:
        reference_length += sum(map(len, replies)) / len(replies)
        for reply in replies:
            counts[()] += len(reply)
            for order in range(1, size + 1):
                counts.update(_ngrams(reply, order))
    score = 0.0
    for order in range(1, size + 1):
        information, total = 0.0, 0
        for response, replies in zip(tokens, references, strict=True):
            most: Counter[tuple[str, ...]] = Counter()
            for reply in replies:
                most |= Counter(_ngrams(reply, order))
            own = Counter(_ngrams(response, order))
            total += own.total()
            for ngram, number in (own & most).items():
                information += number * math.log2(counts[ngram[:-1]] / counts[ngram])
        if not total:
            return None
        score += information / total
    ratio = min(sum(map(len, tokens)) / reference_length, 1)
    return score * math.exp(_NIST_BETA * math.log(ratio) ** 2)


def ngram_entropy(tokens: Iterable[Sequence[str]], size: int) -> float | None:
    """Computes the entropy −Σ p ln p of the n-grams of all responses (Zhang et al., 2018, "Ent-n")."""
    counts = Counter(ngram for response in tokens for ngram in _ngrams(response, size))
    total = counts.total()
    if not total:
        return None
    entropy = math.fsum(-count / total * math.log(count / total) for count in counts.values())
    return entropy + 0.0  # turns -0.0 into 0.0


def distinct_ngrams(tokens: Sequence[Sequence[str]], size: int) -> float | None:
    """Computes the share of distinct n-grams (Li et al., 2016, "distinct-n")."""
    ngrams = [ngram for response in tokens for ngram in _ngrams(response, size)]
    return len(set(ngrams)) / len(ngrams) if ngrams else None


def words(text: str) -> list[str]:
    return _tokenizer()(text.lower()).split()


def _ngrams(tokens: Sequence[str], size: int) -> Iterable[tuple[str, ...]]:
    return (tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1))


@cache
def _tokenizer() -> Any:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    return Tokenizer13a()


def _bleu(texts: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, str]:
    from sacrebleu.metrics import BLEU

    metric = BLEU(lowercase=True, tokenize="13a")
    # sacrebleu takes a list of all first references, then a list of all second references, and so on, with `None` for a
    # missing reference.
    streams: list[Any] = []
    for number in range(max(map(len, references))):
        streams.append([replies[number] if number < len(replies) else None for replies in references])
    return metric.corpus_score(list(texts), streams).score, str(metric.get_signature())


def _meteor(tokens: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]], wordnet: Any) -> float:
    from nltk.translate.meteor_score import meteor_score

    scores = []
    for replies, response in zip(references, tokens, strict=True):
        scores.append(meteor_score(replies, response, wordnet=wordnet) if response else 0.0)
    return 100 * math.fsum(scores) / len(scores)


def _wordnet() -> Any:
    from nltk.corpus import wordnet

    try:
        wordnet.ensure_loaded()
    except LookupError:
        return None
    return wordnet
