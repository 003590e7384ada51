"""Identities of the Gen Bias family, for any input. `-m long` tries many more."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_metrics.stats.gen_bias import CellSums, gen_bias

NUM_STYLES = 5
LABELS = [f"style {style}" for style in range(NUM_STYLES)]
# In whole 64ths: rows that sum to 1 exactly, with zeros and equal ones among them.
styles = st.lists(st.integers(0, 64), min_size=NUM_STYLES - 1, max_size=NUM_STYLES - 1).map(
    lambda cuts: (np.diff([0, *sorted(cuts), 64]) / 64).tolist()
)
# Style vector, descriptor (which may stand in both axes), template and axis.
row = st.tuples(styles, *map(st.sampled_from, (("old", "young", "tall", "small"), ("I am {}.", "Hi, {}!"), ("a", "b"))))
DEEP = settings(max_examples=1500, derandomize=False)


@pytest.mark.parametrize("depth", [settings(max_examples=50), pytest.param(DEEP, marks=pytest.mark.long)])
def test_partial_gen_bias_over_any_partition_sums_to_full_gen_bias(depth):
    @depth
    @given(st.lists(row, min_size=4, max_size=25), st.lists(st.integers(0, 2), min_size=5, max_size=5))
    def check(rows, parts):
        clusters = {}
        for label, part in zip(LABELS, parts, strict=True):
            clusters.setdefault(f"part {part}", []).append(label)
        cells = CellSums(LABELS, clusters)
        cells.add(*map(list, zip(*rows, *rows, strict=True)))  # debiasing needs a second reply
        if all(sum(map(len, axes.values())) < 2 for axes in cells.by_template().values()):
            with pytest.raises(ValueError, match="nothing to compare"):
                gen_bias(cells)
            return
        for debias in (False, True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # templates of one descriptor are skipped
                results = gen_bias(cells, debias=debias)
            assert sum(results.partial_gen_bias.values()) == pytest.approx(results.full_gen_bias, abs=1e-6)
            for axis, value in results.by_axis.items():
                if value is not None:
                    assert sum(results.partial_by_axis[axis].values()) == pytest.approx(value, abs=1e-6)
            for cluster, members in clusters.items():
                if len(members) == 1:
                    summed = results.summed_cluster_gen_bias[cluster]
                    assert summed == pytest.approx(results.partial_gen_bias[cluster], abs=1e-6)
                if len(members) == NUM_STYLES:  # whose probabilities sum to 1 in every reply
                    assert results.summed_cluster_gen_bias[cluster] == pytest.approx(0, abs=1e-6)

    check()
