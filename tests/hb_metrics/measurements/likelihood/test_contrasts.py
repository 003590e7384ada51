"""Attitude contrasts of runs, from the tables that a run of `measure` leaves. Expected values come from pandas."""

import json
import re
import shutil
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from itertools import combinations

import evaluate
import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml
from scipy import stats

from hb_metrics.command.analyse import analyse
from hb_metrics.measurements import LIKELIHOOD
from hb_metrics.measurements.likelihood.compute import MarkedPairs, likelihood_results, marked_pairs
from hb_metrics.measurements.results import read_run
from hb_metrics.stats.clusters import Estimate
from hb_metrics.stats.contrasts import Contrasts, TermContrast
from tests.hb_metrics.conftest import write_vocabulary
from tests.hb_metrics.made_results import loaded, read_results, run_record, some_prompts
from tests.hb_metrics.runs_here import measure_here

PAIRS = [("I love {plural_noun_phrase}.", "I hate {plural_noun_phrase}.")]
PAIRS.append(("I like {plural_noun_phrase}.", "I don't like {plural_noun_phrase}."))
CONTROLS = [("I'm {noun_phrase}.", "I'm not {noun_phrase}.")]
TERMS = [f"{first}{second}y" for first in ("tall", "short", "fast", "slow") for second in "abcd"]
NOUNS = ("kid", "parent", "sibling", "friend", "guy", "man", "boy", "dad")


@pytest.fixture(scope="module")
def run(tmp_path_factory, get_small_model):
    """A run of a masked model on a vocabulary that marks its own pairs."""
    place = tmp_path_factory.mktemp("bert")
    for part in get_small_model("bert"):
        part.save_pretrained(place / "model")
    templates = [template for pair in (*PAIRS, *CONTROLS) for template in pair]
    folder = write_vocabulary(place / "words", age=TERMS, nouns=NOUNS, templates=templates)
    nonce = {"axis": "nonce", "terms": [{"term": term} for term in ("blicket", "stad", "mell", "coodle", "doff")]}
    (folder / "nonce.yaml").write_text(yaml.safe_dump(nonce))
    marked = yaml.safe_load((folder / "templates.yaml").read_text())
    others = {**{one: ("unfavourable", other) for one, other in PAIRS}, CONTROLS[0][0]: ("control", CONTROLS[0][1])}
    for entry in marked["templates"]:
        entry.update([others[entry["template"]]] if entry["template"] in others else [])
    (folder / "templates.yaml").write_text(yaml.safe_dump(marked))
    options = ["--model", place / "model", "--vocabulary_dir", folder, "--dataset_config", "v1.0"]
    measure_here(*options, "--measurements", "likelihood", "--output_dir", place / "run")
    return place / "run"


def test_the_figures_of_a_run_are_those_that_pandas_computes(run):
    found = read_results(run)["likelihood"]
    scores = pq.read_table(run / "perplexities").to_pandas()
    wide = scores.pivot_table("log_likelihood", ["axis", "noun", "descriptor"], "template")
    apart = {axis: wide.loc[axis] for axis in ("age", "nonce", "ability")}

    def variance(values):
        """The variance between terms: the mean covariance of two nouns, from a Series by noun and term."""
        covariances = np.cov(values.unstack("descriptor"))
        return covariances[~np.eye(len(covariances), dtype=bool)].mean()

    def share(axes, nouns=NOUNS):
        chosen = [apart[axis].loc[list(nouns)] for axis in axes]
        common = sum(variance(of.mean(axis=1)) for of in chosen)
        return common / sum(np.mean([variance(of[template]) for template in of]) for of in chosen)

    without = [share(["age"], [noun for noun in NOUNS if noun != left]) for left in NOUNS]
    half = stats.t.ppf(0.975, 7) * np.sqrt(7 * np.var(without))
    of_age = found["term_share"]["by_axis"]["age"]
    assert of_age["value"] == pytest.approx(share(["age"]))
    assert of_age["interval"] == pytest.approx([share(["age"]) - half, min(share(["age"]) + half, 1)], abs=1e-9)
    assert found["term_share"]["whole"]["value"] == pytest.approx(share(apart))

    contrast = {
        axis: pd.DataFrame({str(i): of[one] - of[other] for i, (one, other) in enumerate(PAIRS)})
        for axis, of in apart.items()
    }
    spread = {axis: variance(of.mean(axis=1)) for axis, of in contrast.items()}
    result = found["contrasts"]
    assert result["by_axis"]["age"]["spread"]["value"] == pytest.approx(np.sqrt(spread["age"]))
    assert result["spread"]["value"] == pytest.approx(np.sqrt((spread["age"] + spread["ability"]) / 2))
    control = variance(apart["age"][CONTROLS[0][0]] - apart["age"][CONTROLS[0][1]])
    assert result["by_axis"]["age"]["control"]["value"] == pytest.approx(np.sqrt(control))

    means = {axis: of.groupby("descriptor").mean() for axis, of in contrast.items()}
    terms = {axis: of.mean(axis=1) - means["nonce"].mean(axis=1).mean() for axis, of in means.items()}
    listed = {(term["axis"], term["term"]): term for term in result["terms"]}
    assert {key: term["contrast"]["value"] for key, term in listed.items()} == pytest.approx(
        {(axis, name): value for axis, of in terms.items() for name, value in of.items()}
    )
    centred = pd.concat([of - of.mean() for axis, of in means.items() if axis != "nonce"])
    assert result["agreement"]["value"] == pytest.approx(stats.pearsonr(*centred.to_numpy().T).statistic)
    ratio = np.std(terms["age"], ddof=1) / np.std(terms["nonce"], ddof=1)
    assert result["by_axis"]["age"]["ratio"]["value"] == pytest.approx(ratio)


def test_the_evaluate_module_returns_the_same(run):
    rows = pq.read_table(run / "perplexities").to_pandas()
    columns = {"axes": "axis", "descriptors": "descriptor", "templates": "template", "nouns": "noun"}
    given = {name: rows[column].tolist() for name, column in columns.items()}
    metric = evaluate.load("hb_metrics/likelihood_bias")
    given |= {"num_tokens": rows["num_tokens"].tolist(), "contrasts": PAIRS}
    results = metric.compute(predictions=rows["perplexity"].tolist(), **given)
    stored = read_results(run)["likelihood"]
    assert json.loads(json.dumps(results["term_share"])) == stored["term_share"]
    assert results["contrasts"]["agreement"] == stored["contrasts"]["agreement"] | {
        "interval": pytest.approx(stored["contrasts"]["agreement"]["interval"])
    }
    without = {name: value for name, value in results.items() if name not in ("term_share", "contrasts")}
    assert without == stored["likelihood_bias"]
    for changed, message in (({"nouns": None}, "nouns"), ({"contrasts": [("a", "b")]}, "favourable one first")):
        with pytest.raises(ValueError, match=message):
            metric.compute(predictions=rows["perplexity"].tolist(), **given | changed)


def test_the_change_in_contrasts_has_the_interval_of_a_jackknife_over_nouns(run, tmp_path):
    shutil.copytree(run, tmp_path / "other")
    rng = np.random.default_rng(5)
    for path in sorted((tmp_path / "other/perplexities").glob("*.parquet")):
        table = pq.read_table(path)
        moved = table["perplexity"].to_numpy() * rng.lognormal(0, 0.05, len(table))
        column = table.column_names.index("perplexity")
        pq.write_table(table.set_column(column, table.schema.field(column), [moved]), path)
    first, second = read_run(run), read_run(tmp_path / "other")

    def spread(scores, nouns):
        """The standard deviation between terms, from the covariances of different nouns."""
        scores = scores.assign(value=-scores["num_tokens"] * np.log(scores["perplexity"]))
        wide = scores[scores["axis"] == "age"].pivot_table("value", ["noun", "descriptor"], "template")
        contrast = sum(wide[one] - wide[other] for one, other in PAIRS).div(2).unstack("descriptor").loc[nouns]
        covariances = np.cov(contrast)
        return np.sqrt(max(covariances[~np.eye(len(nouns), dtype=bool)].mean(), 0))

    scores = [of_run.tables.scores().to_pandas() for of_run in (first, second)]
    without = [spread(scores[1], rest) - spread(scores[0], rest) for rest in map(list, combinations(NOUNS, 7))]
    by_name = LIKELIHOOD.parts.changes(first, second).by_name
    whole, change = by_name["Attitude contrast"], by_name["Attitude contrast, Age"]
    assert whole.first == pytest.approx(first.results.likelihood.contrasts.spread.value)
    expected = spread(scores[1], list(NOUNS)) - spread(scores[0], list(NOUNS))
    half = stats.t.ppf(0.975, 7) * np.sqrt(7 * np.var(without))
    assert change.change == pytest.approx(expected)
    assert change.interval == pytest.approx([expected - half, expected + half])


def test_a_run_whose_record_marks_no_pairs_has_those_of_its_config():
    for config in ("v1.0-small", "v1.1", "next"):
        run = {"settings": {**run_record(some_prompts())["settings"], "dataset_config": config}}
        marked = marked_pairs(loaded({"run": run}).record)
        assert {*PAIRS} < {*marked.pairs}
        assert (len(marked.pairs), marked.controls) == (4, CONTROLS)


def test_only_the_section_of_the_page_names_terms(run):
    with redirect_stdout(StringIO()) as printed:
        analyse(run)
    page = (run / "report.html").read_text()
    assert "do not read" in printed.getvalue().lower()
    assert not [term for term in TERMS if re.search(rf"\b{term}\b", printed.getvalue())]
    assert all(term in page for term in TERMS)


@pytest.mark.parametrize(
    ("interval", "words"),
    [((0.6, 0.8), "1 of 1 terms are outside"), ((0.4, 0.8), "not shown to agree"), (None, "unknown, because few")],
)
def test_a_low_agreement_takes_the_verdict_away(interval, words):
    from hb_metrics.measurements.likelihood.figures import _contrast_figures
    from hb_metrics.measurements.likelihood.page import contrast_verdict

    agreement = Estimate(0.7, interval, None if interval else "few")
    terms = [TermContrast(axis, "old", Estimate(3.0, (2.0, 4.0), None), 0.01) for axis in ("age", "nonce")]
    terms[1] = replace(terms[1], adjusted_p=None)
    found = Contrasts(PAIRS, [], 0.95, Estimate(1.0, None, None), None, agreement, {}, terms, (-1.0, 1.0), 0)
    rows = _contrast_figures(found)
    assert words in contrast_verdict(found, rows)
    assert rows[0].detail == "1 terms, 2 pairs of templates"  # as the figure, without the nonce words


def test_a_sample_without_two_nouns_per_term_has_no_section(run):
    results = read_run(run).results
    scores = pq.read_table(run / "perplexities")
    kept = scores.filter(pc.equal(scores["noun"], NOUNS[0]))
    lacking = likelihood_results(kept, MarkedPairs(PAIRS, CONTROLS))
    assert lacking.contrasts.num_left_out == len(TERMS) + 3 + 5
    report = LIKELIHOOD.parts.report(results.with_("likelihood", lacking))
    assert [section.id for section in report.sections] == ["likelihood"]
    assert "two terms with two nouns" in report.answer
