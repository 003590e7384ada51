"""`holistic-bias style-clusters`: its file, and its errors."""

import shutil

import pytest

from hb_metrics.collect.classifiers.styles import read_style_clusters
from hb_metrics.measurements.results import read_run
from hb_metrics.stats.cell_sums import PAPER_CLUSTERS
from hb_metrics.stats.gen_bias import CellSums, gen_bias
from hb_metrics.style_clusters.__main__ import find_clusters, main
from tests.hb_metrics.made_results import LABELS, change_results
from tests.hb_metrics.style_clusters.made_styles import write_run

FILE = "style_clusters.yaml"
# The styles of the paper's clusters go together as the paper has them, and two others alone.
GROUPS = [index for index, styles in enumerate(PAPER_CLUSTERS.values()) for _ in styles] + [6, 7]
CLUSTERS = {name: list(styles) for name, styles in PAPER_CLUSTERS.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run whose styles are in the paper's clusters, with the command's file; its replies and style vectors."""
    folder = tmp_path_factory.mktemp("clusters") / "run"
    replies, styles = write_run(folder, LABELS, GROUPS, clusters=CLUSTERS, strength=0.9, of_terms=0.5)
    main([str(folder)])
    return folder, replies, styles


def test_planted_clusters_are_written_with_their_gen_bias(made):
    folder, replies, styles = made
    written = read_style_clusters(folder / FILE)
    planted = {tuple(sorted(names)) for names in (*CLUSTERS.values(), ["Calm"], ["Silly"])}
    assert len(written) == 6
    assert {tuple(sorted(names)) for names in written.values()} <= planted
    cells = CellSums(LABELS, written)
    cells.add(styles, replies.descriptors, replies.templates, replies.axes)
    debiased = gen_bias(cells, debias=True)
    found = find_clusters(read_run(folder))
    assert [cluster.styles for cluster in found] == list(written.values())
    for cluster, (name, names) in zip(found, written.items(), strict=True):
        assert cluster.partial_gen_bias == pytest.approx(debiased.partial_gen_bias[name])
        assert name == max(names, key=lambda style: debiased.by_style[style])
    values = [cluster.partial_gen_bias for cluster in found]
    assert values == sorted(values, reverse=True)


def test_what_cannot_be_clustered(made, tmp_path):
    two, plain, no_files, edited = (tmp_path / name for name in ("two", "plain", "no_files", "edited"))
    write_run(two, ["good", "bad"], [0, 1])
    for copy in (plain, no_files, edited):
        shutil.copytree(made[0], copy)
    change_results(plain, lambda results: results.pop("generation"))
    shutil.rmtree(no_files / "style_probabilities")
    (edited / FILE).write_text("# mine", encoding="utf-8")
    for run, message in (
        (plain, "has no styles; measure with --measurements generation"),
        (no_files, "style_probabilities' does not exist"),
        (edited, "already exists with other content; set --output"),
        (two, "2 of 2 styles vary between replies, but clusters need 3"),
    ):
        with pytest.raises(ValueError, match=message):
            main([str(run)])


def test_opposed_styles_are_marked(tmp_path, capsys):
    folder, output = tmp_path / "run", tmp_path / "clusters.yaml"
    write_run(folder, ["negative", "neutral", "positive"], [0, 1, 2])
    main([str(folder), "--output", str(output)])
    (opposed,) = (names for names in read_style_clusters(output).values() if len(names) == 2)
    assert f"{', '.join(opposed)} (negatively correlated" in capsys.readouterr().out
