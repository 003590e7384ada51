import numpy as np
import pytest
import torch
from scipy import stats

from hb_metrics.collect.replies import sampling
from hb_metrics.collect.replies.sampling import draw, draw_keys, gumbel_noise, splitmix64
from tests.hb_metrics.collect.replies import noise_by_hand

ALL = 2**31
SETTINGS = {"temperature": 1.0, "top_k": ALL, "top_p": 1.0, "close": 2e-4}
WAYS = {
    "all": {},
    "cool": {"temperature": 0.5},
    "top_k": {"top_k": 10, "temperature": 1.4},
    "top_k and top_p": {"top_k": 12, "top_p": 0.8},
    "top_p": {"top_p": 0.9, "temperature": 1.3},
    "small top_p": {"top_p": 0.2},
    "one token": {"top_k": 1},
}


def keys_of(num, seed=0):
    return torch.as_tensor(np.random.default_rng(seed).integers(-(2**63), 2**63, num))


def logits_of(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 1.5


def probabilities_of(logits, temperature, top_k, top_p, **_):
    """Softmax, then the likeliest, then the fewest of those with so much probability: with a sort, token by token."""
    order = np.argsort(-logits)[:top_k]
    mass = np.exp((logits[order] - logits.max()) / temperature)
    mass /= mass.sum()
    number = 1
    while top_p < 1 and mass[:number].sum() < top_p:
        number += 1
    kept = slice(None) if top_p == 1 else slice(number)
    result = np.zeros(len(logits))
    result[order[kept]] = mass[kept] / mass[kept].sum()
    return result


def test_splitmix64_gives_the_published_numbers():
    expected = [  # for the seed 1234567, as in the tests of many of its implementations
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    found = splitmix64(torch.tensor([1234567]), torch.arange(5))
    assert [number % 2**64 for number in found[0].tolist()] == expected


def test_noise_is_that_of_plain_python():
    keys, counters = keys_of(40), torch.tensor([0, 1, 7, 49151, 2**20, 2**40])
    found = gumbel_noise(keys, counters)
    for row, key in enumerate(keys.tolist()):
        bits = splitmix64(keys[row : row + 1], counters)[0].tolist()
        assert [counter % 2**64 for counter in bits] == [
            noise_by_hand.splitmix64(key, counter) for counter in counters.tolist()
        ]
        expected = [noise_by_hand.gumbel(key, counter) for counter in counters.tolist()]
        np.testing.assert_allclose(found[row], expected, rtol=1e-12)


def test_noise_is_finite_whatever_the_bits(monkeypatch):
    monkeypatch.setattr(sampling, "splitmix64", lambda keys, counters: torch.tensor([[0, -1, 2**63 - 1, -(2**63)]]))
    found = gumbel_noise(torch.zeros(1), torch.arange(4))[0]
    median = -np.log(np.log(2))
    np.testing.assert_allclose(found, [-np.log(53 * np.log(2)), 53 * np.log(2), median, median], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("related", ["random keys", "keys in a row"])
def test_noise_is_gumbel_and_independent(related):
    keys = keys_of(500) if related == "random keys" else torch.arange(500)
    noise = gumbel_noise(keys, torch.arange(1000)).numpy()
    assert stats.kstest(noise.ravel(), stats.gumbel_r.cdf).pvalue > 1e-3
    uniform = np.exp(-np.exp(-noise))
    shifted = (uniform[:, 1:], uniform[:, :-1]), (uniform[1:], uniform[:-1]), (uniform[:, 20:], uniform[:, :-20])
    for one, other in shifted:
        joint = np.histogram2d(one.ravel(), other.ravel(), bins=16, range=[[0, 1], [0, 1]])[0]
        assert stats.chisquare(joint.ravel()).pvalue > 1e-3
    assert stats.kstest(uniform.mean(0) * 12**0.5 * 500**0.5 - 3**0.5 * 500**0.5, "norm").pvalue > 1e-3  # by token
    assert stats.kstest(uniform.mean(1) * 12**0.5 * 1000**0.5 - 3**0.5 * 1000**0.5, "norm").pvalue > 1e-3  # by key


def test_keys_are_a_rows_own_and_the_first_ones_stay():
    keys = draw_keys(3, "sampling", "a prompt", 2000)
    assert keys.dtype == np.int64
    np.testing.assert_array_equal(draw_keys(3, "sampling", "a prompt", 7), keys[:7])
    whose = (4, "sampling", "a prompt"), (3, "other", "a prompt"), (3, "sampling", "b")
    others = [draw_keys(*which, 7) for which in whose]
    assert len({tuple(row) for row in (keys[:7], *others)}) == 4
    assert stats.kstest(keys / 2**64 + 0.5, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("vocabulary", [2, 17])
@pytest.mark.parametrize("way", WAYS)
def test_tokens_are_drawn_as_often_as_their_probability_says(way, vocabulary):
    settings = SETTINGS | WAYS[way]
    logits, num = logits_of(vocabulary, seed=vocabulary), 20_000
    if vocabulary > 4:
        logits[2] = -torch.inf  # may not come
    found, _ = draw(logits.expand(num, -1), keys_of(num), **settings)
    expected = probabilities_of(logits.double().numpy(), **settings)
    counts, drawn = np.bincount(found, minlength=vocabulary), expected > 0
    assert counts.shape == (vocabulary,)
    assert not counts[~drawn].any()
    if drawn.sum() > 1:
        rare = expected[drawn] * num < 5
        pairs = [[*of_kind[drawn][~rare].tolist(), of_kind[drawn][rare].sum()] for of_kind in (counts, expected * num)]
        observed, wanted = (np.array(of_kind)[np.array(pairs[1]) > 0] for of_kind in pairs)
        assert stats.chisquare(observed, wanted).pvalue > 1e-4


def test_as_many_decisions_are_close_as_gumbel_noise_brings_about():
    """Of tokens with probabilities p, one wins by a margin m with probability p / (p + exp(m) (1 − p))."""
    margin, num = 0.1, 40_000
    p = np.array([0.3, 0.05, 0.05, 0.1, 0.1, 0.2, 0.15, 0.05])
    _, close = draw(torch.tensor(p).log().expand(num, -1), keys_of(num), **SETTINGS | {"close": margin})
    expected = 1 - (p / (p + np.exp(margin) * (1 - p))).sum()
    assert stats.binomtest(int(close.sum()), num, expected).pvalue > 1e-4


@pytest.mark.parametrize("grid", [None, 0.25])
@pytest.mark.parametrize("way", WAYS)
def test_only_close_decisions_change_with_the_last_bits(way, grid):
    """Logits moved by half of what may be between two: what was not close stays, and of what was close some changes."""
    settings = SETTINGS | WAYS[way] | {"close": 0.01}
    num = 8000
    logits, keys = logits_of(num, 60), keys_of(num)
    if grid:
        logits = (logits / grid).round() * grid  # many as likely as each other
    found, close = draw(logits, keys, **settings)
    changed = torch.zeros_like(close)
    for seed in range(4):
        noise = torch.rand(num, 60, generator=torch.Generator().manual_seed(seed)) - 0.5
        noise = noise if seed % 2 else noise.sign() / 2
        changed |= draw(logits + noise * 0.0099, keys, **settings)[0] != found
    assert not (changed & ~close).any()
    assert changed.sum() > close.sum() / 20
    if grid is None:
        assert close.float().mean() < 0.05 + 4 * 0.01 / settings["temperature"]
