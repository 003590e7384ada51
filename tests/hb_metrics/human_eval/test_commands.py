import json
import shutil

import numpy as np
import pytest

from hb_metrics.human_eval import analyse, export
from hb_metrics.human_eval.study import read_study
from hb_metrics.report.__main__ import main as report
from hb_metrics.report.layout import paper
from tests.hb_metrics.human_eval.made_runs import small_prompts, write_run
from tests.hb_metrics.human_eval.made_study import answers, attentive, write_lines
from tests.hb_metrics.made_results import add_dialogue
from tests.hb_metrics.pages import HOSTILE, check_sound, read_page

OPTIONS = ["--num_raters", "3", "--pairs_per_rater", "26", "--raters_per_pair", "2", "--checks_per_rater", "2"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Two runs, and the study of them that `export` wrote into `out`."""
    root, prompts = tmp_path_factory.mktemp("human"), small_prompts()
    for name in ("a", "b"):
        folder = write_run(root / name, prompts, lambda row, name=name: f"{name}: {HOSTILE} {row['id']}", model=name)
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        (folder / "results.json").write_text(json.dumps(add_dialogue({"run": results["run"]})), encoding="utf-8")
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
    out = root / "out"
    names = {"study.json", "tasks.jsonl", "rater-01.html", "rater-02.html", "rater-03.html"}
    assert names <= {path.name for path in out.iterdir()}
    before = {name: (out / name).read_bytes() for name in names}
    runs = [str(root / "a"), str(root / "b")]
    export.main([*runs, "--output_dir", str(out), *OPTIONS])
    assert {name: (out / name).read_bytes() for name in names} == before
    assert "39 of the pairs" in capsys.readouterr().out

    for seed in ("0", "1"):
        export.main([*runs, "--output_dir", str(root / f"seed-{seed}"), *OPTIONS, "--seed", seed])
    assert {name: (root / "seed-0" / name).read_bytes() for name in names} == before
    assert all((root / "seed-1" / name).read_bytes() != content for name, content in before.items())
    assert str(root) not in before["study.json"].decode() + before["rater-01.html"].decode()


def test_export_says_in_a_line_what_is_wrong(root, tmp_path):
    a, b, out = str(root / "a"), str(root / "b"), str(root / "out")
    for arguments, message in (
        ([a, b, "--output_dir", out], "has other content, and ratings may need it; set another --output_dir"),
        ([a, str(tmp_path), "--output_dir", out], "has no results.json"),
        ([a, b, "--output_dir", out, "--pairs_per_rater", "900"], "the study needs 2,700 pairs"),
        ([a, a, "--output_dir", out], "raters can be shown 0"),
    ):
        with pytest.raises(SystemExit) as ended:
            export.main(arguments)
        assert str(ended.value).startswith("hb_metrics.human_eval: ")
        assert message in str(ended.value)
        assert "\n" not in str(ended.value)


def test_the_page_has_the_results_and_the_papers_table(rated, capsys):
    results = json.loads((rated / "human_evaluation.json").read_text(encoding="utf-8"))
    page = read_page(rated / "human_evaluation.html")

    check_sound(page)
    header, ours, *printed = page.table("Win rate of b")
    assert header == ["Model", "Preference", "Humanness", "Interestingness"]
    for cell, question in zip(ours[1:], results["questions"], strict=True):
        low, high = question["interval"]
        assert cell == f"{question['win_rate']:.1%}{low:.1%} to {high:.1%}"
        assert low > 0.5
    assert printed == [
        [f"{model} (paper)", *(f"{share:.0%}" for share in shares.values())]
        for model, shares in paper.HUMAN_EVALUATION.items()
    ]
    assert [row[0] for row in page.table("Raters")[1:]] == [f"rater-0{number} {HOSTILE}" for number in (1, 2, 3)]
    assert len(page.table("Win rate by axis")) == 14
    assert "which is beyond chance" in page.text
    assert "3 raters are few." in page.text
    assert "It does not print the following, which are ours: instructions to raters; attention checks" in page.text


def test_analyse_finds_the_study_or_says_what_is_wrong(rated, tmp_path, capsys):
    before = (rated / "human_evaluation.json").read_bytes()
    ratings = shutil.copy(rated / "ratings" / "all.jsonl", tmp_path / "all.jsonl")
    study = ["--study", str(rated / "study.json")]
    analyse.main([str(ratings), *study, "--output_dir", str(tmp_path / "new" / "folder")])
    assert (tmp_path / "new" / "folder" / "human_evaluation.json").read_bytes() == before
    assert "b was chosen over a in" in capsys.readouterr().out
    for arguments, message in (
        ([ratings, "--study", rated / "human_evaluation.json"], "is not a study as `export` wrote it"),
        ([rated / "tasks.jsonl"], "line 1: it lacks fields"),
    ):
        with pytest.raises(SystemExit, match=f"^hb_metrics.human_eval: .*{message}"):
            analyse.main(list(map(str, arguments)))
    with pytest.raises(SystemExit):
        analyse.main([str(ratings)])
    assert "name the study with --study" in capsys.readouterr().err


def test_the_comparison_of_the_runs_shows_it(root, rated):
    results = str(rated / "human_evaluation.json")
    output = ["--output", str(root / "comparison.html"), "--human_evaluation"]
    report([str(root / "a"), str(root / "b"), *output, results])
    page = read_page(root / "comparison.html")
    check_sound(page)
    assert "human" in page.links
    assert page.table("Win rate of b")[1:] == read_page(rated / "human_evaluation.html").table("Win rate of b")[1:]

    other = root / "c"
    shutil.copytree(root / "a", other)
    record = json.loads((other / "run.json").read_text(encoding="utf-8"))
    (other / "run.json").write_text(json.dumps(record | {"more": {}}), encoding="utf-8")
    for folders, path, message in (
        ([root / "a", other], results, "is about a and b, which are not both among these runs"),
        ([root / "a", root / "b"], rated / "study.json", "holds no human evaluation"),
        ([root / "a", root / "b"], rated / "none.json", "none.json"),
    ):
        with pytest.raises(SystemExit, match=message):
            report([*map(str, folders), *output, str(path)])
