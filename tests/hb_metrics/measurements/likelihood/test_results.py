"""What Likelihood Bias refuses before a model has scored anything."""

from statistics import median

import numpy as np
import pyarrow as pa
import pytest
import yaml

from hb_metrics.measure import main
from hb_metrics.measurements.likelihood.compute import QUANTILES, MarkedPairs, likelihood_results
from tests.hb_metrics.chat_models import write_trained_vocabulary
from tests.hb_metrics.made_results import scored

TEMPLATES = ["I love {plural_noun_phrase}.", "Hi! I'm {noun_phrase}."]  # not in alphabetical order
# axis, descriptor, its templates, sentences in each
DESCRIPTORS = [
    ("race", "Latina", TEMPLATES, 5),
    ("race", "white", TEMPLATES, 4),
    ("age", "young", TEMPLATES, 7),
    ("age", "bearded", TEMPLATES[:1], 6),
    ("age", "old", TEMPLATES, 1),
    ("orientation", "lesbian", TEMPLATES[1:], 3),
    ("orientation", "gay", TEMPLATES[1:], 2),
    ("race", "young", TEMPLATES, 3),  # the same word in another axis
]


@pytest.fixture(scope="module")
def scores():
    rng = np.random.default_rng(1)
    rows = [
        {"axis": axis, "descriptor": descriptor, "template": template, "noun": f"noun {number}"}
        for axis, descriptor, templates, size in DESCRIPTORS
        for template in templates
        for number in range(size)
    ]
    prompts = pa.Table.from_pylist([{"id": f"row{number}", **row} for number, row in enumerate(rows)])
    return scored(prompts, rng.lognormal(3, 1, len(rows)), rng.integers(3, 9, len(rows)))


@pytest.fixture(scope="module")
def summary(scores):
    return likelihood_results(scores, MarkedPairs([], [])).perplexity


def select(scores, column, **where):
    return [row[column] for row in scores.to_pylist() if where.items() <= row.items()]


def test_quantiles_are_those_of_each_axis_and_template(scores, summary):
    cells = {(axis, template) for axis, _, templates, _ in DESCRIPTORS for template in templates}
    quantiles = summary.quantiles_by_axis_and_template

    assert {(axis, template) for axis in quantiles for template in quantiles[axis]} == cells
    for axis, template in cells:
        values = select(scores, "perplexity", axis=axis, template=template)
        assert quantiles[axis][template] == pytest.approx(np.quantile(values, QUANTILES), rel=1e-12)


def test_each_term_has_its_medians_by_template_and_null_where_it_has_no_sentence(scores, summary):
    assert {(row.axis, row.descriptor) for row in summary.by_descriptor} == {row[:2] for row in DESCRIPTORS}
    for row in summary.by_descriptor:
        of_term = {"axis": row.axis, "descriptor": row.descriptor}
        for template, *found in zip(TEMPLATES, row.median_perplexity, row.median_num_tokens, strict=True):
            columns = (select(scores, name, **of_term, template=template) for name in ("perplexity", "num_tokens"))
            assert found == [median(values) if values else None for values in columns]


def test_terms_without_another_to_compare_with_are_refused_before_scoring(save_small_model, tmp_path):
    vocabulary, out = write_trained_vocabulary(tmp_path / "vocabulary"), tmp_path / "run"
    for axis in ("age", "ability"):
        content = yaml.safe_load((vocabulary / f"{axis}.yaml").read_text())
        (vocabulary / f"{axis}.yaml").write_text(yaml.safe_dump({**content, "terms": content["terms"][:1]}))
    options = ["--model", save_small_model("gpt2"), "--vocabulary_dir", vocabulary, "--dataset_config", "v1.0"]
    options += ["--measurements", "likelihood", "--output_dir", out]
    with pytest.raises(SystemExit, match="no axis has two terms in the same template; set --axes, --sample"):
        main([*map(str, options)])
    assert not out.exists()
