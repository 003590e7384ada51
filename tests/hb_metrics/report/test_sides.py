"""The table of both sides tells models apart that lower bias alone, by not listening, by nouns, or by one answer."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from hb_dataset import load_table
from hb_metrics.collect.classifiers.censoring import term_mentioned
from hb_metrics.layout.figure import Figure
from hb_metrics.layout.numbers import axis_label
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.generation.nouns import nouns_of
from hb_metrics.measurements.generation.results import refusals_table
from hb_metrics.measurements.generation.run_changes import changes
from hb_metrics.measurements.results import read_run
from hb_metrics.reply_checks.refusal_rules import match_rules, read_refusal_rules
from hb_metrics.report.changes import ChangeRow, RunChanges, run_changes
from hb_metrics.report.comparison import write_comparison
from hb_metrics.report.markdown import overview_markdown
from hb_metrics.report.sides import (
    BIAS,
    EFFECTS_FILE,
    ENTROPY,
    LOWEST,
    SHOWN_AS,
    SIDES,
    UPTAKE,
    _judged,
    _lowest,
    both_sides,
    sides_lines,
)
from hb_metrics.run.run_folder import run_digest
from hb_metrics.stats.changes import PairedChange
from hb_metrics.stats.gen_bias import ByMetric
from hb_metrics.stats.gen_bias_intervals import NO_VARIATION_REASON
from tests.hb_metrics.made_results import (
    LABELS,
    add_awareness,
    add_decisions,
    add_dialogue,
    check_margins,
    full_run,
    loaded,
    replies_to,
    some_prompts,
    write_results,
    write_run,
    write_vectors,
)
from tests.hb_metrics.measurements.awareness.test_awareness import hears, ignores, said, serves_everybody
from tests.hb_metrics.pages import read_page


def hears_most(prompt):
    """What the need asks for, if somebody with a descriptor asks, in three of four prompts."""
    return "Fine." if len(prompt) % 4 == 0 else hears(prompt)


# Name of a toy → what its style depends on, whether it names terms, and what it says of needs.
TOYS = {
    "before": ("term", True, hears_most),
    "less biased": ("nothing", True, hears_most),
    "ignores": ("nothing", False, ignores),
    "moves to nouns": ("noun", True, hears_most),
    "one answer": ("nothing", True, serves_everybody),
}
FELL = {"Full Gen Bias": "fell"}
NOT_HEARD = {"Divergence on needs": "fell", "Difference awareness": "fell"}
MOVED = {
    "less biased": FELL,
    "ignores": {**FELL, **NOT_HEARD, "Uptake": "fell", "Needs taken up": "fell"},
    "moves to nouns": {**FELL, "Bias between nouns": "rose"},
    "one answer": {**FELL, **NOT_HEARD, "Needs taken up": "rose"},
}


def toy_replies(by, names, seed):
    """Replies of which half name the term, if any do, and style vectors that depend on one thing and on chance."""
    replies, rng = replies_to(some_prompts(), 8, seed), np.random.default_rng(seed)
    about = zip(replies.descriptors, rng.random(len(replies.ids)) < 0.5, strict=True)
    replies = replies._replace(texts=[f"Hello {term}." if named and names else "Hello." for term, named in about])
    nouns = nouns_of(load_table("v1.0-small"), replies.ids)
    keys = {"term": replies.descriptors, "noun": nouns, "nothing": [0] * len(nouns)}[by]
    draw = np.random.default_rng(1)
    mixes = {key: draw.dirichlet(np.full(len(LABELS), 0.3)) for key in sorted(set(keys))}
    return replies, np.stack([rng.dirichlet(8 * mixes[key] + 0.01) for key in keys])


def toy_run(folder, by, names, heard, seed):
    """The folder of a run of a planted model. `heard` has the folder and the results of its difference awareness."""
    shutil.copytree(heard[0], folder)
    made = toy_replies(by, names, seed)
    results = full_run() | {"awareness": heard[1]["awareness"]}
    results["run"]["awareness"] = heard[1]["run"]["awareness"]
    results, replies = write_run(folder, results, made=made)
    write_vectors(folder / "style_probabilities", replies.ids, made[1].astype(np.float32))
    found = match_rules(replies.texts, read_refusal_rules())
    pq.write_table(refusals_table(replies.ids, found), folder / "refusals.parquet")
    write_results(folder, results)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root, heard, runs = tmp_path_factory.mktemp("toys"), {}, {}
    for seed, (name, (by, names, rule)) in enumerate(TOYS.items(), 10):
        if rule not in heard:
            source = root / f"awareness of {rule.__name__}"
            heard[rule] = source, said(rule, source)
        runs[name] = toy_run(root / name, by, names, heard[rule], seed)
    return runs


@pytest.fixture(scope="module")
def sides(folders):
    runs = [read_run(folder) for folder in folders.values()]
    names = list(folders)
    compared = [run_changes(runs[0], run, ("before", name)) for run, name in zip(runs[1:], names[1:], strict=True)]
    check_margins(compared[0])
    return both_sides(runs, compared)


@pytest.mark.parametrize("name", MOVED)
def test_planted_models_are_told_apart(sides, name):
    place = sides.names.index(name) - 1
    moved = {row.name: row.after[place][1].split()[0] for row in sides.rows if row.name != LOWEST}
    assert {figure: verb for figure, verb in moved.items() if verb in ("fell", "rose")} == MOVED[name]
    claimed, good = sides.sentences[place], {"Full Gen Bias": "fell", "Needs taken up": "rose"}
    is_better = {good.get(figure) == verb for figure, verb in MOVED[name].items()}
    verdict = "better in part, worse in part" if len(is_better) == 2 else "better"
    assert sides.verdicts[place].removesuffix(", as far as known") == verdict
    for figure in {SHOWN_AS.get(name, name) for name in SIDES} - {"Full Gen Bias"}:
        assert (f"{figure.lower()} fell" in claimed or f"{figure.lower()} rose" in claimed) == (figure in MOVED[name])


def test_the_lowest_axis_is_the_one_that_keeps_least(sides):
    shares = []
    for name in ("before", "less biased"):
        by, names, _ = TOYS[name]
        replies, _ = toy_replies(by, names, 10 + list(TOYS).index(name))
        named = term_mentioned(replies, {})
        axes = np.array(replies.axes)
        shares.append({axis: named[axes == axis].mean() for axis in sorted(set(replies.axes))})
    lowest = min(shares[0], key=lambda axis: shares[1][axis] / shares[0][axis])
    names = [row.name for row in sides.rows]
    assert names.count(LOWEST) == 1
    (value, words), (nothing, gone), *_ = sides.rows[names.index(LOWEST)].after
    assert value == f"{shares[1][lowest]:.1%}"
    assert words.startswith(f"{axis_label(lowest)}, {shares[0][lowest]:.1%} before: ")
    assert nothing == "0.0%"
    assert "before: fell by 100 %" in gone


def test_an_axis_is_lowest_by_the_share_that_it_keeps_and_not_by_its_size():
    shares = {"rare": (0.1, 0.08), "half": (0.4, 0.2), "none": (0.0, 0.0)}
    rows = [
        ChangeRow(Figure(f"{UPTAKE}, {axis}", None, "share"), PairedChange(*of_axis, None, None, None), True)
        for axis, of_axis in shares.items()
    ]
    assert _lowest(rows) == rows[1]


@pytest.mark.parametrize(("share", "names"), [(0.0, []), (0.2, ["Answers without a decision"])])
def test_figures_that_were_and_remain_0_are_no_unknown_change(share, names):
    figure = Figure("Answers without a decision", 0.0, "share")
    row = ChangeRow(figure, PairedChange(0.0, share, None, None, None), False)
    assert [*_judged(RunChanges("before", "after", [row], {}), {row.name: row})] == names


def test_page_card_and_terminal_have_the_same_table(folders, sides, tmp_path):
    names = list(folders)
    shown, _ = write_comparison(list(folders.values()), tmp_path / "c.html", names)
    assert shown == sides
    page, lines = read_page(tmp_path / "c.html"), sides_lines(sides)
    card = overview_markdown(list(folders.values()), names)
    (head, *rows) = page.table("Bias and side effects")
    assert head[1:] == names
    assert "sides" in page.links
    for row, expected in zip(rows, sides.rows, strict=True):
        assert row[:2] == [f"{expected.name} {expected.meaning}", expected.before]
        assert [cell.split() for cell in row[2:]] == [f"{value} {change}".split() for value, change in expected.after]
        cells = [expected.name, expected.before, *(cell for pair in expected.after for cell in pair)]
        assert f"| {' | '.join(cells)} |" in card
        assert sum(line.split()[: len(expected.name.split())] == expected.name.split() for line in lines) >= 4
    for sentence in sides.sentences:
        assert sentence in page.words
        assert sentence in card


def test_values_before_are_those_of_each_pair(folders):
    runs = [read_run(folders[name]) for name in ("before", "less biased", "ignores")]
    first, second = (run_changes(runs[0], run, ("before", "after")) for run in runs[1:])
    for row in second.rows:  # as if the last run had fewer replies, so that others of the first run are compared
        if row.name == UPTAKE:
            other = row._replace(change=row.change._replace(first=row.change.first / 2))
    rows = [other if row.name == UPTAKE else row for row in second.rows]
    found = {row.name: row for row in both_sides(runs, [first, second._replace(rows=rows)]).rows}
    uptake, bias = found[SHOWN_AS.get(UPTAKE, UPTAKE)], found["Full Gen Bias"]
    assert uptake.before == "–"
    assert uptake.after[1][1] == f"{other.cells[0]} before: {other.sentence}"
    assert (bias.before != "–", "before" in bias.after[0][1]) == (True, False)


def test_styles_that_a_report_does_not_judge_are_not_compared(folders):
    before, after = (read_run(folders[name]) for name in ("before", "less biased"))
    plain = after.results.generation.gen_bias
    unvaried = ByMetric(NO_VARIATION_REASON, None, None, None, None, None)
    for changed, reason in (
        ({"short_share": 0.6}, "fewer than 4 words"),
        ({"gen_bias": plain._replace(no_intervals=unvaried)}, "do not vary"),
    ):
        generation = replace(after.results.generation, **changed)
        other = after._replace(results=after.results.with_("generation", generation))
        for pair in ((before, other), (other, before)):
            found = changes(*pair)
            assert reason in found.reason
            assert "Full Gen Bias, debiased" not in found.by_name
            assert UPTAKE in found.by_name


def test_side_effects_show_for_the_runs_they_were_measured_for(folders):
    runs = [read_run(folders[name]) for name in ("before", "ignores")]
    effects = {"drift": {"value": 0.01234, "interval": [0.01, 0.0149]}, "confidence_level": 0.95}
    effects["entropy"] = PairedChange(1.5, 1.8, (0.2, 0.4), (0.133, 0.267), None)._asdict()
    effects |= {"before": run_digest(runs[0].folder), "after": run_digest(runs[1].folder)}
    path = runs[1].folder / EFFECTS_FILE
    path.write_text(json.dumps(effects))
    changes = [run_changes(*runs, ("before", "ignores"))]
    found = both_sides(runs, changes)
    assert found.rows[-1][:3] == ("Neutral drift", "–", [("0.012", "95% interval 0.010 to 0.015")])
    assert (ENTROPY, "1.500", [("1.800", "rose by 20 % (13 to 27)")]) in [row[:3] for row in found.rows]
    for words in ("Neutral drift is 0.012 nats per token", "Different beyond chance: entropy of replies rose by 20 %"):
        assert words in found.sentences[0]
    told = [row for row in changes[0].main if row.change.interval is not None]
    assert "Disclaimers" in {row.name for row in told}  # the table lacks it
    assert all(SHOWN_AS.get(row.name, row.name).lower() in found.sentences[0].lower() for row in told)
    assert f"(adjusted for {len(told) + 1} figures)" in found.sentences[0]  # with entropy
    path.write_text(json.dumps(effects | {"before": "another run"}))
    assert not {"Neutral drift", ENTROPY} & {row.name for row in both_sides(runs, changes).rows}
    path.unlink()


def test_every_row_is_a_figure_and_bias_needs_uptake_beside_it():
    results = add_decisions(add_awareness(add_dialogue(full_run())))
    names = {figure.name for measurement in MEASUREMENTS for figure in measurement.figures(loaded(results))}
    assert names >= set(SIDES) - {ENTROPY}
    assert BIAS in names
