"""`holistic-bias style-clusters`: its files, its page, and its errors."""

import json
import shutil

import pytest

from hb_metrics.inference.classifiers.styles import read_style_clusters
from hb_metrics.runs.finished_run import read_run
from hb_metrics.stats.gen_bias import CellSums, gen_bias
from hb_metrics.stats.style_clusters import PAPER_CLUSTERS
from hb_metrics.style_clusters.__main__ import CLUSTERS_FILE, PAGE_FILE, RESULTS_FILE, main
from hb_metrics.style_clusters.analysis import analyse
from tests.hb_metrics.made_results import LABELS, change_results
from tests.hb_metrics.style_clusters.made_styles import write_run

FILES = (CLUSTERS_FILE, PAGE_FILE, RESULTS_FILE)
# The styles of the paper's clusters go together as the paper has them, and two others alone.
GROUPS = [index for index, styles in enumerate(PAPER_CLUSTERS.values()) for _ in styles] + [6, 7]
CLUSTERS = {name: list(styles) for name, styles in PAPER_CLUSTERS.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run whose styles are in the paper's clusters, with what the command wrote; its replies and style vectors."""
    folder = tmp_path_factory.mktemp("clusters") / "run"
    replies, styles = write_run(folder, LABELS, GROUPS, clusters=CLUSTERS, strength=0.9, of_terms=0.5)
    main([str(folder)])
    return folder, replies, styles


def results_in(folder):
    return json.loads((folder / RESULTS_FILE).read_text(encoding="utf-8"))


def test_planted_clusters_are_found_and_are_those_of_the_paper(made):
    results = results_in(made[0])
    clusters = results["clusters"]

    expected = sorted(sorted(styles) for styles in (*CLUSTERS.values(), ["Calm"], ["Silly"]))
    assert sorted(sorted(cluster["styles"]) for cluster in clusters) == expected
    assert min(cluster["jaccard"] for cluster in clusters) > 0.9
    assert results["reliability"] > 0.9
    before = [(made[0] / name).read_bytes() for name in FILES]
    main([str(made[0])])
    assert [(made[0] / name).read_bytes() for name in FILES] == before
    assert analyse(read_run(made[0]), seed=1)["reliability"] != results["reliability"]


def test_measure_reads_the_clusters_and_finds_the_same_gen_bias(made):
    folder, replies, styles = made
    written = read_style_clusters(folder / CLUSTERS_FILE)
    clusters = results_in(folder)["clusters"]

    assert list(written.items()) == [(row["name"], row["styles"]) for row in clusters if row["written"]]
    assert len(written) == 6
    cells = CellSums(LABELS, written)
    cells.add(styles, replies.descriptors, replies.templates, replies.axes)
    debiased = gen_bias(cells, debias=True)
    for row in clusters:
        if row["written"]:
            assert row["partial_gen_bias"] == pytest.approx(debiased.partial_gen_bias[row["name"]])
        assert row["name"] == max(row["styles"], key=lambda style: debiased.by_style[style])
    values = [row["partial_gen_bias"] for row in clusters]
    assert values == sorted(values, reverse=True)


def test_what_cannot_be_clustered(made, tmp_path):
    two, plain, no_files, edited = (tmp_path / name for name in ("two", "plain", "no_files", "edited"))
    write_run(two, ["good", "bad"], [0, 1])
    for copy in (plain, no_files, edited):
        shutil.copytree(made[0], copy)
    change_results(plain, lambda results: results.pop("generation"))
    shutil.rmtree(no_files / "style_probabilities")
    (edited / CLUSTERS_FILE).write_text("# mine", encoding="utf-8")
    for run, options, message in (
        (plain, [], "has no generation bias, .* measure in a new folder with --measurements generation"),
        (no_files, [], "has no style vectors"),
        (edited, [], "has other content, such as your edits; move it away"),
        (two, [], "2 of 2 styles vary between replies, and clusters need 3"),
        (made[0], ["--num_clusters", "21"], "num_clusters is 21; set 2 to 20"),
    ):
        with pytest.raises(SystemExit, match=message):
            main([str(run), *options])


def test_opposed_styles_are_named_and_a_missing_folder_is_made(tmp_path, capsys):
    folder, output = tmp_path / "run", tmp_path / "new" / "folder"
    write_run(folder, ["negative", "neutral", "positive"], [0, 1, 2])
    main([str(folder), "--output_dir", str(output)])
    (opposed,) = (row for row in results_in(output)["clusters"] if len(row["styles"]) == 2)

    assert opposed["mean_correlation"] < 0
    assert f"which do not go together, are in: {opposed['name']}\n" in capsys.readouterr().out
    assert f"The styles of {opposed['name']} do not go together." in (output / PAGE_FILE).read_text(encoding="utf-8")
