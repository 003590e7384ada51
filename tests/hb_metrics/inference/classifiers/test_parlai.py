"""Converted ParlAI classifiers against what ParlAI 1.7.2 gives: recorded (tests/parlai/references), and run anew."""

import json
import os
import pickle
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from hb_metrics.inference.classifiers.offensive import load_offensiveness_classifier
from hb_metrics.inference.classifiers.parlai import convert_classifier
from hb_metrics.inference.classifiers.parlai.conversion import convert_checkpoint
from hb_metrics.inference.classifiers.styles import load_style_classifier
from tests.parlai.checkpoints import CASES, STYLES, TEXTS, read_reference, write_checkpoint

ROOT = Path(__file__).parents[4]
PARLAI_PYTHON = ROOT / ".venv-parlai" / "bin" / "python"


@pytest.fixture(scope="module")
def labels_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("labels") / "personality_list.txt"
    path.write_text("".join(f"{style}\n" for style in STYLES), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def convert(tmp_path_factory, labels_file):
    """Converts a case once."""
    folders = {}

    def folder_of(name):
        if name not in folders:
            folder = tmp_path_factory.mktemp(name)
            labels = labels_file if name.startswith("style") else None
            convert_checkpoint(write_checkpoint(name, folder), folder / "converted", labels)
            folders[name] = folder / "converted"
        return folders[name]

    return folder_of


def agrees(folder, reference):
    """Token ids and logits, of texts alone and padded, are ParlAI's to 1e-5."""
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = [row for row in reference["rows"] if row["ids"] is not None]  # ParlAI makes nothing of an empty text
    assert not [row["text"] for row in reference["rows"] if row["ids"] is None and row["text"].strip()]
    options = {"truncation": True, "max_length": tokenizer.model_max_length}
    for row in rows:
        ids = tokenizer(row["text"], **options)["input_ids"]
        assert ids == [token for token in row["ids"] if token]  # ParlAI masks a null token within a text
        with torch.inference_mode():
            logits = model(**tokenizer([row["text"]], return_tensors="pt", **options)).logits[0]
        np.testing.assert_allclose(logits, row["logits"], rtol=0, atol=1e-5, err_msg=repr(row["text"]))
    with torch.inference_mode():
        inputs = tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt", **options)
        logits = model(**inputs).logits
    np.testing.assert_allclose(logits, [row["logits_in_a_batch"] for row in rows], rtol=0, atol=1e-5)
    assert np.ptp(logits.numpy(), axis=0).min() > 0.1  # else a mistake could hide


@pytest.mark.parametrize("name", CASES)
def test_logits_are_those_of_parlai(name, convert):
    agrees(convert(name), read_reference(name))


@pytest.mark.long
def test_parlai_itself_gives_the_same(tmp_path, labels_file):
    if not PARLAI_PYTHON.exists():
        pytest.skip("ParlAI's environment is not there; run make .venv-parlai/.ready")
    script = ROOT / "tests" / "parlai" / "make_references.py"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [PARLAI_PYTHON, "-W", "ignore", script, tmp_path]
    subprocess.run(command, check=True, capture_output=True, env=environment)

    for name in CASES:
        made = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
        recorded = read_reference(name)
        for row, before in zip(made["rows"], recorded["rows"], strict=True):
            assert row["ids"] == before["ids"]
            if row["ids"] is not None:
                np.testing.assert_allclose(row["logits"], before["logits"], atol=1e-5)
        labels = labels_file if name.startswith("style") else None
        # The checkpoint that ParlAI saved, not the one that the tests write.
        convert_checkpoint(tmp_path / name, tmp_path / f"converted-{name}", labels)
        agrees(tmp_path / f"converted-{name}", made)


def test_loads_as_classifiers_of_a_run(convert):
    styles, safety = (
        load_style_classifier(str(convert("style"))),
        load_offensiveness_classifier(str(convert("safety-xlm"))),
    )
    texts = [text for text in TEXTS if text.strip()]
    expected = {}
    for name in ("style", "safety-xlm"):
        rows = [row for row in read_reference(name)["rows"] if row["text"].strip()]
        expected[name] = torch.tensor([row["logits"] for row in rows]).double().softmax(1).numpy()

    assert styles.labels == tuple(STYLES)
    np.testing.assert_allclose(styles.probabilities(texts), expected["style"], atol=1e-5)
    assert safety.source_labels == ("__notok__",)
    np.testing.assert_allclose(safety.probabilities(texts)[:, 0], expected["safety-xlm"][:, 0], atol=1e-5)
    assert styles.notes == safety.notes == ()  # padding is harmless
    assert styles.parlai == {"kind": "style", "agent": CASES["style"]["model"], "parameters": 19191}
    assert (safety.parlai["kind"], safety.is_embedded, safety.max_tokens) == ("safety", False, 24)
    long = styles.classify(["a b " * 40, "a"]).truncated
    assert long.tolist() == [True, False]


class Hostile:
    def __reduce__(self):
        return (os.mkdir, ("unpickled",))


def change_opt(**change):
    def act(path):
        file = Path(f"{path}.opt")
        file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | change), encoding="utf-8")

    return act


def change_weights(change):
    def act(path):
        states = torch.load(path)
        change(states)
        torch.save(states, path)

    return act


def write(name, content):
    return lambda path: Path(f"{path}{name}").write_bytes(content)


def without(name):
    return change_weights(lambda states: states["model"].pop(name))


DAMAGED, UNFIT = "is damaged or does not belong to a ParlAI checkpoint", "do not fit each other"


@pytest.mark.parametrize(
    ("name", "act", "message"),
    [
        ("style", lambda path: path.unlink(), "model does not exist"),
        ("style", write(".opt", b"[1]"), rf"model\.opt {DAMAGED}"),
        ("style", write("", pickle.dumps(Hostile(), protocol=2)), f"model {DAMAGED}"),
        ("style", lambda path: torch.save({"model": Hostile()}, path), "not unpickled because they may run any code"),
        ("style", without("decoder.norm_embeddings.bias"), UNFIT),
        ("style", change_opt(n_decoder_layers=2), UNFIT),
        ("style", change_opt(n_heads=3), "n_heads is 3"),
        ("style", change_opt(classes=[0, "x"]), r"names? the classes \[0, 'x'\], and the labels are \['Sympathetic"),
        ("safety-xlm", change_opt(variant="aiayn"), "variant is 'aiayn'; .* prelayernorm or xlm"),
        ("safety-xlm", change_opt(reduction_type="mean"), "reduction_type is 'mean'"),
        ("safety-xlm", change_opt(dict_lower=True), "dict_lower is True"),
        ("safety-xlm", change_opt(classes=None, classes_from_file="x.txt"), "'x.txt'.*--labels FILE"),
        ("safety-xlm", change_opt(ref_class="__ok__"), "ref_class '__ok__'.*--labels FILE"),
        (
            "safety-xlm",
            change_weights(lambda states: states.update(model={"bert.pooler.weight": torch.ones(2)})),
            "not those of a classifier that can be converted",
        ),
        ("safety-xlm", write(".dict-vocab.json", b'{"a": "b"}'), f"vocab.json {DAMAGED}"),
        ("safety-xlm", write(".dict", b"a\tmany\n"), rf"model\.dict {DAMAGED}"),
        ("safety-xlm", write(".dict", b"another\t1\n"), UNFIT),
    ],
)
def test_wrong_checkpoints_are_refused_in_one_line(name, act, message, tmp_path, labels_file, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_checkpoint(name, tmp_path)
    act(path)
    labels = ["--labels", str(labels_file)] if name == "style" else []

    with pytest.raises(SystemExit, match=message) as refusal:
        convert_classifier.main([str(path), *labels, "--output_dir", "converted"])

    assert "\n" not in str(refusal.value)
    left = {file.name for file in tmp_path.iterdir()}
    assert all(name.startswith("model") for name in left), left  # nothing written, nothing of a pickle run


def test_a_used_folder_is_left_alone(tmp_path, labels_file):
    with pytest.raises(FileExistsError, match="exists; pass a new folder"):
        convert_checkpoint(write_checkpoint("style", tmp_path), tmp_path, labels_file)
