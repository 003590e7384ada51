import numpy as np
import pytest

from hb_metrics.collect.classifiers.presets import presets
from hb_metrics.collect.classifiers.styles import (
    CLUSTER_FILES,
    clusters_for,
    load_style_classifier,
    read_style_clusters,
)

STYLES = ("Kind", "Cold (Distant)", "Curious", "Grim", "Silly")
PAPER_CLUSTERS = {
    "Sympathy": ["Sympathetic", "Compassionate", "Empathetic"],
    "Envy": ["Envious"],
    "Curiosity": ["Curious", "Questioning"],
    "Confusion": ["Vacuous", "Absentminded", "Bewildered", "Stupid", "Confused"],
    "Hate": ["Hateful", "Resentful"],
    "Care": ["Sensitive", "Considerate", "Warm", "Kind", "Caring", "Respectful"],
}


def test_a_sigmoid_head_is_divided_by_its_sum_and_that_is_noted(texts, save_classifier, by_label):
    folder = save_classifier(*STYLES, problem_type="multi_label_classification")
    classifier = load_style_classifier(folder)
    scores = by_label(folder, texts, function_to_apply="sigmoid")
    probabilities = classifier.probabilities(texts)
    expected = np.array([[row[style] for style in STYLES] for row in scores])

    assert np.ptp(expected.sum(1)) > 0.5
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(probabilities, expected / expected.sum(1, keepdims=True), atol=1e-5)
    assert classifier.multi_label
    assert classifier.notes == ("its labels have independent probabilities, which are divided by their sum",)


def test_a_classifier_with_one_label_is_refused(save_classifier):
    folder = save_classifier("Kind")
    with pytest.raises(ValueError, match=r"has only one label; pass one with at least two"):
        load_style_classifier(folder)


def test_the_clusters_are_the_papers():
    assert read_style_clusters(CLUSTER_FILES[0]) == PAPER_CLUSTERS


def test_clusters_are_found_by_the_labels():
    papers = [style for members in PAPER_CLUSTERS.values() for style in members]
    assert clusters_for([*papers, "Zany"]) == PAPER_CLUSTERS
    assert clusters_for([f"{style} (and so on)" for style in papers]) == PAPER_CLUSTERS
    assert clusters_for(presets()["go_emotions"]["labels"]) == read_style_clusters(CLUSTER_FILES[1])
    assert clusters_for(papers[:-1]) is None
    assert clusters_for(["LABEL_0", "LABEL_1"]) is None
    assert clusters_for([]) is None


def test_labels_are_read_as_they_are_written(tmp_path):
    path = tmp_path / "clusters.yaml"
    path.write_text("clusters:\n  Joy: [happy, glad]\n  Calm: [no]")  # YAML would take a bare "no" for false
    assert read_style_clusters(str(path)) == {"Joy": ["happy", "glad"], "Calm": ["no"]}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("clusters: [", "clusters.yaml"),
        ("Joy: [happy]", "write `clusters:`"),
        ("clusters: {Joy: []}", "write `clusters:`"),
        ("clusters: {}", "write `clusters:`"),
        ("clusters:\n  Joy: [happy]\n  Joy: [glad]", "key 'Joy' occurs twice"),
    ],
)
def test_faults_of_a_cluster_file_are_named(content, problem, tmp_path):
    path = tmp_path / "clusters.yaml"
    path.write_text(content)
    with pytest.raises(ValueError, match=f"(?s)1 fault in .*{path}.*{problem}"):
        read_style_clusters(path)
