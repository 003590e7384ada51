"""RedditBias in the main job, on harmless phrases of our own in the layout of the authors' files."""

import math

import pandas as pd
import pyarrow.parquet as pq
import pytest

from hb_metrics.command import planning
from hb_metrics.command.arguments import settings_of, wanted_measurements
from hb_metrics.language_model_bias.paired_test import language_model_bias
from tests.hb_metrics.made_results import read_results
from tests.hb_metrics.runs_here import analysed, measure_here

THINGS = ["tea", "chess", "old maps", "long walks", "loud music", "early trains"]
WHO = {"train": "sister", "valid": "mother"}
GENDER = {split: [f"my {who} likes {thing}" for thing in THINGS] for split, who in WHO.items()}
GENDER["test"] = ["my sister likes tea", *(f"the girl here likes {thing} a lot" for thing in THINGS), "no one is in"]
SWAPS = {"sister": "brother", "mother": "father", "girl": "boy"}


def swapped(text):
    return " ".join(SWAPS.get(word, word) for word in text.split())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with gender in the authors' layout, and race as one file of pairs."""
    folder = tmp_path_factory.mktemp("reddit")
    (folder / "gender").mkdir()
    train = "".join(f"<bos> {text}\n" for text in GENDER["train"])
    (folder / "gender" / "gender_bias_manual_train.txt").write_text(train)
    for split in ("valid", "test"):
        swaps = [swapped(text) for text in GENDER[split]]
        for side, columns in (
            ("female", {"id": range(len(swaps)), "comments_processed": GENDER[split], "perplexity": 5.0}),
            ("male", {"initial_demo": "", "replaced_demo": "", "comments_processed": swaps}),
        ):
            path = folder / "gender" / f"reddit_comments_gender_{side}_biased_{split}_reduced.csv"
            pd.DataFrame(columns).to_csv(path, index=False)
    (folder / "race").mkdir()
    texts = [f"those people like {thing}" for thing in [*THINGS, THINGS[0]]]
    pairs = pd.DataFrame({"text_t1": texts, "text_t2": [text.replace("those", "these") for text in texts]})
    pairs.to_csv(folder / "race" / "test.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def options(saved_llama, data):
    named = ["--measurements", "reddit", "--reddit_folder", data, "--bias_type", "gender", "race"]
    return ["--model", saved_llama, *named]


@pytest.fixture(scope="module")
def finished(options, tmp_path_factory):
    """A finished run: its folder, its results and what it printed."""
    out = tmp_path_factory.mktemp("runs") / "run"
    printed = measure_here(*options, "--output_dir", out)
    return out, read_results(out), printed


def test_every_bias_type_is_tested_on_the_perplexities_in_its_shards(finished, data):
    out, results, _ = finished
    reddit, records = results["reddit"], results["run"]["reddit"]
    assert list(reddit["by_bias_type"]) == ["gender", "race"]
    assert analysed(out)
    assert set(results) == {"run", "reddit"}
    for bias_type, test in reddit["by_bias_type"].items():
        rows = pq.read_table(out / "reddit" / "pairs" / bias_type).to_pylist()
        by_id = {row["id"]: row["perplexity"] for row in rows}
        sides = [[by_id[f"{bias_type}-test-{row}:{side}"] for row in range(test["num_pairs"])] for side in ("t1", "t2")]
        expected = language_model_bias(*sides)
        assert {name: test[name] for name in expected} == expected
        assert records[bias_type]["num_skipped"] == {"one_token": 0, "too_long": 0}
    gender, race = records["gender"], records["race"]
    assert gender["num_pairs"] == reddit["by_bias_type"]["gender"]["num_pairs"] == 8
    assert gender["num_identical"] == reddit["by_bias_type"]["gender"]["num_ties"] == gender["num_duplicates"] == 1
    assert (race["num_identical"], race["num_repeated"], race["num_duplicates"]) == (0, 1, None)
    assert "Race: 1 that repeat an earlier pair" in (out / "report.html").read_text()


def test_lmp_is_of_the_replies_in_the_shards(finished):
    out, results, _ = finished
    rows = pq.read_table(out / "reddit" / "reference").to_pylist()
    mean = sum(-row["log_likelihood"] / row["num_tokens"] for row in rows) / len(rows)
    assert results["reddit"]["lmp"] == pytest.approx(math.exp(mean))
    reference = results["run"]["reddit"]["reference"]
    assert results["reddit"]["lmp_num_texts"] + sum(reference["num_skipped"].values()) == 500
    assert f"ordinary texts ({reference['source']})" in (out / "report.html").read_text()
    assert reference["source"].startswith("chitchat-dataset ")


def test_no_text_is_printed_or_in_any_json_or_report(finished):
    out, _, printed = finished
    for text in (printed, *((out / name).read_text() for name in ("run.json", "results.json", "report.html"))):
        assert "girl here" not in text
    assert all("text" not in pq.read_schema(path).names for path in (out / "reddit").rglob("*.parquet"))


@pytest.mark.long
def test_two_processes_end_in_the_same_bytes(options, finished, forked_programs, tmp_path):
    printed = forked_programs.run_two("hb_metrics.measure", [*options, "--output_dir", tmp_path / "run"])
    assert "x 2" in printed
    for name in ("results.json", "report.html"):
        assert (tmp_path / "run" / name).read_bytes() == (finished[0] / name).read_bytes()


def test_faults_of_the_data_are_told_before_the_model_is_loaded(data, tmp_path):
    (tmp_path / "groups.yaml").write_text("groups: none\n")
    (tmp_path / "clusters.csv").write_text("a,b\n1,2\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "test.txt").write_text("")
    for options, message in (
        ({"bias_type": ["gender", "gender"]}, "bias_type gender is set twice"),
        ({"bias_type": ["gendr"]}, r"did you mean 'gender'\?"),
        ({"reddit_folder": str(data / "gender")}, "no term of 'race'"),
        ({"reddit_folder": str(tmp_path / "empty"), "bias_type": ["race"]}, "the test file in .* has no phrases"),
        ({"reddit_folder": str(tmp_path)}, "contains no RedditBias split for gender"),
        ({"measurements": "reddit,regard", "regard_groups": [str(tmp_path / "groups.yaml")]}, "groups.yaml:1"),
        ({"measurements": "generation", "style_clusters": str(tmp_path / "clusters.csv")}, "clusters.csv"),
        ({"reddit_folder": None}, "needs the RedditBias data; set --reddit_folder"),
        ({"reddit_folder": "nowhere"}, "'nowhere' is not a folder"),
        ({"measurements": "likelihood,reddit", "bias_type": None}, "needs bias types; set --bias_type"),
    ):
        given = {"measurements": "reddit", "reddit_folder": str(data), "bias_type": ["gender", "race"], **options}
        settings = settings_of(given)
        with pytest.raises((ValueError, OSError), match=message):
            planning.read_files(settings, None, wanted_measurements(settings))
