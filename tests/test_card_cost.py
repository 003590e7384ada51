"""The estimate of docs/performance.md: what it counts, against other ways of counting."""

import pytest

from tests.benchmarks import card_cost
from tests.benchmarks.card_cost import H100, MODEL, Card, Replying, Scoring, Weights

MODEL_8B = card_cost.weights(**MODEL)


def test_the_model_has_the_parameters_that_its_card_has():
    assert MODEL_8B.parameters == 8_030_261_248  # as the Hub shows of meta-llama/Llama-3.1-8B
    assert MODEL_8B.multiplied == 8_030_261_248 - 128_256 * 4096
    assert MODEL_8B.cached == 2 * 32 * 8 * 128 * 2  # keys and values, layers, heads, their width, bytes
    assert MODEL_8B.attention == 2 * 2 * 4096 * 32


def test_positions_are_the_prefixes_that_differ():
    sequences = [[0, 5, 6, 7], [0, 5, 6, 8], [0, 9], [0, 9], [0, 5, 6]]
    scoring = card_cost.count_scoring(sequences)
    # A sequence's last token is predicted and not run.
    prefixes = {tuple(sequence[:end]) for sequence in sequences for end in range(1, len(sequence))}
    assert scoring == Scoring(
        sentences=4, tokens=3 + 3 + 1 + 2, positions=len(prefixes), pairs=len(prefixes) ** 2, runs=1
    )


def test_times_are_work_over_rate():
    model = Weights(parameters=100, multiplied=80, attention=4, cached=8)
    card = Card(flops=1e3 / card_cost.UTILISATION, bandwidth=1e2 / card_cost.OF_BANDWIDTH)
    scoring = Scoring(sentences=9, tokens=30, positions=20, pairs=150, runs=2)
    assert card_cost.scoring_seconds(scoring, model, card) == pytest.approx(max((160 * 20 + 4 * 150) / 1e3, 400 / 1e2))
    replying = Replying(replies=10, prompt_tokens=50, batches=3, mean_context=5, mean_tokens=4, longest=6)
    assert card_cost.replying_seconds(replying, model, card) == pytest.approx(
        {
            "prompts": 160 * 50 / 1e3,
            "multiplying": 40 * (160 + 4 * 7) / 1e3,
            "reading": (18 * 200 + 40 * 7 * 8) / 1e2,
        }
    )


def test_the_card_is_at_its_dense_rate():
    assert H100.flops < 1e15 < 2 * H100.flops  # the data sheet's other figure, 1,979 TFLOP/s, is with sparsity
