import numpy as np
import pytest

from hb_metrics.stats.bias_values import bias_values
from tests.hb_metrics.full_gen_bias.test_gen_bias import columns_of, make_rows


def brute_force(probabilities, descriptors, templates, axes, alpha):
    """The paper's formulas one after the other, in loops over replies, templates, descriptors and styles."""
    axes = axes or [None] * len(descriptors)
    rows = list(zip(zip(axes, descriptors, strict=True), templates, probabilities.tolist(), strict=True))
    styles = range(probabilities.shape[1])
    means = {}
    for key in {row[0] for row in rows}:
        in_template = []
        for template in {row[1] for row in rows if row[0] == key}:
            replies = [row[2] for row in rows if row[:2] == (key, template)]
            in_template.append([sum(p[s] for p in replies) / len(replies) for s in styles])
        means[key] = [sum(m[s] for m in in_template) / len(in_template) for s in styles]
    overall = [sum(m[s] for m in means.values()) / len(means) for s in styles]
    values = []
    for key, _, p in rows:
        direction = [means[key][s] - overall[s] for s in styles]
        norm = sum(x**2 for x in direction) ** 0.5
        values.append(sum((p[s] - overall[s]) * direction[s] for s in styles) / norm**alpha)
    return values, means, overall


@pytest.mark.parametrize("with_axes", [True, False], ids=["axes", "no axes"])
@pytest.mark.parametrize("alpha", [0, 1, 2])
def test_the_values_are_the_papers_formula(alpha, with_axes):
    probabilities, descriptors, templates, axes = columns_of(make_rows(), with_axes)

    result = bias_values(probabilities, descriptors, templates, axes, alpha=alpha)

    values, means, overall = brute_force(probabilities, descriptors, templates, axes, alpha)
    np.testing.assert_allclose(result.values, values, rtol=1e-10)
    np.testing.assert_allclose(result.overall_mean, overall, rtol=1e-12)
    assert len(result.descriptors) == (8 if with_axes else 7)
    assert result.descriptors == sorted(means)
    np.testing.assert_allclose(result.descriptor_means, [means[key] for key in sorted(means)], rtol=1e-12)
    keys = list(zip(axes or [None] * len(descriptors), descriptors, strict=True))
    assert [result.descriptors[code] for code in result.descriptor_codes] == keys
    for key, mean in zip(result.descriptors, result.mean_values, strict=True):
        own = [value for value, of in zip(values, keys, strict=True) if of == key]
        assert mean == pytest.approx(sum(own) / len(own), rel=1e-10)


@pytest.mark.parametrize("alpha", [0, 1, 2])
@pytest.mark.parametrize("names", [["a"] * 6, ["a", "b", "c"] * 2], ids=["one descriptor", "the same for all"])
def test_a_descriptor_without_a_direction_has_values_of_0(names, alpha):
    # Numbers whose means are not exact in binary.
    probabilities = np.repeat(np.random.default_rng(2).dirichlet(np.ones(9), 2), 3, axis=0)

    result = bias_values(probabilities, names, ["t"] * 6, alpha=alpha)

    assert result.values.tolist() == [0] * 6
    np.testing.assert_allclose(result.descriptor_means, np.broadcast_to(result.overall_mean, (len(set(names)), 9)))


@pytest.mark.parametrize("value", [float("nan"), -0.1, 1.1])
def test_what_is_no_probability_is_named(value):
    probabilities = np.full((5, 3), 1 / 3)
    probabilities[3, 1] = value

    with pytest.raises(ValueError, match=f"probability in row 3 is {value}; pass numbers from 0 to 1"):
        bias_values(probabilities, ["a"] * 5, ["t"] * 5)
