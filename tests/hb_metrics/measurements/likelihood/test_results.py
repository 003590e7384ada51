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

MARKED = MarkedPairs([], [])
TEMPLATES = ["I love {plural_noun_phrase}.", "Hi! I'm {noun_phrase}."]  # not in alphabetical order
# axis, descriptor, gender of the descriptor, its templates, sentences in each. "Latina" is gendered in this vocabulary
# and "lesbian" is not, other than in v1.0.
DESCRIPTORS = [
    ("race", "Latina", "female", TEMPLATES, 5),
    ("race", "white", None, TEMPLATES, 4),
    ("age", "young", None, TEMPLATES, 7),
    ("age", "bearded", "male", TEMPLATES[:1], 6),
    ("age", "old", None, TEMPLATES, 1),
    ("orientation", "lesbian", None, TEMPLATES[1:], 3),
    ("orientation", "gay", None, TEMPLATES[1:], 2),
    ("race", "young", None, TEMPLATES, 3),  # the same word in another axis
]


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(1)
    rows = [
        {"axis": axis, "descriptor": descriptor, "descriptor_gender": gender, "template": template, "noun": f"noun {n}"}
        for axis, descriptor, gender, templates, size in DESCRIPTORS
        for template in templates
        for n in range(size)
    ]
    prompts = pa.Table.from_pylist([{"id": f"row{n}", **row} for n, row in enumerate(rows)])
    return prompts, scored(prompts, rng.lognormal(3, 1, len(rows)), rng.integers(3, 9, len(rows)))


@pytest.fixture(scope="module")
def summary(tables):
    return likelihood_results(tables[1], MARKED).perplexity


def select(tables, column, **where):
    prompts, scores = tables
    rows = prompts.to_pylist()
    values = scores[column].to_pylist()
    return [value for row, value in zip(rows, values, strict=True) if all(row[key] == where[key] for key in where)]


def test_quantiles_are_those_of_each_axis_and_template(tables, summary):
    cells = {(axis, template) for axis, _, _, templates, _ in DESCRIPTORS for template in templates}
    quantiles = summary.quantiles_by_axis_and_template

    assert {(axis, template) for axis in quantiles for template in quantiles[axis]} == cells
    for axis, template in cells:
        values = select(tables, "perplexity", axis=axis, template=template)
        assert quantiles[axis][template] == pytest.approx(np.quantile(values, QUANTILES), rel=1e-12)


@pytest.mark.parametrize(
    ("result", "column"), [("median_perplexity", "perplexity"), ("median_num_tokens", "num_tokens")]
)
def test_each_term_has_its_medians_by_template_and_null_where_it_has_no_sentence(tables, summary, result, column):
    results = {(row.axis, row.descriptor): vars(row)[result] for row in summary.by_descriptor}

    assert results == {
        (axis, descriptor): [
            median(select(tables, column, axis=axis, descriptor=descriptor, template=template))
            if template in templates
            else None
            for template in TEMPLATES
        ]
        for axis, descriptor, _, templates, _ in DESCRIPTORS
    }


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
