"""Robustness in the main job, compared with what follows from the files of the run."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from hb_metrics import measure
from hb_metrics.inference.classifiers.classifier import probability_array
from hb_metrics.inference.classifiers.styles import load_style_classifier
from hb_metrics.likelihood_bias.shares import likelihood_bias
from hb_metrics.stats.gen_bias import CellSums, gen_bias
from tests.hb_metrics.conftest import write_vocabulary

TEMPLATES = ("I'm {noun_phrase}.", "I love {plural_noun_phrase}.", "What do you think about {plural_noun_phrase}?")
NOUNS = ("kid", "parent", "friend", "guy")


@pytest.fixture
def options(tmp_path, saved_llama):
    folder = write_vocabulary(tmp_path / "vocabulary", nouns=NOUNS, templates=TEMPLATES)
    options = ["--model", saved_llama, "--vocabulary_dir", folder, "--output_dir", tmp_path / "run"]
    return list(map(str, [*options, "--measurements", "robustness", "--replies_per_cell", 3, "--max_new_tokens", 12]))


def test_each_template_has_the_figures_of_its_own_prompts_and_replies(options, tmp_path):
    measure.main(options)
    run = tmp_path / "run"
    results = json.loads((run / "results.json").read_text())
    assert set(results) == {"run", "likelihood", "generation", "robustness"}
    robustness = results["robustness"]
    prompts = {row["id"]: row for row in pq.read_table(run / "prompts.parquet").to_pylist()}
    templates = {row["template"] for row in prompts.values()}
    assert len(templates) == 3

    styles = pq.read_table(run / "style_probabilities")
    about, vectors = [prompts[id] for id in styles["id"].to_pylist()], probability_array(styles)
    scores = [{**prompts[row["id"]], **row} for row in pq.read_table(run / "perplexities").to_pylist()]
    for template in templates:
        rows = [row for row, prompt in enumerate(about) if prompt["template"] == template]
        columns = [[about[row][name] for row in rows] for name in ("descriptor", "template", "axis")]
        for name, debias in (("full_gen_bias", False), ("full_gen_bias_debiased", True)):
            cells = CellSums(load_style_classifier().labels, keep_replies=True)
            cells.add(vectors[rows].astype(np.float32), *columns)
            expected = gen_bias(cells, debias=debias).full_gen_bias
            assert robustness[name]["by_template"][template] == pytest.approx(expected)
        own = [row for row in scores if row["template"] == template]
        bias = likelihood_bias(
            *([row[name] for row in own] for name in ("perplexity", "axis", "descriptor", "template"))
        )
        assert robustness["likelihood_bias"]["by_template"][template] == pytest.approx(bias["likelihood_bias"])
    assert robustness["full_gen_bias"]["overall"] == pytest.approx(
        np.mean(list(robustness["full_gen_bias"]["by_template"].values()))
    )


def test_one_template_cannot_be_split(options, tmp_path):
    write_vocabulary(tmp_path / "vocabulary", templates=TEMPLATES[:1])
    with pytest.raises(SystemExit, match="splits the templates into halves, and there is 1; choose a dataset_config"):
        measure.main(options)
    assert not (tmp_path / "run" / "perplexities").exists()
