import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import transformers

from hb_metrics.full_gen_bias.gen_bias import cluster_columns
from hb_metrics.inference.classifiers import styles
from hb_metrics.inference.classifiers.styles import (
    CLUSTER_FILES,
    clusters_for,
    load_style_classifier,
    read_style_clusters,
    style_array,
    style_schema,
    styles_into_shards,
)

STYLES = {0: "Kind", 1: "Cold (Distant)", 2: "Curious", 3: "Grim", 4: "Silly"}
PAPER_CLUSTERS = {
    "Sympathy": ["Sympathetic", "Compassionate", "Empathetic"],
    "Envy": ["Envious"],
    "Curiosity": ["Curious", "Questioning"],
    "Confusion": ["Vacuous", "Absentminded", "Bewildered", "Stupid", "Confused"],
    "Hate": ["Hateful", "Resentful"],
    "Care": ["Sensitive", "Considerate", "Warm", "Kind", "Caring", "Respectful"],
}
GO_EMOTIONS = [
    "admiration", "amusement", "anger", "annoyance", "approval", "caring", "confusion", "curiosity", "desire",
    "disappointment", "disapproval", "disgust", "embarrassment", "excitement", "fear", "gratitude", "grief", "joy",
    "love", "nervousness", "optimism", "pride", "realization", "relief", "remorse", "sadness", "surprise", "neutral",
]  # fmt: skip


def exactly(message):
    return f"^{re.escape(message)}$"


@pytest.fixture(scope="module")
def texts(prompts):
    """Texts of many lengths, in no order."""
    return [" ".join(prompts[place : place + 1 + place % 3]) for place in range(0, 300, 10)]


@pytest.fixture(scope="module")
def save_classifier(tmp_path_factory, get_small_model):
    """Saves a small BERT with random weights that classifies, and returns its folder."""

    def save(labels=STYLES, **settings):
        folder = tmp_path_factory.mktemp("classifier")
        config = transformers.BertConfig(
            vocab_size=400,
            id2label=labels,
            label2id={label: place for place, label in labels.items()},
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=64,
            **settings,
        )
        torch.manual_seed(0)
        model = transformers.BertForSequenceClassification(config)
        with torch.no_grad():  # far from uniform
            for weights in model.parameters():
                if weights.ndim > 1:
                    weights.normal_(std=0.3)
        model.save_pretrained(folder)
        get_small_model("bert")[1].save_pretrained(folder)
        return str(folder)

    return save


def reference(folder, texts, function):
    """[texts, labels] by transformers' own pipeline, one text at a time."""
    classify = transformers.pipeline("text-classification", model=folder, top_k=None, device="cpu")
    labels = list(STYLES.values())
    found = np.empty((len(texts), len(labels)))
    for row, entries in enumerate(classify(texts, function_to_apply=function)):
        for entry in entries:
            found[row, labels.index(entry["label"])] = entry["score"]
    return found


@pytest.mark.parametrize("batch_size", [1, 4, 64])
def test_softmax_probabilities_are_those_of_transformers(batch_size, texts, save_classifier):
    folder = save_classifier()
    classifier = load_style_classifier(folder, batch_size=batch_size)
    found = classifier.probabilities(texts)

    assert found.dtype == np.float64
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(found, reference(folder, texts, "softmax"), atol=1e-5)
    assert np.ptp(found, axis=0).max() > 0.1  # else a mistake could hide
    assert classifier.labels == tuple(STYLES.values())
    assert (classifier.name, classifier.multi_label, classifier.temperature) == (folder, False, 1.0)
    assert classifier.notes == ()
    assert len(classifier.digest) == 64


def test_a_sigmoid_head_is_divided_by_its_sum_and_that_is_said(texts, save_classifier):
    folder = save_classifier(problem_type="multi_label_classification")
    classifier = load_style_classifier(folder)
    found, expected = classifier.probabilities(texts), reference(folder, texts, "sigmoid")

    assert np.ptp(expected.sum(1)) > 0.5
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(found, expected / expected.sum(1, keepdims=True), atol=1e-5)
    assert classifier.multi_label
    assert classifier.notes == ("its labels have probabilities of their own; they are divided by their sum",)


def test_a_classifier_with_one_label_tells_no_styles_apart(save_classifier):
    folder = save_classifier({0: "Kind"})
    with pytest.raises(ValueError, match=exactly(styles.ONE_LABEL_ERROR.format(name=folder, label="Kind"))):
        load_style_classifier(folder)


def test_what_is_no_classifier_is_refused(save_small_model, tmp_path):
    with pytest.raises(ValueError, match="lacks weights of a sequence classifier"):
        load_style_classifier(str(save_small_model("bert")))
    with pytest.raises(OSError, match="no classifier 'no/such-classifier'"):
        load_style_classifier("no/such-classifier")
    with pytest.raises(ValueError, match=exactly(styles.OPTION_ERROR.format(option="revision", value="main"))):
        load_style_classifier(revision="main")


def test_a_reply_that_is_blank_is_named(save_classifier):
    classifier = load_style_classifier(save_classifier())
    for blank in ("", " \n"):
        with pytest.raises(ValueError, match=exactly(styles.BLANK_ERROR.format(row=1))):
            classifier.probabilities(["Hi.", blank, blank])
    assert classifier.probabilities([]).shape == (0, 5)


def count_rows(rows):
    def count(module, inputs, output):
        if isinstance(module, transformers.BertForSequenceClassification):
            rows.append(len(output.logits))

    return torch.nn.modules.module.register_module_forward_hook(count)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_style_vectors_come_back_from_shards(precision, texts, save_classifier, tmp_path, monkeypatch):
    monkeypatch.setattr(styles, "ROWS_PER_SHARD", 8)
    classifier = load_style_classifier(save_classifier())
    long = " ".join(texts[:20])
    replies = [*texts, *texts[:4], long]
    ids = [f"id-{row}" for row in range(len(replies))]
    table = styles_into_shards(replies, ids, classifier, tmp_path, precision=precision, progress=False)

    assert table.schema == style_schema(5, precision)
    assert len(list(tmp_path.iterdir())) == -(-len(replies) // 8)
    assert table["id"].to_pylist() == ids
    found, expected = style_array(table), classifier.probabilities(replies)
    assert (found.dtype, found.shape) == (np.dtype(precision), expected.shape)
    tolerance = {"float32": 1e-6, "float16": 1e-3}[precision]
    np.testing.assert_allclose(found.astype(np.float64), expected, atol=tolerance)
    np.testing.assert_allclose(found.astype(np.float64).sum(1), 1, atol=tolerance)
    np.testing.assert_allclose(found[:4], found[len(texts) : len(texts) + 4], atol=tolerance)
    assert table["truncated"].to_pylist() == classifier.classify(replies)[1].tolist()
    assert table["truncated"].to_pylist()[-1]

    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    first = min(files)
    first.unlink()
    again = styles_into_shards(replies, ids, classifier, tmp_path, precision=precision, progress=False)
    assert again.equals(table)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_style_arrays_of_a_slice_are_its_own(texts, save_classifier, tmp_path):
    classifier = load_style_classifier(save_classifier())
    table = styles_into_shards(texts, texts, classifier, tmp_path, progress=False)
    np.testing.assert_array_equal(style_array(table.slice(7, 5)), style_array(table)[7:12])
    twice = pa.concat_tables([table, table])  # several chunks
    np.testing.assert_array_equal(style_array(twice), np.tile(style_array(table), (2, 1)))
    assert style_array(table.slice(0, 0)).shape == (0, 5)


def test_identical_replies_are_classified_once(texts, save_classifier, tmp_path):
    classifier = load_style_classifier(save_classifier())
    replies = [*texts, *reversed(texts), *texts]
    rows = []
    with count_rows(rows):
        table = styles_into_shards(replies, list(map(str, range(90))), classifier, tmp_path, progress=False)
    assert sum(rows) == len(set(texts)) == 30
    found = style_array(table)
    np.testing.assert_array_equal(found[:30], found[30:60][::-1])
    np.testing.assert_array_equal(found[:30], found[60:])


def test_shards_of_another_precision_or_classifier_are_made_again(texts, save_classifier, tmp_path, capsys):
    classifier = load_style_classifier(save_classifier())
    styles_into_shards(texts, texts, classifier, tmp_path, progress=False)
    table = styles_into_shards(texts, texts, classifier, tmp_path, precision="float16", progress=False)
    assert "holds other columns than it should" in capsys.readouterr().out
    (path,) = tmp_path.glob("*.parquet")
    assert pq.read_schema(path).equals(style_schema(5, "float16"))
    other = load_style_classifier(save_classifier({place: str(place) for place in range(7)}))
    assert style_array(styles_into_shards(texts, texts, other, tmp_path, progress=False)).shape == (30, 7)
    assert style_array(table).shape == (30, 5)


def test_no_replies_have_no_styles(save_classifier, tmp_path):
    table = styles_into_shards([], [], load_style_classifier(save_classifier()), tmp_path, progress=False)
    assert style_array(table).shape == (0, 5)


def test_a_precision_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="style precision 'bfloat16' is not known; allowed: float32, float16"):
        style_schema(5, "bfloat16")


def test_the_clusters_are_the_papers():
    assert read_style_clusters(CLUSTER_FILES[0]) == PAPER_CLUSTERS


def test_labels_of_go_emotions_are_each_in_one_cluster_at_most():
    clusters = read_style_clusters(CLUSTER_FILES[1])
    labels = [label for members in clusters.values() for label in members]
    assert len(GO_EMOTIONS) == 28
    assert set(clusters) == set(PAPER_CLUSTERS)
    assert set(labels) <= set(GO_EMOTIONS)
    assert len(set(labels)) == len(labels)
    # The file says itself which are in none.
    text = Path(CLUSTER_FILES[1]).read_text("utf-8").partition("# In no cluster:")[2]
    assert set(re.findall(r"\w+", text)) == set(GO_EMOTIONS) - set(labels)
    assert cluster_columns(GO_EMOTIONS, clusters)["Curiosity"] == [GO_EMOTIONS.index("curiosity")]


def test_clusters_are_found_by_the_labels():
    papers = [style for members in PAPER_CLUSTERS.values() for style in members]
    assert clusters_for([*papers, "Zany"]) == PAPER_CLUSTERS
    assert clusters_for([f"{style} (and so on)" for style in papers]) == PAPER_CLUSTERS
    assert clusters_for(GO_EMOTIONS) == read_style_clusters(CLUSTER_FILES[1])
    assert clusters_for(papers[:-1]) is None
    assert clusters_for(["LABEL_0", "LABEL_1"]) is None
    assert clusters_for([]) is None


@pytest.mark.parametrize(
    "content",
    [
        "clusters:\n  Joy: [happy, glad]\n  Calm: [no]",
        "clusters:\n  Joy:\n  - happy\n  - glad\n  Calm:\n  - no\n",
        "clusters: {happy: Joy, no: Calm, glad: Joy}",
    ],
)
def test_both_forms_of_cluster_files_are_read(content, tmp_path):
    path = tmp_path / "clusters.yaml"
    path.write_text(content)
    # YAML would take a bare "no" for false; labels are read as they are written.
    assert read_style_clusters(path) == read_style_clusters(str(path)) == {"Joy": ["happy", "glad"], "Calm": ["no"]}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("clusters: [", "it is not valid YAML"),
        ("", "it has no clusters"),
        ("Joy: [happy]", "it has no clusters"),
        ("clusters:", "it has no clusters"),
        ("clusters: {}", "it has no clusters"),
        ("clusters: [happy]", "it has no clusters"),
        ("clusters: {Joy: []}", "cluster 'Joy' is []"),
        ("clusters: {Joy: [happy], Calm: still}", "cluster 'Calm' is 'still'"),
        ("clusters: {Joy: [happy], Calm: {still: quiet}}", "cluster 'Calm' is {'still': 'quiet'}"),
        ("clusters: {Joy: [happy, [glad]]}", "cluster 'Joy' is ['happy', ['glad']]"),
        ("clusters: {happy: Joy, still: }", "cluster 'happy' is 'Joy'"),
        ("clusters: {Joy: [happy, '']}", "cluster 'Joy' is ['happy', '']"),
        ("clusters:\n  Joy: [happy]\n  Joy: [glad]", "line 3: key 'Joy' is here twice; remove one of them"),
        ("clusters:\n  happy: Joy\n  happy: Calm", "line 3: key 'happy' is here twice; remove one of them"),
    ],
)
def test_faults_of_a_cluster_file_are_named(content, problem, tmp_path):
    path = tmp_path / "clusters.yaml"
    path.write_text(content)
    with pytest.raises(ValueError, match=f"(?s)^{re.escape(f'{path}: {problem}')}.*; write `clusters:` and under it"):
        read_style_clusters(path)


def test_a_cluster_file_that_cannot_be_read_is_told(tmp_path):
    path = tmp_path / "clusters.yaml"
    with pytest.raises(FileNotFoundError):
        read_style_clusters(path)
    path.write_bytes("clusters: {Käse: [a]}".encode("latin-1"))
    with pytest.raises(ValueError, match="it is not valid YAML"):
        read_style_clusters(path)
