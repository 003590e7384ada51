"""An overview of runs as a Markdown table, for a model's card."""

import re
import shutil
from pathlib import Path

import pytest

from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.report.markdown import overview_markdown
from tests.hb_metrics.made_results import (
    add_dialogue,
    change_results,
    dialogue_run,
    read_results,
    reddit_run,
    regard_of,
    regard_run,
    robustness_of,
    write_results,
    write_tuning_runs,
)

NAMES = ["before", "no_bias", "bias", "self-chat"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return write_tuning_runs(tmp_path_factory.mktemp("tuning"))


@pytest.fixture
def copied(folders, tmp_path):
    return [Path(shutil.copytree(folder, tmp_path / folder.name)) for folder in folders]


def rows_of(markdown):
    table = markdown.split("\n\n")[0].split("\n")
    return [[cell.strip().replace("\\_", "_") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]


def notes_of(markdown):
    return markdown.split("\n\n")[1]


def test_it_has_a_column_for_each_run_and_a_row_for_each_figure(folders):
    runs = [read_results(folder) for folder in folders]
    expected = {}
    for measurement in MEASUREMENTS:
        for column, figures in enumerate(measurement.overview_figures(runs)):
            for figure in figures:
                bounds = "" if figure.interval is None else f" ({figure.shown_interval})"
                expected.setdefault(figure.name, ["–"] * 4)[column] = figure.shown + bounds

    head, rule, *rows = rows_of(overview_markdown(folders, NAMES))

    assert head == ["", *NAMES]
    assert rule == ["---", *["---:"] * 4]
    assert rows == [[label, *cells] for label, cells in expected.items()]
    cells = {row[0]: row[1:] for row in rows}
    assert cells["Dialogue perplexity"] == ["40.0 (37.5 to 43.0)", "31.3 (28.8 to 34.3)", "30.0 (27.5 to 33.0)", "–"]
    assert cells["Offensive replies"] == [f"{run['offensiveness']['replies']['offensive_share']:.2%}" for run in runs]
    assert re.fullmatch(r"[\d.]+ \([\d.]+ to [\d.]+\)", cells["Full Gen Bias"][0])


def test_measurements_other_than_generation_have_rows_too(tmp_path):
    results = add_dialogue(regard_run(regard_of(num_structures=6))) | {"robustness": robustness_of()}
    results |= {"reddit": reddit_run()["reddit"]}
    folders = [write_results(tmp_path / "a", results), write_results(tmp_path / "b", dialogue_run())]

    labels = [row[0] for row in rows_of(overview_markdown(folders, ["a", "b"]))]

    for label in ("Regard gap, Race", "LMP", "Likelihood Bias, rank correlation of halves", "Dialogue perplexity"):
        assert label in labels


def test_it_says_what_classified_and_what_the_brackets_are(copied):
    notes = notes_of(overview_markdown(copied))

    assert notes.startswith(
        "In brackets: 95% intervals; where two overlap, they leave open whether there is a difference."
    )
    assert notes.count("Styles classified by a/classifier (digest 12).".replace("a/", "")) == 1
    assert "Offensiveness classified by classifier (digest 13); a note." in notes
    change_results(copied[0], lambda results: results["run"]["style_classifier"].update(name="other", digest="77"))
    notes = notes_of(overview_markdown(copied, NAMES))
    assert "before: Styles classified by other (digest 77)." in notes
    assert "bias: Styles classified by classifier (digest 12)." in notes
    assert "Styles were classified by different classifiers. No Gen Bias value, style or cluster compares." in notes


def test_without_intervals_nothing_is_said_of_brackets(tmp_path):
    folders = [write_results(tmp_path / name, dialogue_run(interval=None)) for name in "ab"]

    text = overview_markdown(folders, ["a", "b"])

    assert "brackets" not in text
    assert rows_of(text)[2] == ["Dialogue perplexity", "41.3", "41.3"]


def test_rows_that_no_run_has_are_left_out_and_names_stay_in_their_cells(copied):
    for folder in copied[:2]:
        change_results(folder, lambda results: [results.pop(name) for name in ("dialogue", "generation", "likelihood")])

    text = overview_markdown(copied[:2], ["a | b", "<i>c\n*d*"])

    assert rows_of(text)[0] == ["", r"a \| b", r"\<i\>c \*d\*"]
    assert [row[0] for row in rows_of(text)[2:]] == ["Offensive replies"]
    assert "Gen Bias" not in text


def test_names_are_one_a_run(folders):
    with pytest.raises(ValueError, match="1 names for 2 runs"):
        overview_markdown(folders[:2], ["one"])
