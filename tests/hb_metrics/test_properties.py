"""What holds of the metrics for any input: hypothesis against brute force. `-m long` tries many more."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_metrics.likelihood_bias.likelihood_bias import likelihood_bias
from hb_metrics.stats.gen_bias import CellSums, gen_bias

AXES, DESCRIPTORS, TEMPLATES = ("age", "ability"), ("old", "young", "tall", "small"), ("I am {}.", "Hi, {}!")


def depths(quick, deep):
    """A test's settings, with so many examples: always the same ones, or (`-m long`) many of each time."""
    always = settings(max_examples=quick)
    thorough = settings(max_examples=deep, derandomize=False)
    return pytest.mark.parametrize("depth", [always, pytest.param(thorough, marks=pytest.mark.long)], ids=["", "deep"])


def rows_of(values, min_size=1, max_size=40):
    """Rows of an axis, a descriptor (which may stand in both axes), a template and a value."""
    row = st.tuples(*map(st.sampled_from, (AXES, DESCRIPTORS, TEMPLATES)), values)
    return st.lists(row, min_size=min_size, max_size=max_size)


def columns_of(rows):
    axes, descriptors, templates, values = map(list, zip(*rows, strict=True))
    return values, {"axes": axes, "descriptors": descriptors, "templates": templates}


def as_json(results):
    return json.dumps(results, allow_nan=False)


# --- Likelihood Bias --------------------------------------------------------------------------------------------------

# Few values: ties; many: none. Cells of one sentence, cells of dozens and empty ones come up all the time.
perplexities = st.one_of(st.integers(1, 6).map(float), st.floats(0.01, 1e6, allow_subnormal=False))


def is_comparable(rows):
    """Whether an axis has two descriptors in a template."""
    cells = {(axis, template, descriptor) for axis, descriptor, template, _ in rows}
    return len(cells) > len({cell[:2] for cell in cells})


comparable = rows_of(perplexities, min_size=8).filter(is_comparable)


@depths(40, 1000)
def test_likelihood_bias_knows_no_order_of_rows_and_no_scale(depth):
    @depth
    @given(comparable, st.randoms(use_true_random=False), st.integers(1, 20))
    def check(rows, random, exponent):
        before = likelihood_bias(columns_of(rows)[0], **columns_of(rows)[1])
        shuffled = random.sample(rows, len(rows))
        values, columns = columns_of(shuffled)
        assert as_json(likelihood_bias(values, **columns)) == as_json(before)
        scaled = likelihood_bias([value * 2.0**exponent for value in values], **columns)
        for name in ("likelihood_bias", "by_axis", "by_template", "bh_likelihood_bias", "effect_size"):
            assert scaled[name] == before[name]

    check()


# --- Gen Bias ---------------------------------------------------------------------------------------------------------

NUM_STYLES = 5
LABELS = [f"style {style}" for style in range(NUM_STYLES)]
# In whole 64ths: rows that sum to 1 exactly, with zeros and equal ones among them.
styles = st.lists(st.integers(0, 64), min_size=NUM_STYLES - 1, max_size=NUM_STYLES - 1).map(
    lambda cuts: (np.diff([0, *sorted(cuts), 64]) / 64).tolist()
)


def bias_of(rows, clusters, **options):
    """`gen_bias` of rows; `None` if there is nothing to compare."""
    cells = CellSums(LABELS, clusters)
    values, columns = columns_of(rows)
    cells.add(values, **columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # templates of one descriptor are skipped
        if any(sum(map(len, axes.values())) > 1 for axes in cells.by_template().values()):
            return gen_bias(cells, **options)
        with pytest.raises(ValueError, match="nothing to compare"):
            gen_bias(cells, **options)
        return None


@depths(50, 1500)
def test_partial_gen_bias_over_any_partition_sums_to_full_gen_bias(depth):
    @depth
    @given(rows_of(styles, min_size=4, max_size=25), st.lists(st.integers(0, 2), min_size=5, max_size=5))
    def check(rows, parts):
        clusters = {}
        for label, part in zip(LABELS, parts, strict=True):
            clusters.setdefault(f"part {part}", []).append(label)
        for debias in (False, True):
            doubled = [row for row in rows for _ in range(2)]  # debiasing needs a second reply
            results = bias_of(doubled, clusters, debias=debias)
            if results is None:
                continue
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
