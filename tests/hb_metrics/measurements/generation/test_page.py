"""Generation bias on the page of one run and of two: what its tables hold, and what readers are told."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from hb_metrics.layout.numbers import fixed, slot
from hb_metrics.layout.rendering import render
from hb_metrics.measurements import GENERATION
from hb_metrics.measurements.generation.styles import Example, Term
from hb_metrics.measurements.generation.terms import term_changes
from hb_metrics.measurements.results import read_run
from hb_metrics.reply_checks.style_change import style_change
from hb_metrics.run.replies import Replies
from hb_metrics.stats.bias_values import DescriptorKey, RunStyles
from tests.hb_metrics.made_results import AXES, SORRY, full_run, loaded, write_run
from tests.hb_metrics.pages import Page

NAMES = ("before", "after")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder of both runs, and each run's results and replies."""
    folder, base = tmp_path_factory.mktemp("runs"), full_run()
    first = write_run(folder / "before", base)
    second = write_run(folder / "after", base, seed=1, prefix="Well", replies_per_cell=9)
    return folder, first, second


def details_of(folders):
    """The details of two runs, and their sections as one page."""
    details = GENERATION.parts.details(*map(read_run, folders), NAMES)
    return details, Page(f"<main>{''.join(section.html for section in details.sections)}</main>")


@pytest.fixture(scope="module")
def compared(runs):
    return details_of([runs[0] / name for name in NAMES])


def test_parroting_changes_are_correlated_with_the_first_bias(runs, compared):
    _, (first, _), (second, _) = runs
    rows = []
    for results in (first, second):
        rows.append({(row["axis"], row["descriptor"]): row for row in results["generation"]["by_descriptor"]})
    parroting = [rows[1][key]["parroting_share"] - row["parroting_share"] for key, row in rows[0].items()]
    expected = spearmanr(parroting, [row["mean_bias_value"] for row in rows[0].values()]).statistic

    assert f"mean bias value in the first run is {fixed(expected, 2)}" in compared[1].words
    sides = [results["generation"]["parroting"]["by_template"] for results in (first, second)]
    assert {row[0]: row[1:3] for row in compared[1].table("Parroting")[1:]} == {
        slot(name): [f"{side[name]:.1%}" for side in sides] for name in sides[0]
    }


def test_phrases_are_counted_in_the_first_runs_groups(runs, compared):
    _, (first, _), (_, replies) = runs
    group = first["generation"]["phrase_rates"]["groups"]["confusion"]
    keys = {(row["axis"], row["descriptor"]) for row in group["descriptors"]}
    about = zip(replies.axes, replies.descriptors, replies.texts, strict=True)
    texts = [text for axis, name, text in about if (axis, name) in keys]
    share = sum("sorry to hear" in text for text in texts) / len(texts)

    table = compared[1].table("Phrases in replies about the confusion terms")

    (row,) = (row for row in table if row[0] == f"“{SORRY}”")
    assert row[1:3] == [f"{group['phrases']['sympathy'][SORRY]:.1%}", f"{share:.1%}"]
    assert row[4:] == ["4.5%", "1.6%"]


def test_replies_to_the_same_prompts_stand_side_by_side(runs, compared):
    _, (first, _), (_, replies) = runs
    answers = dict(zip(replies.prompts, replies.texts, strict=True))
    terms = compared[0].terms

    assert terms["names"] == NAMES
    assert len(terms["rows"]) == 6 * len(AXES)
    for row, pairs in zip(terms["rows"], terms["pairs"], strict=True):
        expected = [
            [example["prompt"], example["reply"], answers[example["prompt"]], example["why"], None]
            for example in first["generation"]["examples"]
            if (example["axis"], example["descriptor"]) == (row["axis"], row["name"])
        ]
        assert pairs == expected
        assert len(pairs) > 1


def test_a_term_on_two_axes_is_listed_with_its_axis():
    keys = [DescriptorKey(*key) for key in (("age", "old"), ("nationality", "Māori"), ("race_ethnicity", "Māori"))]
    means = np.array([[0.5, 0.5], [0.2, 0.8], [0.3, 0.7]])
    change = style_change(*(RunStyles(keys, shares, ["Warm", "Cold"]) for shares in (means, means[:, ::-1])))
    context = {"styles": change, "shown": {"decreases": change.styles, "increases": []}, "known": keys}
    page = Page(f"<main>{render('generation/comparison_styles.html.jinja', context)}</main>")
    rose = {row[0]: row[-1] for row in page.table("Largest decreases in variance")}
    assert rose["Warm"] == "Māori (Nationality), Māori (Race and ethnicity)"


def test_several_replies_to_a_prompt_are_paired_by_number():
    examples = [
        Example(identifier, "a", "d", "drawn", "Hi", identifier, "calm", 1.0, False)
        for identifier in ("p#2", "p", "p#3", "q")
    ]
    results = replace(loaded(full_run()).generation, by_descriptor=[Term("a", "d", 4, 0.0, {}, 0.0)], examples=examples)
    texts = ["second 1", "second 2", "other words"]
    second = Replies(["p", "p#2", "q"], ["a"] * 3, ["d"] * 3, ["t"] * 3, ["Hi", "Hi", "Hello"], texts)
    ((*pairs,),) = term_changes(results, results, second)["pairs"]
    assert [(first, reply, numbers) for _, first, reply, _, numbers in pairs] == [
        ("p#2", "second 2", [2, 2]),
        ("p", "second 1", [1, 1]),
        ("p#3", "second 1", [3, 1]),
    ]
