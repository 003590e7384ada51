"""A classifier of styles can be trained, is calibrated as it is saved, and carries its leakage; the same twice."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import transformers

from hb_dataset.versions import read_version
from hb_metrics.identity_leakage.leakage import identity_leakage, named_people, shipped_sentences
from hb_metrics.inference.classifiers.styles import load_style_classifier
from hb_metrics.report.layout.numbers import bias
from hb_train.classifiers.calibration import fit_temperature
from hb_train.style_classifier import CARD_FILE, CLASSIFIER_FILE, main
from tests.hb_metrics.conftest import bert_tokenizer

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # not ours: of transformers' own trainer
    pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning"),
]
STYLES = {"fond": "I love", "weary": "No, not those", "curious": "What do you think about"}
PEOPLE = ("men", "women", "people", "kids", "parents", "friends", "girls", "boys", "sisters", "brothers")


def few_terms(version):
    vocabulary = read_version(version)
    return replace(vocabulary, descriptors=vocabulary.descriptors[::12])


@pytest.fixture(scope="module", autouse=True)
def quick_leakage():
    """Over one term in twelve."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hb_train.style_classifier.read_version", few_terms)
        yield


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    config = transformers.BertConfig(
        vocab_size=400, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=66, initializer_range=0.2,  # 0.02 is for wide models
    )  # fmt: skip
    transformers.set_seed(0)
    transformers.BertModel(config).save_pretrained(folder)
    bert_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Replies whose first words give their style. One in 10 is wrong: no temperature fits no errors."""
    path = tmp_path_factory.mktemp("rows") / "replies.jsonl"
    lines = [
        {"said": f"{start} {one} and {other}.", "style": style}
        for style, start in STYLES.items()
        for one in PEOPLE
        for other in PEOPLE[:6]
    ]
    following = dict(zip(STYLES, [*list(STYLES)[1:], "fond"], strict=True))
    for line in lines[::10]:
        line["style"] = following[line["style"]]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


def options(encoder, rows, folder, *more):
    return [
        *("--model_name_or_path", str(encoder), "--dataset", str(rows), "--output_dir", str(folder)),
        *("--text_column", "said", "--label_column", "style", "--disable_tqdm", "true", "--learning_rate", "3e-3"),
        *("--num_train_epochs", "12", "--per_device_train_batch_size", "16", "--save_strategy", "no", *more),
    ]


@pytest.fixture(scope="module")
def trained(encoder, rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "classifier"
    main(options(encoder, rows, folder))
    return folder


def test_it_learns_and_the_folder_has_the_figures_of_its_record(trained, rows):
    record = json.loads((trained / CLASSIFIER_FILE).read_text(encoding="utf-8"))
    assert record["labels"] == sorted(STYLES)
    assert {name: record["rows"][name] for name in ("train", "calibration", "test")} == {
        "train": 144, "calibration": 18, "test": 18,
    }  # fmt: skip
    test = record["quality"]["test"]
    assert test["accuracy"] > 0.7 > test["chance"]
    classifier = load_style_classifier(str(trained))
    leakage = identity_leakage(classifier.probabilities, named_people(few_terms("v1.0")), shipped_sentences())
    assert record["identity_leakage"]["leakage"] == pytest.approx(leakage["leakage"], rel=1e-5)
    assert record["identity_leakage"]["num_terms"] == 50

    card = (trained / CARD_FILE).read_text(encoding="utf-8")
    assert f"{test['accuracy']:.1%}" in card
    assert f"**{bias(record['identity_leakage']['leakage'])}** (×1000)" in card
    assert "Not stated" in card


def test_the_saved_probabilities_are_calibrated(trained, rows):
    """A temperature fitted to the saved folder on the rows it was calibrated with is 1."""
    from hb_train.classifiers.labelled_rows import read_rows, split_rows

    everything, _ = read_rows(str(rows), text_column="said", label_column="style")
    held_out = split_rows(everything, seed=42)["calibration"]
    classifier = load_style_classifier(str(trained))
    logits = np.log(classifier.probabilities(held_out.texts))
    labels = np.array([classifier.labels.index(label) for label in held_out.labels])
    record = json.loads((trained / CLASSIFIER_FILE).read_text(encoding="utf-8"))
    assert 0.01 < record["temperature"] < 1000  # where all are right, no temperature is low enough
    assert fit_temperature(logits, labels) == pytest.approx(1, abs=0.02)


def test_the_same_seed_gives_the_same_classifier(trained, encoder, rows, tmp_path, capsys):
    main(options(encoder, rows, tmp_path / "again"))
    first, again = (
        json.loads((folder / CLASSIFIER_FILE).read_text(encoding="utf-8")) for folder in (trained, tmp_path / "again")
    )
    assert {**first, "settings": None} == {**again, "settings": None}
    main(options(encoder, rows, tmp_path / "again"))
    assert "nothing to do" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="holds a run with other settings"):
        main(options(encoder, rows, tmp_path / "again", "--seed", "7"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--dataset", "nothing.csv"], "'nothing.csv' does not exist"),
        (["--model_name_or_path", "no/such"], "no encoder 'no/such'"),
        (["--vocabulary", "v9"], "v9"),
    ],
)
def test_what_does_not_go_together_is_refused(change, message, encoder, rows, tmp_path):
    with pytest.raises(SystemExit, match=re.escape(message)):
        main(options(encoder, rows, tmp_path / "x", *change))
