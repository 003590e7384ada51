"""Measures of responses against loops, closed forms and figures computed by hand."""

import math
import random
from collections import Counter

import pytest

from hb_train.tasks.response_metrics import distinct_ngrams, ngram_entropy, nist, response_metrics, words

WORDS = ["we", "like", "tea", "and", "cake", "very", "much"]


def random_sentences(number, seed):
    drawn = random.Random(seed)
    return [[drawn.choice(WORDS) for _ in range(drawn.randint(0, 9))] for _ in range(number)]


def ngrams_by_loop(sentences, size):
    ngrams = []
    for sentence in sentences:
        for start in range(len(sentence)):
            if start + size <= len(sentence):
                ngrams.append(" ".join(sentence[start : start + size]))
    return ngrams


@pytest.mark.parametrize("size", [1, 2, 4])
def test_entropy_and_distinct_equal_their_formulas_by_loops(size):
    sentences = random_sentences(30, 0)
    ngrams = ngrams_by_loop(sentences, size)
    entropy = 0.0
    for ngram in set(ngrams):
        share = ngrams.count(ngram) / len(ngrams)
        entropy -= share * math.log(share)
    assert ngram_entropy(sentences, size) == pytest.approx(entropy)
    assert distinct_ngrams(sentences, size) == pytest.approx(len(set(ngrams)) / len(ngrams))


def test_entropy_of_equal_and_of_different_ngrams():
    assert ngram_entropy([list("abcd")] * 5, 4) == 0.0
    assert ngram_entropy([[str(index), "x"] for index in range(8)], 2) == pytest.approx(math.log(8))
    assert ngram_entropy([list("abc"), []], 4) is None
    assert distinct_ngrams([[], []], 2) is None
    assert distinct_ngrams([["a"], ["b"]], 2) is None


def test_words_are_those_of_mteval_in_lower_case():
    assert words("Well, I'd say 3.5 (or so)!") == ["well", ",", "i'd", "say", "3.5", "(", "or", "so", ")", "!"]
    assert words("") == []


def bleu_by_hand(response, references):
    log_precision = 0.0
    for size in range(1, 5):
        counts = Counter(ngrams_by_loop([response], size))
        allowed = Counter()
        for reference in references:
            allowed |= Counter(ngrams_by_loop([reference], size))
        log_precision += math.log((counts & allowed).total() / counts.total()) / 4
    closest = min((abs(len(reference) - len(response)), len(reference)) for reference in references)[1]
    return 100 * math.exp(log_precision) * min(1, math.exp(1 - closest / len(response)))


def test_bleu_of_several_references_by_hand():
    response = "we like tea and cake very much today"
    references = ["we like tea and biscuits", "they say that we like tea and cake a lot indeed"]
    metrics = response_metrics([response], [references])
    expected = bleu_by_hand(response.split(), [reference.split() for reference in references])
    assert metrics["bleu_4"] == pytest.approx(expected)
    assert "tok:13a" in metrics["bleu_signature"]
    assert "case:lc" in metrics["bleu_signature"]
    assert metrics["num_references"] == 2
    both = response_metrics([response, "good morning"], [references, ["x y"]])  # unequal numbers of references
    assert (both["num_references"], both["dist_2"]) == (3, 100)


def mteval_nist(responses, references, size):
    """NIST as the Perl of mteval-v13a computes it, in loops over strings; references: a list for each translator."""
    counts, num_words = {}, 0
    for translator in references:
        for reference in translator:
            num_words += len(reference)
            for order in range(1, size + 1):
                for ngram in ngrams_by_loop([reference], order):
                    counts[ngram] = counts.get(ngram, 0) + 1
    information = {}
    for ngram, count in counts.items():
        before = " ".join(ngram.split(" ")[:-1])
        information[ngram] = -math.log(count / counts[before] if before else count / num_words) / math.log(2)
    score, num_tested, num_in_references = 0.0, 0, 0
    for order in range(1, size + 1):
        tested, matched = 0, 0.0
        for row, response in enumerate(responses):
            own = ngrams_by_loop([response], order)
            tested += len(own)
            for ngram in set(own):
                most = max(ngrams_by_loop([translator[row]], order).count(ngram) for translator in references)
                if most:
                    matched += information[ngram] * min(own.count(ngram), most)
        score += matched / max(tested, 1)
    for row, response in enumerate(responses):
        num_tested += len(response)
        num_in_references += sum(len(translator[row]) for translator in references)
    ratio = num_tested / (num_in_references / len(references))
    penalty = 1.0 if ratio >= 1 else math.exp(math.log(0.5) / math.log(1.5) ** 2 * math.log(ratio) ** 2)
    return score * penalty


@pytest.mark.parametrize("num_references", [1, 3])
def test_nist_of_several_references_is_mtevals(num_references):
    responses = random_sentences(20, 0)
    references = [[[*words, "end"] for words in random_sentences(20, 1 + n)] for n in range(num_references)]
    for size in (1, 2, 5):
        of_responses = [list(each) for each in zip(*references, strict=True)]
        assert nist(responses, of_responses, size) == pytest.approx(mteval_nist(responses, references, size))


def test_meteor_counts_stems_and_takes_the_best_reference():
    same = response_metrics(["we like tea"], [["nothing here", "we like tea"]])
    # One chunk of three: penalty 0.5 (1/3)³.
    assert same["meteor_exact_stem"] == pytest.approx(100 * (1 - 0.5 / 27))
    stems = response_metrics(["we liked teas"], [["we like tea"]])
    assert stems["meteor_exact_stem"] == pytest.approx(same["meteor_exact_stem"])
    # Precision 1, recall 1/2, F = PR / (0.9 P + 0.1 R), one chunk of two.
    half = response_metrics(["we like"], [["we like tea today"]])
    assert half["meteor_exact_stem"] == pytest.approx(100 * 0.5 / (0.9 + 0.05) * (1 - 0.5 / 8))


def test_responses_with_nothing_in_them_count():
    metrics = response_metrics([None, "we like tea", ""], [["yes"], ["we like tea"], ["no"]])
    alone = response_metrics(["we like tea"], [["we like tea"]])
    assert metrics["num_empty"] == 2
    assert metrics["num_responses"] == 3
    assert metrics["meteor_exact_stem"] == pytest.approx(alone["meteor_exact_stem"] / 3)
    assert metrics["mean_length"] == pytest.approx(1)
    silent = response_metrics([None], [["yes"]])
    assert (silent["bleu_4"], silent["nist_2"], silent["entropy_4"], silent["dist_2"]) == (0, None, None, None)
