"""The losses of whole batches of texts with terms in them, against loops over the texts' characters.

States and output layer are random; which of them count is found again by regular expressions, without the marks.
"""

import re

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity

from hb_train.debiasing import add, hd
from hb_train.debiasing.arguments import DebiasArguments
from hb_train.debiasing.method import MarkedBatch
from hb_train.debiasing.phrases import collate_phrases, encode_phrases, num_occurrences
from hb_train.debiasing.terms import read_terms
from tests.hb_train.debiasing.test_terms import TEXTS, TOKENIZERS, pets

HIDDEN = 6
PHRASES = [*TEXTS, "a pup and a cat who sleep", "cat naps", "nobody is greedy"]
TARGET_PATTERN, ATTRIBUTE_PATTERN = r"\b(house cat|guard dog|cat|dog|pup)\b", r"\b(greed\w*|sleep eaters|sleep)\b"
PRINTED_PAIRS = [("cat", "dog"), ("house cat", "guard dog"), ("cat", "pup")]


@pytest.fixture(params=["words", "characters", "meta"])
def batch(request):
    """The tokenizer, the terms, a batch of the phrases, random states of it and a random output layer."""
    tokenizer = TOKENIZERS[request.param]
    terms = read_terms(pets(), tokenizer)
    rows = encode_phrases(PHRASES, tokenizer, terms, pets().attributes_1, max_length=None)[0]
    columns = collate_phrases(list(rows))
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(*columns["labels"].shape, HIDDEN, generator=generator, requires_grad=True)
    weight = torch.randn(len(tokenizer), HIDDEN, generator=generator, requires_grad=True)
    return tokenizer, terms, columns, states, weight


def covering(tokenizer, text, span):
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return [token for token, (first, stop) in enumerate(offsets) if max(first, span[0]) < min(stop, span[1])]


def asked_states(tokenizer, states, which):
    """[occurrences, hidden] the states that a value of --neutralized_states names, by loops over the texts."""
    chosen = []
    for text, of_text in zip(PHRASES, states, strict=True):
        if which == "attributes":
            spans = [match.span() for match in re.finditer(ATTRIBUTE_PATTERN, text, re.IGNORECASE)]
            chosen += [of_text[covering(tokenizer, text, span)].mean(0) for span in spans]
            continue
        spans = [match.span() for match in re.finditer(TARGET_PATTERN, text, re.IGNORECASE)]
        tokens = [covering(tokenizer, text, span) for span in spans]
        predicted = set()
        if which != "rest":
            predicted |= {of_term[0] for of_term in tokens}
        if which != "targets" and tokens:
            predicted |= set(range(tokens[0][-1] + 1, len(tokenizer(text, add_special_tokens=False)["input_ids"])))
        chosen += [of_text[token - 1] for token in sorted(predicted) if token > 0]
    return torch.stack(chosen)


def pair_vectors(tokenizer, weight):
    """The vectors of the printed pairs: the means of the sub-words' as the tokenizer writes them after a space."""
    vectors = {}
    for word in {word for pair in PRINTED_PAIRS for word in pair}:
        text = f"a {word}"
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        vectors[word] = weight[[ids[token] for token in covering(tokenizer, text, (2, len(text)))]].mean(0)
    return [(vectors[t1], vectors[t2]) for t1, t2 in PRINTED_PAIRS]


@pytest.mark.parametrize("which", ["attributes", "targets", "rest", "targets_and_rest"])
def test_hd_neutralises_the_states_that_are_asked_for(which, batch):
    tokenizer, terms, columns, states, weight = batch
    arguments = DebiasArguments(neutralized_states=which)
    marks = hd.METHOD.marks(arguments)
    loss = hd.METHOD.make_loss(terms, lambda: weight, arguments)(MarkedBatch(states, states, columns[marks]))

    asked = asked_states(tokenizer, states, which)
    assert num_occurrences(columns, marks) == len(asked)
    matrix = np.stack([((t1 - t2) / 2).detach().numpy() for t1, t2 in pair_vectors(tokenizer, weight)]).astype(float)
    values, directions = np.linalg.eigh(matrix.T @ matrix)
    explained = np.cumsum(values[::-1]) / values.sum()
    subspace = torch.tensor(directions[:, ::-1][:, : int(np.argmax(explained >= 0.5)) + 1].copy())
    expected = sum((b * (b @ state)).norm() for state in asked.double() for b in subspace.T)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)

    loss.backward()
    assert weight.grad is None
    (expected_grad,) = torch.autograd.grad(expected, states)
    assert torch.allclose(states.grad, expected_grad, atol=1e-4)


@pytest.mark.parametrize("vectors", ["detached", "learned"])
def test_add_moves_the_targets_only_if_they_are_learned(vectors, batch):
    tokenizer, terms, columns, states, weight = batch
    arguments = DebiasArguments(target_vectors=vectors)
    marks = columns[add.METHOD.marks(arguments)]
    loss = add.METHOD.make_loss(terms, lambda: weight, arguments)(MarkedBatch(states, states, marks))

    used = weight if vectors == "learned" else weight.detach()
    expected = sum(
        (cosine_similarity(t1, state, dim=0) - cosine_similarity(t2, state, dim=0)).abs()
        for state in asked_states(tokenizer, states, "attributes")
        for t1, t2 in pair_vectors(tokenizer, used)
    )
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    expected_grads = torch.autograd.grad(expected, [states, weight], allow_unused=True)
    loss.backward()
    assert torch.allclose(states.grad, expected_grads[0], atol=1e-4)
    if vectors == "detached":
        assert weight.grad is expected_grads[1] is None
    else:
        assert torch.allclose(weight.grad, expected_grads[1], atol=1e-4)
        assert weight.grad.abs().max() > 0.01


def test_the_defaults_are_the_papers():
    arguments = DebiasArguments()
    assert (arguments.target_vectors, arguments.neutralized_states) == ("detached", "attributes")
