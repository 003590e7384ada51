"""A converted style classifier against what ParlAI 1.7.2 itself gave for a random checkpoint (parlai_reference).

The record names its release of ParlAI and torch; tests/parlai/make_references.py of commit 62cbf73 made it.
"""

import json
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from hb_metrics.collect.classifiers import parlai
from hb_metrics.collect.classifiers.styles import load_style_classifier
from tests.hb_metrics.collect.test_bad_models import RunsWhenRead

FILES = Path(__file__).parent / "parlai_reference"
STYLES = ["Sympathetic", "Curious", "Envious (Jealous)", "Calm", "Hateful", "Kind", "Vacuous"]
REFERENCE = json.loads((FILES / "style.json").read_text(encoding="utf-8"))
# ParlAI makes nothing of an empty text, and leaves its null token out where a text spells it.
ROWS = [row for row in REFERENCE["rows"] if row["ids"] and 0 not in row["ids"]]


def write_checkpoint(folder):
    """Writes the checkpoint of the record: weights by `RandomState`, whose numbers NumPy keeps for ever."""
    for name in ("model.dict", "model.dict-merges.txt", "model.dict-vocab.json"):
        shutil.copyfile(FILES / name, folder / name)
    weights = {"START": torch.tensor([1])}
    for name, shape in REFERENCE["shapes"].items():
        if name != "START":
            seed = "embeddings.weight" if name.endswith("r.embeddings.weight") else name
            values = np.random.RandomState(zlib.crc32(seed.encode())).uniform(-1, 1, shape)
            is_norm = "norm" in name and name.endswith("weight")
            weights[name] = torch.tensor(1 + 0.3 * values if is_norm else 0.9 * values, dtype=torch.float32)
    torch.save({"model": weights, "number_training_updates": 0}, folder / "model")
    (folder / "model.opt").write_text(json.dumps(REFERENCE["opt"]), encoding="utf-8")
    (folder / "labels.txt").write_text("".join(f"{style}\n" for style in STYLES), encoding="utf-8")
    return [str(folder / "model"), "--labels", str(folder / "labels.txt"), "--output_dir", str(folder / "converted")]


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parlai")
    parlai.main(write_checkpoint(folder))
    return folder / "converted"


def test_token_ids_and_logits_are_those_of_parlai(converted):
    model = AutoModelForSequenceClassification.from_pretrained(converted).eval()
    tokenizer = AutoTokenizer.from_pretrained(converted)
    options = {"truncation": True, "max_length": tokenizer.model_max_length}
    for row in ROWS:
        assert tokenizer(row["text"], **options)["input_ids"] == row["ids"]
        with torch.inference_mode():
            logits = model(**tokenizer([row["text"]], return_tensors="pt", **options)).logits[0]
        np.testing.assert_allclose(logits, row["logits"], rtol=0, atol=1e-5, err_msg=repr(row["text"]))
    with torch.inference_mode():
        inputs = tokenizer([row["text"] for row in ROWS], padding=True, return_tensors="pt", **options)
        logits = model(**inputs).logits
    np.testing.assert_allclose(logits, [row["logits_in_a_batch"] for row in ROWS], rtol=0, atol=1e-5)
    assert np.ptp(logits.numpy(), axis=0).min() > 0.1  # else a mistake could hide


def test_loads_as_the_style_classifier_of_a_run(converted):
    styles = load_style_classifier(str(converted))
    rows = [row for row in ROWS if row["text"].strip()]
    expected = torch.tensor([row["logits"] for row in rows]).double().softmax(1).numpy()

    assert styles.labels == tuple(STYLES)
    np.testing.assert_allclose(styles.probabilities([row["text"] for row in rows]), expected, atol=1e-5)
    assert styles.notes == ()  # padding is harmless
    assert styles.classify(["a b " * 40, "a"]).truncated.tolist() == [True, False]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "model").unlink(), "No such file.*model"),
        (lambda folder: torch.save({"model": RunsWhenRead()}, folder / "model"), "parlai vacuum"),
        (lambda folder: (folder / "labels.txt").write_text("Kind\n"), "1 labels.*--labels"),
        (lambda folder: (folder / "model.opt").write_text('{"variant": "xlm"}'), "variant is 'xlm'.*prelayernorm"),
        (lambda folder: (folder / "model.dict-vocab.json").write_text("[]"), "download them again"),
        (lambda folder: (folder / "converted").mkdir(), "already exists; set --output_dir to a new folder"),
    ],
)
def test_other_files_are_rejected_in_one_line(change, message, tmp_path):
    options = write_checkpoint(tmp_path)
    change(tmp_path)

    with pytest.raises((ValueError, OSError), match=message) as refusal:
        parlai.main(options)

    assert "\n" not in str(refusal.value)
    assert not list(tmp_path.glob("converted/*"))
