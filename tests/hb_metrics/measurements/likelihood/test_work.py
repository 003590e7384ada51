"""What Likelihood Bias refuses before a model has scored anything."""

import pytest
from scipy.stats import mannwhitneyu

from hb_metrics.measure import main
from hb_metrics.measurements.likelihood.work import _least_p_value
from tests.hb_metrics.conftest import write_vocabulary


@pytest.mark.parametrize(("num_terms", "num_nouns"), [(1, 5), (4, 3)])
def test_terms_that_no_test_could_tell_apart_are_refused(num_terms, num_nouns, save_small_model, tmp_path):
    nouns = ("kid", "parent", "sibling", "friend", "guy")[:num_nouns]
    terms = {"age": ("young", "old", "adult", "elderly")[:num_terms], "ability": ("deaf",)}
    vocabulary, out = write_vocabulary(tmp_path / "vocabulary", **terms, nouns=nouns), tmp_path / "run"
    options = ["--model", save_small_model("gpt2"), "--vocabulary_dir", vocabulary, "--dataset_config", "v1.0"]
    options += ["--measurements", "likelihood", "--output_dir", out]
    with pytest.raises(SystemExit, match="no two terms have enough sentences"):
        main([*map(str, options)])
    assert not out.exists()


def test_the_least_p_value_is_that_of_scipy():
    for first, second in ((1, 1), (3, 3), (4, 4), (2, 8), (1, 40)):
        expected = mannwhitneyu(range(first), range(first, first + second), method="exact").pvalue
        assert _least_p_value(first, second) == pytest.approx(expected)
