import json
import re

import numpy as np
import pytest
from scipy.stats import ttest_rel, wilcoxon

from hb_metrics.language_model_bias.language_model_bias import LanguageModelBias
from hb_metrics.language_model_bias.paired_test import language_model_bias


def drawn(number, seed=0, ties=False):
    rng = np.random.default_rng(seed)
    t1 = rng.integers(2, 9, number).astype(float) if ties else rng.lognormal(5, 1.5, number)
    t2 = rng.integers(2, 9, number).astype(float) if ties else t1 * rng.lognormal(0.2, 0.5, number)
    return t1, t2


@pytest.mark.parametrize(("number", "ties"), [(2, False), (5, False), (9, True), (60, False), (300, True)])
def test_the_tests_are_scipys(number, ties):
    t1, t2 = drawn(number, ties=ties)

    result = language_model_bias(t1, t2)

    raw, log = ttest_rel(t1, t2), ttest_rel(np.log(t1), np.log(t2))
    signed = wilcoxon(t1, t2)
    assert (result["t"], result["p_value"]) == pytest.approx((raw.statistic, raw.pvalue))
    assert (result["t_log"], result["p_value_log"]) == pytest.approx((log.statistic, log.pvalue))
    assert (result["wilcoxon_statistic"], result["wilcoxon_p_value"]) == pytest.approx(
        (signed.statistic, signed.pvalue)
    )
    assert result["degrees_of_freedom"] == raw.df == number - 1
    for ending, difference in (("", t1 - t2), ("_log", np.log(t1 / t2))):
        assert result[f"mean_difference{ending}"] == pytest.approx(difference.mean())
        assert result[f"effect_size{ending}"] == pytest.approx(difference.mean() / difference.std(ddof=1))
    assert (result["mean_perplexity_t1"], result["mean_perplexity_t2"]) == pytest.approx((t1.mean(), t2.mean()))
    assert (result["num_pairs"], result["alpha"]) == (number, 0.05)
    assert result["is_significant"] == (raw.pvalue < 0.05)
    assert (result["num_ties"], result["share_t1_likelier"]) == ((t1 == t2).sum(), pytest.approx((t1 < t2).mean()))
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert (result["num_ties"] > 0) == (ties and number > 5)


def test_one_pair_has_no_t():
    result = language_model_bias([3.0], [4.0])

    undefined = ("t", "p_value", "effect_size", "t_log", "p_value_log", "effect_size_log", "is_significant")
    assert [result[name] for name in undefined] == [None] * 7
    assert (result["degrees_of_freedom"], result["mean_difference"], result["share_t1_likelier"]) == (0, -1.0, 1.0)
    assert (result["wilcoxon_statistic"], result["wilcoxon_p_value"]) == (0.0, 1.0)


def test_pairs_that_do_not_differ_have_no_test_at_all():
    result = language_model_bias([3.0, 8.0, 8.0], [3.0, 8.0, 8.0])

    assert (result["t"], result["t_log"], result["wilcoxon_statistic"], result["wilcoxon_p_value"]) == (None,) * 4
    assert (result["share_t1_likelier"], result["num_ties"], result["mean_difference"]) == (0.0, 3, 0.0)


@pytest.mark.parametrize("step", [1.0, 0.1, 1e-3])
def test_pairs_that_all_differ_by_the_same_have_no_t_though_rounding_spreads_them(step):
    t1 = np.array([3.3, 17.7, 123.4, 1000.1])

    result = language_model_bias(t1, t1 + step)

    assert (result["t"], result["p_value"], result["effect_size"]) == (None, None, None)
    assert result["t_log"] is not None
    of_one_ratio = language_model_bias(t1, 3 * t1)
    assert (of_one_ratio["t_log"], of_one_ratio["t"] is None) == (None, False)


@pytest.mark.parametrize(
    ("t1", "t2", "options", "message"),
    [
        ([1.0], [1.0, 2.0], {}, "inputs differ in length (1 perplexities of t1, 2 perplexities of t2)"),
        ([], [], {}, "there are no pairs"),
        ([[1.0]], [1.0], {}, "(shape (1, 1)); pass one number"),
        ([1.0, 1e200], [1.0, 2.0], {}, "perplexity of t1 in row 1 is 1e+200"),
        ([1.0, 0.0, -1.0], [1.0] * 3, {}, "row 1 is 0.0; pass numbers greater than 0 and below 1e+150 (2 rows"),
        ([1.0], [1.0], {"alpha": 0}, "alpha is 0"),
    ],
)
def test_bad_input_is_named(t1, t2, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        language_model_bias(t1, t2, **options)


def test_added_pairs_survive_a_wrong_option(tmp_path):
    metric = LanguageModelBias(cache_dir=str(tmp_path))
    metric.add_batch(predictions=[1.0, 2.0, 3.0], references=[2.0, 2.5, 4.0])
    with pytest.raises(ValueError, match="alpha is 2"):
        metric.compute(alpha=2)
    assert metric.compute(alpha=0.1) == language_model_bias([1.0, 2.0, 3.0], [2.0, 2.5, 4.0], alpha=0.1)


def test_what_is_no_sequence_of_numbers_is_refused(tmp_path):
    with pytest.raises(ValueError, match=" of t1: a single string was given"):
        language_model_bias("12", [1.0, 2.0])
    with pytest.raises(ValueError, match=" of t2: a single string was given"):
        LanguageModelBias(cache_dir=str(tmp_path)).compute(predictions=[1.0, 2.0], references="12")
