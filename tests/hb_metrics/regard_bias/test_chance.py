import numpy as np
import pytest

from hb_metrics.regard_bias import cell_means
from hb_metrics.regard_bias.chance import by_chance
from hb_metrics.regard_bias.regard_results import regard_bias
from hb_metrics.regard_bias.structure_cosines import pairwise_cosine
from hb_metrics.regard_bias.structure_results import Pair, structure_gaps
from tests.hb_metrics.regard_bias.rows import dealt


def test_structures_that_make_no_difference_are_as_chance_has_them():
    generator, outside, turned, expected = np.random.default_rng(5), [], [], []
    for number in range(300):
        counts = np.zeros((2, 20, 4), dtype=int)
        for group, shares in enumerate(([0.2, 0.2, 0.6], [0.3, 0.3, 0.4])):
            counts[group, :, :3] = generator.multinomial(3, shares, size=20)
        results = by_chance(counts, {"gender": Pair(0, 1)}, n_shuffles=200, seed=number)
        low, high = results["single_structures_range"]
        outside.append(not low <= pairwise_cosine(cell_means.cell_means(counts).T).mean <= high)
        if results["num_flipped"]["gender"] is None:  # without a gap there is nothing to turn
            continue
        gaps = structure_gaps(cell_means.cell_means(counts), Pair(0, 1))
        turned.append((gaps * gaps.mean() < 0).sum())
        expected.append(results["num_flipped"]["gender"])
    assert np.mean(outside) == pytest.approx(0.05, abs=0.035)
    assert np.mean(turned) == pytest.approx(np.mean(expected), abs=0.25)


def test_structures_that_make_all_the_difference_go_beyond_chance():
    results = dealt(lambda group, structure, _: "positive" if (group == "man") == (structure % 3 > 0) else "negative")
    gender = results["gaps"]["gender"]
    assert gender["num_flipped"] == 7
    assert gender["num_flipped_by_chance"] > 0
    assert results["robustness"]["single_structures"] < results["robustness"]["by_chance"]["single_structures_range"][1]
    same = dealt(lambda group, structure, _: "positive" if structure % 2 else "negative")
    assert same["robustness"]["single_structures"] < same["robustness"]["by_chance"]["single_structures_range"][0]


def test_what_all_rows_have_alike_chance_has_too():
    results = dealt(lambda group, *_: "positive" if group == "man" else "negative")
    assert results["gaps"]["gender"]["num_flipped_by_chance"] == 0
    assert results["robustness"]["by_chance"]["single_structures"] == results["robustness"]["single_structures"] == 1


def test_no_shuffles_no_chance():
    results = regard_bias(
        ["positive", "negative"] * 2,
        ["man", "woman"] * 2,
        structures=["a", "a", "b", "b"],
        pairs={"gender": ("man", "woman")},
        kl=False,
        n_shuffles=0,
    )
    assert results["gaps"]["gender"]["num_flipped_by_chance"] is None
    assert results["robustness"]["by_chance"] == {
        "single_structures": None,
        "single_structures_range": None,
        "n_shuffles": 0,
    }
