import json
import shutil

import numpy as np
import pytest

from hb_metrics.command.report import main as report
from hb_metrics.human_eval import analyse, export
from hb_metrics.human_eval.study import read_study
from hb_metrics.layout import paper
from tests.hb_metrics.human_eval.made_runs import small_prompts, write_run
from tests.hb_metrics.human_eval.made_study import answers, attentive, write_lines
from tests.hb_metrics.made_results import add_dialogue, read_results, write_results
from tests.hb_metrics.pages import HOSTILE, check_sound, read_page

OPTIONS = ["--num_raters", "3", "--pairs_per_rater", "26", "--raters_per_pair", "2", "--checks_per_rater", "2"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Two runs, and the study of them that `export` wrote into `out`."""
    root, prompts = tmp_path_factory.mktemp("human"), small_prompts()
    for name in ("a", "b"):
        folder = write_run(root / name, prompts, lambda row, name=name: f"{name}: {HOSTILE} {row['id']}", model=name)
        write_results(folder, add_dialogue({"run": read_results(folder)["run"]}))
    export.main([*map(str, (root / "a", root / "b")), "--output_dir", str(root / "out"), *OPTIONS])
    return root


@pytest.fixture(scope="module")
def rated(root):
    """The same with ratings in which the second run is liked, in a folder beside the pages."""
    study, rng = read_study(root / "out" / "study.json"), np.random.default_rng(0)
    (root / "out" / "ratings").mkdir()

    def choose(rater, screen, question):
        wins = rng.random() < 0.8
        return attentive(screen, 1 if wins == (screen.first == 1) else 2)

    rows = [{**row, "rater": f"{row['rater']} {HOSTILE}", "seconds": 2.5} for row in answers(study, choose)]
    write_lines(root / "out" / "ratings" / "all.jsonl", rows)
    analyse.main([str(root / "out" / "ratings" / "all.jsonl")])
    return root / "out"


def test_export_writes_the_same_pages_once_more(root, capsys):
    out, runs = root / "out", [str(root / "a"), str(root / "b")]
    before = {path.name: path.read_bytes() for path in out.glob("*.*")}
    assert {"study.json", "tasks.jsonl", "rater-01.html", "rater-02.html", "rater-03.html"} <= before.keys()
    for folder, seed in (("out", "0"), ("seed-0", "0"), ("seed-1", "1")):
        export.main([*runs, "--output_dir", str(root / folder), *OPTIONS, "--seed", seed])
        for path in (root / folder).glob("*.*"):
            assert (path.read_bytes() == before[path.name]) == (seed == "0")
    assert "Together, they contain 39 of the pairs" in capsys.readouterr().out
    assert str(root) not in before["study.json"].decode() + before["rater-01.html"].decode()


def test_export_says_in_a_line_what_is_wrong(root, tmp_path, capsys):
    a, b, out = str(root / "a"), str(root / "b"), str(root / "out")
    for arguments, message in (
        ([a, b], "exists with other content, to which ratings may refer; set --output_dir to a new folder"),
        ([a, str(tmp_path)], "has no results.json"),
        ([a, b, "--pairs_per_rater", "900"], "the study needs 2,700 pairs"),
    ):
        with pytest.raises((ValueError, OSError), match=message):
            export.main([*arguments, "--output_dir", out])
    for option, number in (("num_raters", 0), ("pairs_per_rater", 0), ("checks_per_rater", -1), ("raters_per_pair", 7)):
        with pytest.raises(SystemExit):
            export.main([a, b, "--output_dir", out, f"--{option}", str(number)])
        assert f"--{option} is {number}; set it to at " in capsys.readouterr().err


def test_the_page_has_the_results_and_the_papers_table(rated):
    results = json.loads((rated / "human_evaluation.json").read_text(encoding="utf-8"))
    page = read_page(rated / "human_evaluation.html")

    check_sound(page)
    header, ours, *printed = page.table("Win rate of b")
    assert header == ["Model", "Preference", "Humanness", "Interestingness"]
    for cell, question in zip(ours[1:], results["questions"], strict=True):
        low, high = question["interval"]
        assert cell == f"{question['win_rate']:.1%}{low:.1%} to {high:.1%}"
        assert low > 0.5
    for row, (model, shares) in zip(printed, paper.PRINTED.human_evaluation.items(), strict=True):
        assert row == [f"{model} (paper)", *(f"{share:.0%}" for share in shares.values())]
    assert [row[0] for row in page.table("Raters")[1:]] == [f"rater-0{number} {HOSTILE}" for number in (1, 2, 3)]
    words = "The difference from 50% is beyond chance", "Only 3 raters took part.", "the instructions to raters"
    assert all(each in page.text for each in words)


def test_analyse_finds_the_study_or_says_what_is_wrong(rated, tmp_path, capsys):
    ratings = shutil.copy(rated / "ratings" / "all.jsonl", tmp_path / "all.jsonl")
    study, output = rated / "study.json", tmp_path / "new" / "folder"
    analyse.main([str(ratings), "--study", str(study), "--output_dir", str(output)])
    assert (output / "human_evaluation.json").read_bytes() == (rated / "human_evaluation.json").read_bytes()
    assert "b was chosen over a in" in capsys.readouterr().out
    for arguments, message in (
        ([ratings, "--study", rated / "human_evaluation.json"], "is not a study written by this release"),
        ([rated / "tasks.jsonl"], "line 1: rater, choice is missing; write an object with"),
    ):
        with pytest.raises((ValueError, OSError), match=message):
            analyse.main(list(map(str, arguments)))
    with pytest.raises(SystemExit):
        analyse.main([str(ratings)])
    assert "set --study to the study.json to which these ratings belong" in capsys.readouterr().err


def test_the_comparison_of_the_runs_shows_it(root, rated):
    runs, results = [root / "a", root / "b"], rated / "human_evaluation.json"
    output = ["--output", str(root / "comparison.html"), "--human_evaluation"]
    report([*map(str, runs), *output, str(results)])
    page = read_page(root / "comparison.html")
    check_sound(page)
    assert "human" in page.links
    assert page.table("Win rate of b")[1:] == read_page(rated / "human_evaluation.html").table("Win rate of b")[1:]

    with pytest.raises(SystemExit, match="contains no human evaluation"):
        report([*map(str, runs), *output, str(rated / "study.json")])
