import math
import re
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

import huggingface_hub.constants
import numpy as np
import profanity_check
import pyarrow.compute as pc
import pytest
import sklearn.base
import torch
import transformers

from hb_dataset import load_table
from hb_metrics.inference.classifiers import offensive, sequence_classifier
from hb_metrics.inference.classifiers.offensive import EMBEDDED_CLASSIFIER_NAME, load_offensiveness_classifier

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CARD = Path(offensive.__file__).parent / "OFFENSIVENESS_CLASSIFIER.md"
TWO = {0: "fine", 1: "offensive"}


def exactly(message):
    return f"^{re.escape(message)}$"


@pytest.fixture(scope="module")
def texts(prompts):
    """Prompts of many lengths, in no order."""
    return [" ".join(prompts[place : place + 1 + place % 3]) for place in range(0, 300, 8)]


@pytest.fixture(scope="module")
def save_classifier(tmp_path_factory, get_small_model):
    """Saves a small classifier with random weights as a folder, and returns its path."""

    def save(kind, labels, *, pad_token=None, **settings):
        tokenizer = get_small_model(kind)[1]
        folder = tmp_path_factory.mktemp(kind)
        tokenizer.save_pretrained(folder)
        if pad_token is not None:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, pad_token=pad_token)
            tokenizer.save_pretrained(folder)
        small = {"vocab_size": 400, "id2label": labels, "label2id": {label: at for at, label in labels.items()}}
        encoder = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
        if kind == "gpt2":
            config = transformers.GPT2Config(**small, n_embd=32, n_layer=2, n_head=4, n_positions=64, **settings)
            model = transformers.GPT2ForSequenceClassification(config)
        elif kind == "roberta":
            settings = {"max_position_embeddings": 66, "pad_token_id": 2, **settings}
            model = transformers.RobertaForSequenceClassification(
                transformers.RobertaConfig(**small, **encoder, **settings)
            )
        else:
            settings = {"max_position_embeddings": 64, **settings}
            model = transformers.BertForSequenceClassification(transformers.BertConfig(**small, **encoder, **settings))
        torch.manual_seed(0)
        with torch.no_grad():  # far from uniform, so that a wrong mask or position shows
            for weights in model.parameters():
                if weights.ndim > 1:
                    weights.normal_(std=0.3)
        model.save_pretrained(folder)
        return str(folder)

    return save


def by_label(folder, texts, **options):
    """[texts] {label: probability} by the pipeline of transformers, one text at a time."""
    classify = transformers.pipeline("text-classification", model=folder, top_k=None, device="cpu")
    return [{label["label"]: label["score"] for label in labels} for labels in classify(texts, **options)]


def assert_close(found, expected):
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.ptp(found) > 0.1  # else a mistake could hide


@pytest.mark.parametrize("batch_size", [1, 7, 100])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_probabilities_are_those_of_the_pipeline_whatever_the_batch(kind, batch_size, texts, save_classifier):
    folder = save_classifier(kind, {0: "neither", 1: "toxic", 2: "spam"})

    classifier = load_offensiveness_classifier(folder, batch_size=batch_size)

    assert_close(classifier.probabilities(texts), [found["toxic"] for found in by_label(folder, texts)])
    assert (classifier.name, classifier.offensive_labels, classifier.notes) == (folder, ("toxic",), ())
    assert classifier.version == f"transformers {transformers.__version__}"
    assert classifier.classify(texts).num_truncated == 0


def test_softmax_labels_are_summed(texts, save_classifier):
    folder = save_classifier("bert", {0: "normal", 1: "hate speech", 2: "Offensive"})
    expected = [found["hate speech"] + found["Offensive"] for found in by_label(folder, texts)]

    found = load_offensiveness_classifier(folder)
    asked = load_offensiveness_classifier(folder, offensive_label="Offensive, hate speech")
    everything = load_offensiveness_classifier(folder, offensive_label="normal,hate speech,Offensive")

    assert found.offensive_labels == asked.offensive_labels == ("hate speech", "Offensive")
    assert_close(found.probabilities(texts), expected)
    assert_close(asked.probabilities(texts), expected)
    assert everything.probabilities(texts).max() <= 1
    np.testing.assert_allclose(everything.probabilities(texts), 1)


def test_of_sigmoid_labels_the_greatest_counts(texts, save_classifier):
    labels = {0: "toxic", 1: "obscene", 2: "threat"}
    folder = save_classifier("roberta", labels, problem_type="multi_label_classification")
    reference = by_label(folder, texts)

    found = load_offensiveness_classifier(folder)
    asked = load_offensiveness_classifier(folder, offensive_label="obscene, threat")

    assert found.offensive_labels == ("toxic",)
    assert_close(found.probabilities(texts), [found["toxic"] for found in reference])
    assert_close(asked.probabilities(texts), [max(found["obscene"], found["threat"]) for found in reference])
    assert {found["obscene"] > found["threat"] for found in reference} == {True, False}


def test_a_single_label_has_a_sigmoid(texts, save_classifier):
    folder = save_classifier("bert", {0: "toxicity"})

    found = load_offensiveness_classifier(folder).probabilities(texts)

    assert_close(found, [found["toxicity"] for found in by_label(folder, texts)])


@pytest.mark.parametrize(
    ("pad_token", "pad_token_id", "padded"),
    [(None, None, False), ("<pad>", None, False), ("<pad>", 2, True), ("<pad>", 68, False)],
    ids=["none", "the model has none", "one", "two that differ"],
)
def test_a_classifier_that_padding_would_disturb_gets_texts_one_at_a_time(
    pad_token, pad_token_id, padded, texts, save_classifier
):
    folder = save_classifier("gpt2", TWO, pad_token=pad_token, pad_token_id=pad_token_id)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        logits = [model(**tokenizer(text, return_tensors="pt")).logits[0] for text in texts]

    classifier = load_offensiveness_classifier(folder)

    assert_close(classifier.probabilities(texts), [float(pair.double().softmax(0)[1]) for pair in logits])
    assert bool(classifier.notes) is not padded
    if not padded:
        assert "one at a time" in classifier.notes[0]


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2"])
def test_long_texts_are_cut_and_counted(kind, prompts, save_classifier):
    folder = save_classifier(kind, TWO)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    # RoBERTa's 66 positions begin behind that of the padding, 2.
    limit = 63 if kind == "roberta" else 64
    special = tokenizer.num_special_tokens_to_add()
    word = next(
        word for word in ("a", "b", "c") if len(tokenizer.encode(f"{word} {word}", add_special_tokens=False)) == 2
    )
    fits, too_long = (" ".join([word] * (limit - special + more)) for more in (0, 1))
    texts = [too_long, prompts[0], fits, " ".join(prompts[:20]), fits]

    classifier = load_offensiveness_classifier(folder)
    found = classifier.classify(texts)

    assert classifier.max_tokens == limit
    assert found.truncated.tolist() == [True, False, False, True, False]
    assert found.num_truncated == 2
    expected = by_label(folder, texts, truncation=True, max_length=limit)
    np.testing.assert_allclose(found.probabilities, [found["offensive"] for found in expected], atol=1e-5)


def test_a_limit_of_the_tokenizer_counts_too(prompts, save_classifier):
    folder = save_classifier("bert", TWO)
    transformers.AutoTokenizer.from_pretrained(folder, model_max_length=9).save_pretrained(folder)

    classifier = load_offensiveness_classifier(folder)

    assert classifier.max_tokens == 9
    assert classifier.classify(["a b", " ".join(prompts[:2])]).truncated.tolist() == [False, True]


def test_identical_texts_are_classified_once(texts, save_classifier):
    classifier = load_offensiveness_classifier(save_classifier("bert", TWO), batch_size=8)
    rows = []

    def count(module, inputs, output):
        if isinstance(module, transformers.BertForSequenceClassification):
            rows.append(len(output.logits))

    repeated = [*texts, *reversed(texts), texts[3]]
    with torch.nn.modules.module.register_module_forward_hook(count):
        found = classifier.probabilities(repeated)

    assert sum(rows) == len(set(texts))
    np.testing.assert_array_equal(found, [*found[: len(texts)], *found[: len(texts)][::-1], found[3]])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["non-offensive", "offensive"], ("offensive",)),
        (["nothate", "hate"], ("hate",)),
        (["NON_HATE", "HATE"], ("HATE",)),
        (["toxic", "non-toxic"], ("toxic",)),
        (["Hate_Speech", "neither", "Offensive-Language"], ("Hate_Speech", "Offensive-Language")),
        (["__ok__", "__notok__"], ("__notok__",)),
    ],
)
def test_the_label_is_found_by_its_name(labels, expected, save_classifier):
    classifier = load_offensiveness_classifier(save_classifier("bert", dict(enumerate(labels))))

    assert (classifier.offensive_labels, classifier.notes) == (expected, ())


def test_of_two_labels_without_names_the_second_is_taken_and_noted(save_classifier):
    classifier = load_offensiveness_classifier(save_classifier("bert", {0: "LABEL_0", 1: "LABEL_1"}))

    assert classifier.offensive_labels == ("LABEL_1",)
    assert classifier.notes == ("its labels have no names; LABEL_1, the second of two, is taken for offensive",)


@pytest.mark.parametrize(
    ("labels", "settings"),
    [
        (["not offensive", "not hate"], {}),
        (["LABEL_0", "LABEL_1", "LABEL_2"], {}),
        (["LABEL_0", "LABEL_1"], {"problem_type": "multi_label_classification"}),
        (["negative", "positive"], {}),
    ],
)
def test_where_no_label_is_clear_they_are_listed(labels, settings, save_classifier):
    folder = save_classifier("bert", dict(enumerate(labels)), **settings)

    with pytest.raises(
        ValueError, match=exactly(offensive.NO_LABEL_ERROR.format(name=folder, labels=", ".join(labels)))
    ):
        load_offensiveness_classifier(folder)
    assert load_offensiveness_classifier(folder, offensive_label=labels[1]).offensive_labels == (labels[1],)


def test_a_label_may_have_a_comma_in_its_name(texts, save_classifier):
    folder = save_classifier("bert", {0: "calm, kind", 1: "rude, harsh"})

    classifier = load_offensiveness_classifier(folder, offensive_label="rude, harsh")

    assert_close(classifier.probabilities(texts), [found["rude, harsh"] for found in by_label(folder, texts)])


def test_a_label_that_is_not_there_is_told(save_classifier):
    folder = save_classifier("bert", TWO)
    told = offensive.UNKNOWN_LABEL_ERROR.format(
        name=folder, label="ofensive", hint="did you mean 'offensive'? ", labels="fine, offensive"
    )

    with pytest.raises(ValueError, match=exactly(told)):
        load_offensiveness_classifier(folder, offensive_label="fine,ofensive")


def test_the_digest_follows_the_weights(save_classifier):
    folder = save_classifier("bert", TWO)
    first, again = (load_offensiveness_classifier(folder).digest for _ in range(2))
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    model.classifier.bias.data += 1
    model.save_pretrained(folder)

    assert first == again != load_offensiveness_classifier(folder).digest


def test_a_classifier_of_the_hub_is_known_by_its_commit(texts, save_classifier):
    folder = save_classifier("bert", TWO)
    # As a download would have left it.
    name = f"offensive-{uuid4().hex}"
    repository = Path(huggingface_hub.constants.HF_HUB_CACHE) / f"models--tests--{name}"
    try:
        shutil.copytree(folder, repository / "snapshots" / COMMIT)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text(COMMIT)
        classifiers = [load_offensiveness_classifier(f"tests/{name}", revision=of) for of in (None, COMMIT)]
    finally:
        shutil.rmtree(repository)

    expected = load_offensiveness_classifier(folder).probabilities(texts)
    for classifier in classifiers:
        assert (classifier.name, classifier.digest) == (f"tests/{name}", COMMIT)
        np.testing.assert_array_equal(classifier.probabilities(texts), expected)


def test_what_is_not_there_is_reported_with_what_to_give(save_classifier, tmp_path):
    for name in ("no/such-classifier", "not/a/name", str(tmp_path)):
        with pytest.raises(OSError, match=f"no classifier '{re.escape(name)}': give 'embedded', a local folder"):
            load_offensiveness_classifier(name)
    folder = save_classifier("bert", TWO)
    for path in Path(folder).glob("tokenizer*"):
        path.unlink()
    with pytest.raises(OSError, match="has no tokenizer that loads"):
        load_offensiveness_classifier(folder)


def test_what_is_no_classifier_is_refused(save_classifier, save_small_model, tmp_path):
    with pytest.raises(ValueError, match=r"lacks weights of a sequence classifier \(.*classifier"):
        load_offensiveness_classifier(str(save_small_model("bert")))
    transformers.ViTConfig().save_pretrained(tmp_path)
    told = sequence_classifier.NOT_A_CLASSIFIER_ERROR.format(name=tmp_path, model_type="vit")
    with pytest.raises(ValueError, match=exactly(told)):
        load_offensiveness_classifier(str(tmp_path))
    folder = save_classifier("bert", {0: "toxic"}, problem_type="regression")
    with pytest.raises(ValueError, match=exactly(sequence_classifier.REGRESSION_ERROR.format(name=folder))):
        load_offensiveness_classifier(folder)


def test_a_tokenizer_of_another_model_is_refused(save_classifier):
    folder = save_classifier("roberta", TWO)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    model.resize_token_embeddings(20)
    model.save_pretrained(folder)

    with pytest.raises(ValueError, match="the model knows 20 tokens: they do not belong together"):
        load_offensiveness_classifier(folder)


def test_broken_weights_are_told(texts, save_classifier):
    folder = save_classifier("bert", TWO)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    model.classifier.bias.data[0] = math.nan
    model.save_pretrained(folder)

    with pytest.raises(ValueError, match=r"the classifier gives \[nan, .*\] for text 0; check its weights"):
        load_offensiveness_classifier(folder).probabilities(texts)


@pytest.fixture(scope="module", params=["embedded", "bert"])
def any_classifier(request, save_classifier):
    return load_offensiveness_classifier("embedded" if request.param == "embedded" else save_classifier("bert", TWO))


def test_input_that_cannot_be_classified_is_named(any_classifier):
    with pytest.raises(ValueError, match=exactly(offensive.BLANK_ERROR.format(row=1))):
        any_classifier.probabilities(["a", " \n"])
    with pytest.raises(ValueError, match="text 1 is empty"):
        any_classifier.probabilities(["a", ""])
    with pytest.raises(ValueError, match="text 0 is None, not a string"):
        any_classifier.probabilities([None])
    with pytest.raises(ValueError, match="texts is a single string"):
        any_classifier.probabilities("a")


def test_no_texts_have_no_probabilities(any_classifier):
    found = any_classifier.classify([])

    assert (found.probabilities.shape, found.truncated.shape, found.num_truncated) == ((0,), (0,), 0)


def test_options_that_cannot_be_taken_are_told():
    with pytest.raises(
        ValueError, match=exactly(sequence_classifier.BATCH_SIZE_ERROR.format(batch_size=0, default=32))
    ):
        load_offensiveness_classifier(batch_size=0)
    for option in ("revision", "offensive_label"):
        told = offensive.EMBEDDED_OPTION_ERROR.format(option=option, value="x")
        with pytest.raises(ValueError, match=exactly(told)):
            load_offensiveness_classifier(**{option: "x"})


def test_the_embedded_classifier_gives_each_text_what_it_gives_it_alone(prompts):
    classifier = load_offensiveness_classifier()
    texts = [*prompts, *prompts[:50]]

    found = classifier.classify(texts)

    np.testing.assert_array_equal(found.probabilities, [profanity_check.predict_prob([text])[0] for text in texts])
    assert found.num_truncated == 0
    assert (classifier.name, classifier.max_tokens) == (EMBEDDED_CLASSIFIER_NAME, None)
    assert classifier.version.startswith("alt-profanity-check 1.")
    assert len(classifier.digest) == 64


def test_the_embedded_classifier_tells_rude_from_polite():
    rude, polite = load_offensiveness_classifier().probabilities(
        ["Shut up, you stupid idiot.", "Thank you, how kind of you."]
    )

    assert polite < 0.1 < 0.9 < rude


@pytest.mark.skipif(version("alt-profanity-check") != "1.9.1", reason="the card tells the numbers of 1.9.1")
def test_what_the_card_says_of_harmless_lines_is_so():
    rows = re.findall(r"^\| (\S+) \| (\S+) % \| (\S+) % \|$", CARD.read_text("utf-8").replace("*", ""), re.MULTILINE)
    prompts = load_table("v1.0")
    prompts = prompts.filter(pc.equal(prompts["template"], "Hi! I'm {noun_phrase}."))
    axes, nouns = (prompts[name].to_numpy() for name in ("axis", "noun"))
    flagged = load_offensiveness_classifier().probabilities(prompts["text"].to_pylist()) >= 0.5

    assert {axis for axis, _, _ in rows} == {"all", *axes}
    for axis, share, without_mom in rows:
        here = np.full(len(axes), True) if axis == "all" else axes == axis
        assert f"{flagged[here].mean():.1%}" == f"{share}%", axis
        assert f"{flagged[here & (nouns != 'mom')].mean():.1%}" == f"{without_mom}%", axis
    assert flagged.sum() == 790


def test_an_embedded_classifier_for_another_scikit_learn_is_refused(monkeypatch):
    for name in ("profanity_check", "profanity_check.profanity_check"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sklearn.base, "__version__", "0.1")

    with pytest.raises(ImportError, match="another release of scikit-learn than the one installed"):
        load_offensiveness_classifier()


def test_without_its_wheel_the_embedded_classifier_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "profanity_check", None)

    with pytest.raises(ModuleNotFoundError, match=r"pip install 'holistic-bias\[embedded\]'"):
        load_offensiveness_classifier()
