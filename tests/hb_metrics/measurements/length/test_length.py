"""Words per reply: means and spreads by other libraries, planted gaps, coverage, and a run with its comparison."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from hb_dataset import load_table
from hb_metrics import load_run
from hb_metrics.measurements.length import LENGTH
from hb_metrics.measurements.length.compute import NAME
from hb_metrics.measurements.means import reply_mean_changes, reply_means
from hb_metrics.measurements.results import read_run
from hb_metrics.measurements.shares import OTHER_TERMS_REASON, generalised_means
from hb_metrics.report.changes import run_changes
from hb_metrics.run.replies import RatedReplies, Replies
from hb_metrics.stats.changes import UNCHANGED_REASON
from tests.hb_metrics.made_results import check_margins, loaded, only, whole_run
from tests.hb_metrics.pages import report_page
from tests.hb_metrics.runs_here import analysed, measure_here, refusal

NO_NAMES = pa.table({"axis": ["age"], "descriptor": ["old"], "bucket": [None]})
AXES = {"age": 2.0, "ability": -2.0, "religion": 0.0}
MEAN, SPREAD = 14.0, 2.0


def design(seed=0, num_terms=6, num_templates=4, sizes=(3, 5, 9)):
    """Cells of uneven size, and the true mean of each: axes differ as planted, and so do the terms of an axis."""
    rng = np.random.default_rng(seed)
    cells = []
    for axis, shift in AXES.items():
        terms = np.resize([-SPREAD, SPREAD], num_terms)
        for term, of_term in enumerate(terms):
            for template, of_template in enumerate(np.linspace(-2, 2, num_templates)):
                size = int(rng.choice(sizes))
                cells += [(axis, f"{axis} {term}", f"template {template}", MEAN + shift + of_term + of_template)] * size
    return pd.DataFrame(cells, columns=["axis", "descriptor", "template", "true"])


def drawn(frame, rng, sigma=0.3):
    """Replies of skewed lengths around the true means."""
    words = frame["true"] * np.exp(sigma * rng.normal(size=len(frame)) - sigma**2 / 2)
    return rated(frame, words.to_numpy())


def rated(frame, values):
    columns = [frame[name].tolist() for name in ("axis", "descriptor", "template")]
    texts = [""] * len(frame)
    return RatedReplies(Replies([str(row) for row in frame.index], *columns, texts, texts), values)


def test_means_and_spreads_are_those_of_pandas():
    frame = design()
    replies = drawn(frame, np.random.default_rng(0))
    means = reply_means(replies, NO_NAMES)
    frame["words"] = replies.values
    cells = frame.groupby(["template", "axis", "descriptor"])["words"].agg(["mean", "var", "size"])
    noise = cells["var"] / cells["size"]

    def spread(cells, noise):
        """The variance of cells' means in a template, minus the part of their noise that it contains."""
        by_template = cells["mean"].groupby("template").var(ddof=0)
        number = cells.groupby("template").size()
        return np.sqrt((by_template - (1 - 1 / number) * noise.groupby("template").mean()).mean())

    assert means.mean.value == pytest.approx(frame["words"].mean())
    assert means.spread.value == pytest.approx(spread(cells, noise), rel=1e-6)
    for axis, of_axis in frame.groupby("axis"):
        members = cells.index.get_level_values("axis") == axis
        assert means.by_axis[axis].mean.value == pytest.approx(of_axis["words"].mean())
        assert means.by_axis[axis].spread.value == pytest.approx(spread(cells[members], noise[members]), rel=1e-6)
        by_term = of_axis.groupby("descriptor")["words"].mean().to_dict()
        assert means.by_descriptor[axis] == pytest.approx(by_term)


@pytest.mark.parametrize(("number", "least"), [(40, 0.85), pytest.param(300, 0.91, marks=pytest.mark.long)])
def test_intervals_contain_the_planted_lengths(number, least):
    frame, rng = design(), np.random.default_rng(1)
    of_axis, spread = frame.groupby("axis")["true"].mean(), np.hypot(SPREAD, np.std(list(AXES.values())))
    inside = dict.fromkeys(["mean", "age", "spread", "change", "change of age"], 0)
    for _ in range(number):
        first = drawn(frame, rng)
        means = reply_means(first, NO_NAMES)
        inside["mean"] += covers(means.mean.interval, frame["true"].mean())
        inside["age"] += covers(means.by_axis["age"].mean.interval, of_axis["age"])
        inside["spread"] += covers(means.spread.interval, spread)
        # The second run replies to half of the prompts alike, and to the others with 2 words more on one axis.
        is_new = rng.random(len(frame)) < 0.5
        planted = np.where((frame["axis"] == "age") & is_new, 2.0, 0.0)
        words = np.where(is_new, drawn(frame, rng).values, first.values) + planted
        changes = reply_mean_changes("Words", first, rated(frame, words)).by_name
        inside["change"] += covers(changes["Words"].interval, planted.mean())
        inside["change of age"] += covers(changes["Words, Age"].interval, planted[frame["axis"] == "age"].mean())
    assert all(least <= hits / number for hits in inside.values()), inside


def covers(interval, value):
    """Whether an interval contains a value, or is withheld, as that of a spread may be."""
    return interval is None or interval[0] <= value <= interval[1]


def test_a_few_very_long_replies_do_not_make_a_mean_negative():
    frame, rng = design(), np.random.default_rng(0)
    words = drawn(frame, rng).values.copy()
    words[rng.integers(len(words))] = 3_000
    of_axes = reply_means(rated(frame, words), NO_NAMES).by_axis.values()
    lows = [of_axis.mean.interval[0] for of_axis in of_axes]
    assert min(lows) == 0
    assert max(lows) > 5


def test_intervals_for_other_terms_contain_the_mean_of_all_terms():
    rng, hits = np.random.default_rng(2), 0
    for _ in range(100):
        frame = design(num_terms=10, sizes=(3, 4))
        terms = frame.groupby(["axis", "descriptor"]).ngroup()
        frame["true"] = MEAN + rng.normal(0, 3, terms.max() + 1)[terms]
        hits += covers(generalised_means("Words", drawn(frame, rng, 0.2), "terms")["Words"].interval, MEAN)
    assert 90 <= hits <= 99


def test_a_change_is_of_pairs_of_replies():
    frame = design()
    replies = drawn(frame, np.random.default_rng(3))
    kept = frame.index % 5 > 0
    change = reply_mean_changes("Words", replies, rated(frame[kept], replies.values[kept])).by_name["Words"]
    assert change.first == change.second == pytest.approx(replies.values[kept].mean())
    assert change.reason == UNCHANGED_REASON
    same = reply_mean_changes("Words", replies, replies).by_name["Words"]
    assert (same.change, same.interval, same.reason) == (0, None, UNCHANGED_REASON)
    other = frame.replace({"descriptor": {"age 0": "another term"}})
    assert reply_mean_changes("Words", replies, rated(other, replies.values)) == ({}, OTHER_TERMS_REASON)


def test_no_interval_without_replies_that_vary():
    frame = design(num_terms=2, num_templates=1, sizes=(2,))
    few = reply_means(drawn(frame, np.random.default_rng(4)), NO_NAMES)
    assert few.mean.interval is None
    assert "needs 30 replies" in few.mean.reason
    frame = design()
    same = reply_means(rated(frame, np.full(len(frame), 7)), NO_NAMES)
    assert (same.mean.value, same.mean.interval, same.spread.value) == (7, None, 0)
    assert "do not vary" in same.mean.reason
    frame = design(sizes=(1, 5))
    single = reply_means(drawn(frame, np.random.default_rng(4)), NO_NAMES)
    assert single.mean.interval is not None
    assert (single.spread.value, single.spread.interval) == (None, None)
    assert "have a single reply" in single.spread.reason


def test_groups_of_names_are_compared_in_words():
    names = {f"{group} {number}": group for group in ("Black", "White") for number in range(6)}
    cells = [(name, f"question {number}") for name in names for number in range(12)]
    frame = pd.DataFrame(cells, columns=["descriptor", "template"]).assign(axis="names")
    frame["true"] = [20.0 if names[name] == "White" else 15.0 for name in frame["descriptor"]]
    prompts = pa.table({"axis": frame["axis"], "descriptor": frame["descriptor"]})
    prompts = prompts.append_column("bucket", pa.array([names[name] for name in frame["descriptor"]]))
    replies = drawn(frame, np.random.default_rng(5), 0.2)
    results = loaded(whole_run())
    results.length = reply_means(replies, prompts)
    *groups, gap = [figure for figure in LENGTH.figures(results) if figure.part_of == f"{NAME} by group of names"]
    means = pd.Series(replies.values).groupby(frame["descriptor"].map(names)).mean()
    assert {figure.label: figure.value for figure in groups} == pytest.approx(means.to_dict())
    assert gap.value == pytest.approx(means["White"] - means["Black"])
    assert gap.interval[0] > 2
    assert covers(gap.interval, 5)
    answer = LENGTH.parts.report(results).answer
    assert answer.startswith("Replies to some people are shorter beyond chance.")
    assert "largest difference between groups of names (White compared with Black) is " in answer


def test_the_page_names_the_terms_only_if_they_differ_beyond_chance(tmp_path):
    results = whole_run()
    replies = drawn(design(), np.random.default_rng(6), 0.3)
    for values, differs in ((replies.values, True), (np.random.default_rng(7).permutation(replies.values), False)):
        results["length"] = reply_means(replies._replace(values=values), NO_NAMES)
        text = report_page(results, tmp_path).text
        assert ("The shortest replies are those to “ability" in text) == differs
        assert ("No difference in the length of replies was found beyond chance" in text) != differs
        assert "7 of them were cut at the maximum length" in text
    results["generation"]["num_truncated_replies"] = None
    assert "an unknown number of them were cut" in report_page(results, tmp_path).text


@pytest.fixture(scope="module")
def runs(save_classifier, tmp_path_factory):
    """Two runs on replies from files. In the second, replies about ability are up to two words shorter."""
    folder, styles = tmp_path_factory.mktemp("runs"), save_classifier("calm", "loud")
    prompts = only(load_table("v1.0-small"), axis=["ability", "age"]).to_pylist()
    for name, lost in (("first", 1), ("second", 3)):
        rows = []
        for number, prompt in enumerate(prompts):
            size = 6 + number % 5 - (number % lost if prompt["axis"] == "ability" else 0)
            rows.append(json.dumps({"id": prompt["id"], "reply": " ".join(["word\n"] * size) if number else "\u200b"}))
        (folder / f"{name}.jsonl").write_text("\n".join(rows))
        given = ["--model", "somebody", "--replies_file", folder / f"{name}.jsonl", "--reply", "whole"]
        given += ["--measurements", "generation,length", "--output_dir", folder / name, "--replies_per_cell", 0]
        measure_here(*given, "--axes", "ability", "age", "--style_classifier", styles)
    return folder


def test_a_run_counts_words_and_a_comparison_shows_the_change(runs):
    first, second = (read_run(runs / name) for name in ("first", "second"))
    frame = load_run(runs / "first").replies
    words = frame["reply"].str.split().str.len()[frame["reply"] != "\u200b"]
    assert first.results.length.mean.value == pytest.approx(words.mean())
    assert first.results.length.num_replies == len(frame) - 1
    changes = run_changes(first, second, ("first", "second"))
    check_margins(changes)
    rows = {row.name: row for row in changes.rows}
    assert rows[f"{NAME}, Ability"].change.change == pytest.approx(-1, abs=0.01)
    assert rows[f"{NAME}, Age"].change.change == 0
    assert rows[NAME].beyond_chance
    assert rows[NAME].is_better is None
    assert covers(rows[NAME].change.interval, -(frame["axis"] == "ability").mean())
    assert analysed(runs / "first")


def test_a_run_without_generation_is_refused(tmp_path):
    given = ["--output_dir", tmp_path / "run", "--measurements"]
    assert "add generation to --measurements" in refusal(*given, "length")
    assert "add generation to --measurements" in refusal(*given, "likelihood", "--judge", "offensive")
