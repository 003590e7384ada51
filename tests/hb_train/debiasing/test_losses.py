"""The debiasing losses against the paper's equations, by loops over the characters of texts with terms in them."""

import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cosine_similarity

from hb_train.debiasing.terms import ATTRIBUTES, encode_phrases, num_occurrences, read_terms, span_means, target_vectors
from hb_train.debiasing.trainer import add_loss, bias_subspace, hd_loss, lmd_loss
from hb_train.training.encoding import collate
from tests.hb_train.debiasing.test_terms import TEXTS, TOKENIZERS, pets

HIDDEN = 6
PHRASES = [*TEXTS, "a pup and a cat who sleep", "cat naps", "nobody is greedy"]
ATTRIBUTE_PATTERN = r"\b(greed\w*|sleep eaters|sleep)\b"
PRINTED_PAIRS = [("cat", "dog"), ("house cat", "guard dog"), ("cat", "pup")]


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), number=st.integers(1, 6), num_pairs=st.integers(1, 9))
def test_lmd_is_the_papers_sum(seed, number, num_pairs):
    generator = torch.Generator().manual_seed(seed)
    # The first three terms are the first ones of pairs, the others second ones; terms are in several pairs.
    pairs = torch.randint(3, (num_pairs, 2), generator=generator) + torch.tensor([0, 3])
    known = pairs.unique()
    terms = known[torch.randint(len(known), (number,), generator=generator)]
    logits = torch.randn(number, 6, generator=generator, dtype=torch.float64)
    probabilities = logits.softmax(1)  # over the words of P alone
    for row, loss in enumerate(lmd_loss(logits, terms, pairs).tolist()):
        its = [pair for pair in pairs.tolist() if terms[row] in pair]
        ratios = [abs(math.log(probabilities[row, t1] / probabilities[row, t2])) for t1, t2 in its]
        assert loss == pytest.approx(sum(ratios) / len(its), rel=1e-9)


@pytest.mark.parametrize(
    ("lengths", "k"),
    [((1, 1), 1), ((1, 1, 1), 2), ((1, 1, 1, 1), 2), ((3, 2, 2), 1), ((1.01, 1, 1, 1, 1), 3), ((5,), 1)],
)
def test_the_subspace_is_the_smallest_that_explains_half(lengths, k):
    targets = torch.cat([torch.diag(torch.tensor(lengths, dtype=torch.float64)), torch.zeros(1, len(lengths))])
    pairs = torch.tensor([[index, len(lengths)] for index in range(len(lengths))])
    subspace = bias_subspace(targets, pairs)
    assert subspace.shape == (len(lengths), k)
    assert torch.allclose(subspace.T @ subspace, torch.eye(k, dtype=torch.float64))


def covering(tokenizer, text, span):
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return [token for token, (first, stop) in enumerate(offsets) if max(first, span[0]) < min(stop, span[1])]


@pytest.mark.parametrize("name", ["words", "characters", "meta"])
def test_add_and_hd_are_the_papers_sums(name):
    """States and output layer are random; attributes and terms are found again by regular expressions."""
    tokenizer = TOKENIZERS[name]
    terms = read_terms(pets(), tokenizer)
    columns = collate(list(encode_phrases(PHRASES, tokenizer, terms, pets().attributes_1, max_length=None)[0]))
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(*columns["labels"].shape, HIDDEN, generator=generator)
    weight = torch.randn(len(tokenizer), HIDDEN, generator=generator)
    asked = []
    for text, of_text in zip(PHRASES, states, strict=True):
        for match in re.finditer(ATTRIBUTE_PATTERN, text, re.IGNORECASE):
            asked.append(of_text[covering(tokenizer, text, match.span())].mean(0))
    vectors = {}
    for word in {word for pair in PRINTED_PAIRS for word in pair}:
        ids = tokenizer(f"a {word}", add_special_tokens=False)["input_ids"]
        vectors[word] = weight[[ids[token] for token in covering(tokenizer, f"a {word}", (2, 2 + len(word)))]].mean(0)
    pairs = [(vectors[t1], vectors[t2]) for t1, t2 in PRINTED_PAIRS]

    assert num_occurrences(columns, ATTRIBUTES) == len(asked)
    given = span_means(states, columns[ATTRIBUTES]), target_vectors(weight, terms), terms.pairs
    gaps = [cosine_similarity(t1, a, dim=0) - cosine_similarity(t2, a, dim=0) for a in asked for t1, t2 in pairs]
    assert add_loss(*given).sum().item() == pytest.approx(sum(map(abs, gaps)).item(), rel=1e-4)
    matrix = torch.stack([(t1 - t2) / 2 for t1, t2 in pairs]).double()
    values, directions = torch.linalg.eigh(matrix.T @ matrix)
    explained = values.flip(0).cumsum(0) / values.sum()
    subspace = directions.flip(1)[:, : int((explained < 0.5).sum()) + 1]
    projected = sum((b * (b @ state)).norm() for state in torch.stack(asked).double() for b in subspace.T)
    assert hd_loss(*given).sum().item() == pytest.approx(projected.item(), rel=1e-4)
