"""Changes from one run to another, from the files of their folders."""

import shutil
from functools import reduce
from operator import getitem

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scipy import stats

from hb_metrics.command.report import main
from hb_metrics.layout.figure import Figure
from hb_metrics.layout.numbers import axis_label
from hb_metrics.measurements import GENERATION, LIKELIHOOD, MEASUREMENTS
from hb_metrics.measurements.generation import run_changes as of_generation
from hb_metrics.measurements.offensiveness.compute import changes as offensive_changes
from hb_metrics.measurements.results import read_run
from hb_metrics.report.changes import ChangeRow, RunChanges, better_or_worse, holm_adjusted, p_value, run_changes
from hb_metrics.run.run_folder import PROMPTS_FILE
from hb_metrics.run.tables import Tables
from hb_metrics.stats.changes import PairedChange, change_from_covariance
from tests.hb_metrics.made_results import change_results, loaded, read_results
from tests.hb_metrics.pages import check_sound, read_page

NAMES = ("before", "after")


@pytest.fixture
def copied(made_runs, tmp_path):
    return [shutil.copytree(folder, tmp_path / folder.name) for folder in made_runs]


def changes_of(folders):
    return run_changes(read_run(folders[0]), read_run(folders[1]), NAMES)


def test_changes_are_of_the_values_in_the_results(made_runs):
    changes = changes_of(made_runs)
    assert changes.missing == {}
    rows = {row.name: row.change for row in changes.rows}
    runs = [read_results(folder) for folder in made_runs]

    def values(*path):
        return pytest.approx([reduce(getitem, path, results) for results in runs])

    def shown(name):
        return [rows[name].first, rows[name].second]

    assert shown("Full Gen Bias, debiased") == values("generation", "debiased", "full_gen_bias")
    assert shown("Replies that name the term") == values("generation", "uptake", "share")
    assert shown("Bias between nouns") == values("generation", "nouns", "value")
    assert shown("Bias between nouns, female") == values("generation", "nouns", "by_gender", "female", "value")
    assert shown("Likelihood Bias") == values("likelihood", "likelihood_bias", "likelihood_bias")
    assert shown("Attitude contrast") == values("likelihood", "contrasts", "spread", "value")
    assert shown("Offensive replies") == values("offensiveness", "replies", "offensive_share")
    assert shown("Dialogue perplexity") == values("dialogue", "perplexity")
    for axis, value in runs[0]["likelihood"]["likelihood_bias"]["by_axis"].items():
        assert rows[f"Likelihood Bias, {axis_label(axis)}"].first == pytest.approx(value)
    assert rows["Dialogue perplexity"].beyond_chance
    paired = [row for row in changes.rows if row.is_paired]
    assert all((row.change.interval is None) != (row.change.reason is None) for row in paired)
    assert [row.name for row in changes.main] == [
        "Likelihood Bias",
        "Attitude contrast",
        "Full Gen Bias, debiased",
        "Bias between nouns",
        "Replies that name the term",
        "Offensive replies",
        "Dialogue perplexity",
    ]
    parts = {row.figure.part_of for row in paired}
    assert parts == {
        "",
        "Likelihood Bias by axis",
        "Attitude contrast by axis",
        "Full Gen Bias by axis",
        "Bias between nouns by gender",
        "Replies that name the term by axis",
        "Partial Gen Bias by cluster",
        "Summed-Cluster Gen Bias by cluster",
        "Offensive texts by axis",
    }


def other_classifier(results):
    results["run"]["style_classifier"]["digest"] = "another"
    results["run"]["offensiveness_classifier"]["digest"] = "another"


def other_cue(results):
    results["run"]["generation"]["cue"] = "history"


@pytest.mark.parametrize(("change", "words"), [(other_classifier, "different classifiers"), (other_cue, "cues")])
def test_what_is_not_comparable_has_a_reason(copied, change, words):
    change_results(copied[1], change)
    changes = changes_of(copied)
    paired = {row.name.split(",")[0] for row in changes.rows if row.is_paired}
    of_any_classifier = set() if change is other_cue else {"Replies that name the term"}
    assert paired == {"Likelihood Bias", "Attitude contrast", "Dialogue perplexity"} | of_any_classifier
    assert list(changes.missing) == ["Generation bias", "Offensiveness"]
    assert all(words in reason for reason in changes.missing.values())
    assert any("Generation bias: changes have no interval, because" in note for note in changes.notes(changes.rows))


def test_offensiveness_of_other_replies_is_refused(copied):
    (file,) = (copied[1] / "offensiveness" / "replies").glob("*.parquet")
    table = pq.read_table(file)
    pq.write_table(table.take(pa.array([1, 0, *range(2, len(table))])), file)
    with pytest.raises(ValueError, match="replies' belongs to other texts"):
        offensive_changes(read_run(copied[0]), read_run(copied[1]))


def keep_replies(run, ids):
    for folder in ("replies", "style_probabilities", "offensiveness/replies"):
        for path in (run / folder).glob("*.parquet"):
            table = pq.read_table(path)
            pq.write_table(table.filter(pc.is_in(table["id"], pa.array(ids))), path)


def test_other_terms_do_not_compare(copied):
    replies = Tables(copied[1]).replies()
    about = zip(replies.ids, replies.descriptors, strict=True)
    keep_replies(copied[1], [identifier for identifier, term in about if term != replies.descriptors[0]])
    reason = "the terms or the templates differ between the runs"
    assert changes_of(copied).missing == {"Generation bias": reason, "Offensiveness": reason}


def test_a_run_that_lacks_cells_differs_only_where_both_have_replies(copied):
    before, after = copied[0], shutil.copytree(copied[0], copied[0].parent / "lacking")
    replies, rng = Tables(after).replies(), np.random.default_rng(0)
    cells = sorted({*zip(replies.axes, replies.descriptors, replies.templates, strict=True)})
    lost = {cell for cell, is_lost in zip(cells, rng.random(len(cells)) < 0.2, strict=True) if is_lost}
    about = zip(replies.ids, zip(replies.axes, replies.descriptors, replies.templates, strict=True), strict=True)
    kept_ids = [identifier for identifier, cell in about if cell not in lost]
    assert 0.1 * len(cells) < len(lost)
    assert len(kept_ids) < 0.9 * len(replies.ids)
    keep_replies(after, kept_ids)
    rows = changes_of([before, after]).rows
    assert len({row.name for row in rows if row.name.startswith(("Full Gen Bias", "Offensive", "Bias between"))}) > 5
    for row in rows:
        assert row.change.first == pytest.approx(row.change.second, abs=1e-12), row.name


def test_without_the_files_there_is_a_reason(copied):
    for name in ("style_probabilities", "offensiveness", "perplexities", "dialogue", "replies"):
        shutil.rmtree(copied[1] / name)
    changes = changes_of(copied)
    assert not any(row.is_paired for row in changes.rows)
    assert set(changes.missing.values()) == {"a run's folder lacks the files that the computation needs"}


def row(name, unit, change, part_of=""):
    return ChangeRow(Figure(name, None, unit, part_of=part_of), change, is_paired=True)


@pytest.mark.parametrize(
    ("change", "unit", "sentence"),
    [
        (PairedChange(10, 5.9, (-6, -2), (-0.53, -0.28), None), "bias", "fell by 41 % (28 to 53)"),
        (PairedChange(10, 12.0, (1, 3), (0.08, 0.31), None), "bias", "rose by 20 % (8 to 31)"),
        (PairedChange(10, 9.5, (-2, 1), (-0.2, 0.12), None), "bias", "not beyond chance (−20 to +12 %)"),
        (PairedChange(1, -1.5, (-4, -1), None, None), "bias", "fell by 2.50 (1.00 to 4.00)"),
        (PairedChange(0.1, 0.05, (-0.08, -0.02), None, None), "share", "fell by 5.0 points (2.0 to 8.0)"),
        (PairedChange(3, 2, None, None, "there are few"), "bias", "no interval"),
    ],
)
def test_changes_in_words(change, unit, sentence):
    assert row("A figure", unit, change).sentence == sentence


def t_change(difference, freedom=8):
    return change_from_covariance(10.0, 10.0 + difference, np.diag([1.0, 0.5]), freedom, 0.95)


@pytest.mark.parametrize("difference", [-4.0, 0.3, 9.0])
def test_p_values_are_those_of_the_interval(difference):
    expected = 2 * stats.t.sf(abs(difference) / np.sqrt(1.5), 8)
    assert p_value(t_change(difference)) == pytest.approx(expected)


def test_chance_is_judged_by_holm_within_a_table():
    # p-values of 0.015, 0.045, 0.030 and 0.005: Holm's method rejects the first and the last at 5 %.
    differences = [np.sqrt(1.5) * stats.t.isf(p / 2, 8) for p in (0.015, 0.045, 0.03, 0.005)]
    rows = [row(f"figure {place}", "bias", t_change(each)) for place, each in enumerate(differences)]
    rows.append(row("alone", "bias", t_change(differences[1]), "others"))
    rows.append(row("few", "bias", PairedChange(1, 2, None, None, "few")))
    found = holm_adjusted(rows)
    assert [row.beyond_chance for row in found] == [True, False, False, True, True, False]
    assert found[2].sentence.startswith("not beyond chance among several figures (+")
    assert [row.change for row in found] == [row.change for row in rows]


def test_opposite_changes_of_parts_are_told_although_they_cancel_out():
    changes = {"Refusals, Age": -9.0, "Refusals, Religion": 9.0, "Refusals, Ability": 1.5}
    parts = [row(name, "bias", t_change(change, 90), "Refusals by axis") for name, change in changes.items()]
    rows = holm_adjusted([row("Refusals", "bias", t_change(0.1)), *parts])
    found = RunChanges("a", "b", rows, {})
    assert [part.name for part in found.moved_parts] == ["Refusals, Age", "Refusals, Religion"]
    assert "Parts changed, although the whole did not: refusals, age, fell by 9" in found.sentence
    assert better_or_worse([*found.main, *found.moved_parts]) == "better in part, worse in part"
    rows[0] = row("Refusals", "bias", t_change(9.0))  # of the whole, so the parts are no news
    assert found._replace(rows=rows).moved_parts == []


def test_parts_become_better_in_the_direction_of_the_whole(made_runs):
    changes = changes_of(made_runs)
    whole = {row.name: row.figure.higher_is_better for row in changes.main}
    parts = [row for row in changes.rows if row.figure.part_of and row.is_paired and row.name.split(", ")[0] in whole]
    assert {whole[row.name.split(", ")[0]] for row in parts} == {True, False}
    assert all(row.figure.higher_is_better == whole[row.name.split(", ")[0]] for row in parts)


@pytest.fixture
def folder(made_runs):
    return made_runs[0]


def test_the_report_has_both_intervals(folder, tmp_path):
    path = tmp_path / "page.html"
    main([str(folder), "--generalise", "templates", "--output", str(path)])
    page = read_page(path)
    check_sound(page)
    text = path.read_text(encoding="utf-8")
    section = text[text.index('id="generalised"') :]
    assert "is for other templates" in section


def test_intervals_are_of_the_figures_in_the_results(folder, monkeypatch):
    run, values = read_run(folder), []
    known = of_generation.gen_bias_influences

    def spied(*given):
        values.append(known(*given))
        return values[-1]

    monkeypatch.setattr(of_generation, "gen_bias_influences", spied)
    found = of_generation.generalise(run, "both")
    debiased = run.results.generation.debiased
    expected = [debiased.full_gen_bias, *(debiased.by_axis[axis] for axis in sorted(debiased.by_axis))]
    assert [1000 * (value.value - value.noise) for value in values] == pytest.approx(expected)
    low, high = found["Full Gen Bias, debiased"].interval
    assert low < debiased.full_gen_bias < high
    names = {
        figure.name for measurement in MEASUREMENTS[:3] for figure in measurement.parts.figures(loaded(run.results))
    }
    for measurement in MEASUREMENTS[:3]:
        of_measurement = measurement.parts.generalise(run, "terms")
        assert of_measurement
        for name, interval in of_measurement.items():
            if name in names and ", " not in name:
                assert (interval.interval is None) != (interval.reason is None)
    assert {"Likelihood Bias", "Offensive replies", "Replies that name the term"} <= names


def test_what_cannot_be_generalised_is_refused(folder, tmp_path):
    with pytest.raises(SystemExit, match="--generalise accepts only one run, but 2 were passed"):
        main([str(folder), str(folder), "--generalise", "terms"])
    for missing in ("perplexities", "style_probabilities"):
        damaged = tmp_path / missing
        shutil.copytree(folder, damaged)
        shutil.rmtree(damaged / missing)
        with pytest.raises(SystemExit, match=f"{missing}' does not exist"):
            main([str(damaged), "--generalise", "terms"])


def test_pairs_of_terms_have_no_intervals_for_other_terms(folder, tmp_path):
    paired = shutil.copytree(folder, tmp_path / "paired")
    prompts = pq.read_table(paired / PROMPTS_FILE)
    for name in ("first_descriptor", "second_descriptor"):
        for ending in ("", "_plural"):
            prompts = prompts.append_column(name + ending, prompts["descriptor"])
    pq.write_table(prompts, paired / PROMPTS_FILE)
    for over in ("terms", "both"):
        with pytest.raises(SystemExit, match=r"pairs of terms.*set --generalise to templates"):
            main([str(paired), "--generalise", over])
    for run, is_known in ((read_run(folder), True), (read_run(paired), False)):
        assert ("Likelihood Bias" in LIKELIHOOD.parts.changes(run, run).by_name) == is_known
        assert ("Bias between nouns" in GENERATION.parts.changes(run, run).by_name) == is_known
