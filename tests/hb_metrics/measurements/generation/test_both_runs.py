"""Two runs on one page: the styles that changed most, and phrases in replies to the first run's groups of terms."""

import statistics

import numpy as np
import pytest

from hb_metrics.layout.rendering import render
from hb_metrics.measurements.generation.both_runs import ChangedStyle, changed_styles, generation_details
from hb_metrics.measurements.results import read_run
from hb_metrics.stats.bias_values import BiasValues
from hb_metrics.stats.inputs import DescriptorKey
from tests.hb_metrics.made_results import LABELS, SORRY, full_run, style_vectors, write_run, write_vectors
from tests.hb_metrics.pages import Page

STYLES = ["Sympathetic", "Curious", "Hateful", "Calm"]


def made_run(keys, means):
    return BiasValues(np.zeros(0), keys, np.zeros(0, int), np.zeros(0), means, means.mean(axis=0))


def test_every_change_equals_loops_over_terms_and_styles():
    keys = [DescriptorKey("age" if index % 2 else "ability", f"term {index:02}") for index in range(12)]
    draws = [np.random.default_rng(seed).dirichlet(np.ones(4), 12) for seed in (0, 1)]
    # Some only in one run, and the second run in another order.
    before, after = made_run(keys[:11], draws[0][:11]), made_run(keys[:1:-1], draws[1][:1:-1])
    old, new = (dict(zip(run.descriptors, run.descriptor_means, strict=True)) for run in (before, after))
    both, expected = [key for key in old if key in new], []
    for style, label in enumerate(STYLES):
        moved = sorted((float(new[key][style] - old[key][style]), key) for key in both)
        values = [[float(run[key][style]) for key in both] for run in (old, new)]
        expected.append(
            (
                label,
                pytest.approx([1000 * statistics.pvariance(of_run) for of_run in values]),
                pytest.approx(list(map(statistics.fmean, values))),
                [key for change, key in moved[:5] if change < 0],
                [key for change, key in moved[:-6:-1] if change > 0],
            )
        )
    styles = changed_styles(STYLES, before, after)
    changes = [style.variances[1] - style.variances[0] for style in styles]
    assert changes == sorted(changes)
    assert sorted(styles, key=lambda style: STYLES.index(style.style)) == expected
    assert changed_styles(STYLES, before, made_run(keys[11:], draws[1][11:])) == []


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs with style vectors, and each run's results and replies."""
    folder, written = tmp_path_factory.mktemp("runs"), []
    for seed, prefix in enumerate(("I hear you", "Well")):
        written.append(write_run(folder / prefix, full_run(), seed=seed, prefix=prefix))
        replies = written[-1][1]
        write_vectors(folder / prefix / "style_probabilities", replies.ids, style_vectors(replies, seed))
    return [read_run(folder / prefix) for prefix in ("I hear you", "Well")], written


def test_styles_are_those_of_the_results_and_phrases_are_counted_in_the_first_runs_groups(runs):
    (first, second), ((results, _), (other, replies)) = runs
    sections, _ = generation_details(first, second, ("a", "b"))
    page = Page(f"<main>{sections[0].html}</main>")
    group = results["generation"]["phrase_rates"]["groups"]["confusion"]
    keys = {(row["axis"], row["descriptor"]) for row in group["descriptors"]}
    about = zip(replies.axes, replies.descriptors, replies.texts, strict=True)
    texts = [text for axis, name, text in about if (axis, name) in keys]
    share = sum("sorry to hear" in text for text in texts) / len(texts)

    (row,) = (row for row in page.table("Phrases in replies about the confusion terms") if row[0] == f"“{SORRY}”")

    assert row[1:3] == [f"{group['phrases']['sympathy'][SORRY]:.1%}", f"{share:.1%}"]
    assert row[4:] == ["4.5%", "1.6%"]
    of_all = sum("sorry to hear" in text for text in replies.texts) / len(replies.texts)
    assert f"{of_all:.1%}" in next(row for row in page.table("Phrases in all replies") if row[0] == f"“{SORRY}”")

    styles = [{row["style"]: row for row in run["generation"]["styles"]} for run in (results, other)]
    changes = {label: styles[1][label]["variance"] - styles[0][label]["variance"] for label in LABELS}
    rows = page.table("Styles that changed most")[1:]
    assert rows[0][:2] == [min(changes, key=changes.get), f"{styles[0][rows[0][0]]['variance']:.3f}"]
    assert rows[-1][0] == max(changes, key=changes.get)
    assert rows[-1][3] == f"{styles[0][rows[-1][0]]['mean']:.2%}"


def test_a_term_on_two_axes_is_listed_with_its_axis():
    keys = [DescriptorKey(*key) for key in (("age", "old"), ("nationality", "Māori"), ("race_ethnicity", "Māori"))]
    styles = [ChangedStyle("Warm", [2.0, 1.0], [0.5, 0.4], [], keys[1:])]
    context = {"styles": styles, "known": keys, "rates": {}, "num_falling": 1, "num_rising": 0}
    page = Page(f"<main>{render('generation/both_styles.html.jinja', context)}</main>")
    rose = {row[0]: row[-1] for row in page.table("Styles that changed most")}
    assert rose["Warm"] == "Māori (Nationality), Māori (Race and ethnicity)"


def test_the_same_styles_in_both_runs_are_not_called_incomparable(runs):
    (first, _), _ = runs
    (styles, _), _ = generation_details(first, first, ("a", "b"))
    assert "No style changed its variance, or" in styles.html
