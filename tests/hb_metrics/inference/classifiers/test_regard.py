import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
import transformers

from hb_metrics.inference.classifiers import embedded_styles, regard
from hb_metrics.inference.classifiers.embedded_styles import read_labelled
from hb_metrics.inference.classifiers.regard import (
    CALIBRATION,
    EXEMPLARS,
    MASK,
    NAME,
    REGARD_SCHEMA,
    REGARDS,
    load_regard_classifier,
    mask_groups,
    parse_regard_labels,
    regard_array,
    regards_into_shards,
)
from hb_metrics.inference.models.loading import EMBEDDED

LINES = Path(__file__).parent / "regard_test_lines.yaml"
CARD = Path(regard.__file__).parent / "REGARD_CLASSIFIER.md"
SCORES = np.array([-1, 0, 1, 0])
GROUPS = {
    "man": "men",
    "woman": "women",
    "white person": "white people",
    "black person": "black people",
    "straight person": "straight people",
    "gay person": "gay people",
    "Deaf person": "Deaf people",
    "Muslim woman": "Muslim women",
    "poor person": "poor people",
}


def exactly(message):
    return f"^{re.escape(message)}$"


@pytest.fixture(scope="module")
def texts(prompts):
    """Texts of many lengths, in no order."""
    return [" ".join(prompts[place : place + 1 + place % 3]) for place in range(0, 300, 10)]


@pytest.fixture(scope="module")
def save_classifier(tmp_path_factory, get_small_model):
    """Saves a small BERT with random weights that classifies, and returns its folder."""

    def save(*labels, **settings):
        folder = tmp_path_factory.mktemp("classifier")
        config = transformers.BertConfig(
            vocab_size=400,
            id2label=dict(enumerate(labels)),
            label2id={label: place for place, label in enumerate(labels)},
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


def reference(folder, texts, function="softmax"):
    """For each text a score by label, from transformers' own pipeline, one text at a time."""
    classify = transformers.pipeline("text-classification", model=folder, top_k=None, device="cpu")
    return [
        {entry["label"]: entry["score"] for entry in entries} for entries in classify(texts, function_to_apply=function)
    ]


# --- Classifiers of the Hub ---


def test_labels_are_found_by_name_in_any_case_and_order(texts, save_classifier):
    folder = save_classifier("Positive", "OTHER", "negative", "Neutral")
    classifier = load_regard_classifier(folder)
    found, truncated = classifier.classify(texts)
    expected = [
        [scores[name] for name in ("negative", "Neutral", "Positive", "OTHER")] for scores in reference(folder, texts)
    ]

    assert (found.dtype, found.shape, truncated.dtype) == (np.float64, (len(texts), 4), bool)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-12)
    assert np.ptp(found, axis=0).max() > 0.1  # else a mistake could hide
    assert (classifier.name, classifier.labels, classifier.notes) == (folder, REGARDS, ())
    assert len(classifier.digest) == 64


def test_without_a_label_for_other_its_probability_is_nought_and_that_is_said(texts, save_classifier):
    classifier = load_regard_classifier(save_classifier("negative", "neutral", "positive"))
    found, _ = classifier.classify(texts)
    assert not found[:, 3].any()
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-12)
    assert classifier.labels == REGARDS
    assert classifier.notes == ("it has no label for other, which has probability 0",)


def test_labels_are_mapped(texts, save_classifier):
    folder = save_classifier("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3", "neutral")
    mapping = parse_regard_labels("LABEL_0=negative, LABEL_1 = Positive,LABEL_2=other,LABEL_3=other")
    classifier = load_regard_classifier(folder, labels=mapping)
    found, _ = classifier.classify(texts)
    expected = [
        [each["LABEL_0"], each["neutral"], each["LABEL_1"], each["LABEL_2"] + each["LABEL_3"]]
        for each in reference(folder, texts)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert classifier.notes == (
        "labels read as LABEL_0 = negative, LABEL_1 = positive, LABEL_2 = other, LABEL_3 = other",
    )


def test_a_sigmoid_head_is_divided_by_its_sum_and_that_is_said(texts, save_classifier):
    folder = save_classifier(*REGARDS, problem_type="multi_label_classification")
    classifier = load_regard_classifier(folder)
    found, _ = classifier.classify(texts)
    expected = np.array([[scores[name] for name in REGARDS] for scores in reference(folder, texts, "sigmoid")])
    assert np.ptp(expected.sum(1)) > 0.3
    np.testing.assert_allclose(found, expected / expected.sum(1, keepdims=True), atol=1e-5)
    assert classifier.notes == ("its labels have probabilities of their own; they are divided by their sum",)


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (("joy", "fear"), "'joy', 'fear' is not one of them and negative, neutral, positive is missing"),
        (("negative", "positive"), "neutral is missing"),
        ((*REGARDS, "mixed"), "'mixed' is not one of them"),
        (("LABEL_0", "LABEL_1", "LABEL_2"), "'LABEL_0', 'LABEL_1', 'LABEL_2' is not one of them and negative, "),
    ],
)
def test_labels_that_are_not_regards_are_named(labels, problem, save_classifier):
    folder = save_classifier(*labels)
    with pytest.raises(ValueError, match=re.escape(problem)) as error:
        load_regard_classifier(folder)
    message = str(error.value)
    assert all(f"'{label}'" in message for label in labels)
    assert "those of regard are negative, neutral, positive and, at best, other" in message
    assert f'labels="{labels[0]}=negative,{labels[1]}=neutral' in message


def test_faults_of_a_mapping_are_named(save_classifier):
    folder = save_classifier("a", "b", "c")
    complete = {"a": "negative", "b": "neutral", "c": "positive"}
    load_regard_classifier(folder, labels=complete)
    stranger = regard.MAPPING_ERROR.format(label="d", name=folder, labels="'a', 'b', 'c'")
    with pytest.raises(ValueError, match=exactly(stranger)):
        load_regard_classifier(folder, labels={**complete, "d": "other"})
    unknown = regard.UNKNOWN_REGARD_ERROR.format(label="b", regard="fine", allowed=", ".join(REGARDS))
    with pytest.raises(ValueError, match=exactly(unknown)):
        load_regard_classifier(folder, labels={**complete, "b": "fine"})
    with pytest.raises(ValueError, match=r"neutral is missing"):
        load_regard_classifier(folder, labels={**complete, "b": "positive"})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is no LABEL=REGARD"),
        ("a=negative,", "'' is no LABEL=REGARD"),
        ("a:negative", "'a:negative' is no LABEL=REGARD"),
        ("a=", "'a=' is no LABEL=REGARD"),
        ("=other", "'=other' is no LABEL=REGARD"),
        ("a=other,a=positive", "'a' stands twice"),
    ],
)
def test_faults_of_written_labels_are_named(text, problem):
    with pytest.raises(ValueError, match=exactly(regard.LABELS_ERROR.format(text=text, problem=problem))):
        parse_regard_labels(text)


def test_written_labels_are_read():
    assert parse_regard_labels(" a b =Negative,x=y=other") == {"a b": "negative", "x=y": "other"}
    with pytest.raises(ValueError, match="labels takes 'a' for 'bad', which is no regard; allowed: negative, neutral"):
        parse_regard_labels("a=bad")


def test_what_is_no_classifier_is_refused(save_small_model):
    with pytest.raises(ValueError, match="lacks weights of a sequence classifier"):
        load_regard_classifier(str(save_small_model("bert")))
    with pytest.raises(OSError, match="no classifier 'no/such-classifier'"):
        load_regard_classifier("no/such-classifier")
    for option, value in (("revision", "main"), ("labels", {"a": "other"})):
        with pytest.raises(ValueError, match=exactly(regard.OPTION_ERROR.format(option=option, value=value))):
            load_regard_classifier(**{option: value})


def test_probabilities_of_nought_are_told(save_classifier):
    folder = save_classifier(*REGARDS, problem_type="multi_label_classification")
    model = transformers.BertForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        model.classifier.bias.fill_(-1e4)
    model.save_pretrained(folder)
    with pytest.raises(ValueError, match=exactly(regard.ZERO_ERROR.format(name=folder, row=0))):
        load_regard_classifier(folder).classify(["Hi."])


# --- Masks ---


@pytest.mark.parametrize(
    ("text", "mentions", "masked"),
    [
        ("The man worked as a salesman for two men.", ["man", "men"], "The XYZ worked as a salesman for two XYZ."),
        ("Women! The woman's hat; a womanly WOMAN.", ["woman", "women"], "XYZ! The XYZ's hat; a womanly XYZ."),
        (
            "Did the gay person work? Gay people, gay  person, gay-person; gay persons and a person.",
            ["gay person", "gay people"],
            "Did the XYZ work? XYZ, XYZ, XYZ; XYZ and a person.",
        ),
        ("a non binary, nonbinary or non-binary kid", ["non-binary kid"], "a non binary, nonbinary or XYZ"),
        ("a non binary kid, nonbinary kids", ["non-binary kid"], "a XYZ, XYZ"),
        ("the black person and the person", ["person", "black person"], "the XYZ and the XYZ"),
        ("the tall (very) one", ["(very) one"], "the tall XYZ"),
        ("nobody", [], "nobody"),
        ("", ["man"], ""),
    ],
)
def test_examples_are_masked(text, mentions, masked):
    assert mask_groups([text], [mentions]) == [masked]
    assert mask_groups([text], [mentions[::-1] * 2]) == [masked]


def test_masks_are_where_mentions_were_put():
    """Texts made of mentions and of words that are none, so that what is to be found is known."""
    rng = np.random.default_rng(0)
    others = [
        "the",
        "mankind",
        "human",
        "womanly",
        "gayest",
        "personal",
        "blackboard",
        "he",
        "she",
        "manner",
        "(",
        "1man",
    ]
    cases = [str.lower, str.upper, str.capitalize, str.title]
    texts, mentions, expected = [], [], []
    for _ in range(500):
        singular, plural = list(GROUPS.items())[rng.integers(len(GROUPS))]
        words, masked = [], []
        for _ in range(rng.integers(1, 12)):
            word = others[rng.integers(len(others))]
            words.append(word)
            masked.append(word)
            if rng.random() < 0.4:
                form = [singular, plural][rng.integers(2)]
                end = ["", ".", "'s", "?", ","][rng.integers(5)]
                words.append(cases[rng.integers(4)](form).replace(" ", [" ", "-", "  "][rng.integers(3)]) + end)
                masked.append(MASK + end)
        texts.append(" ".join(words))
        mentions.append((singular, plural))
        expected.append(" ".join(masked))
    found = mask_groups(texts, mentions)
    assert found == expected
    assert mask_groups(found, mentions) == found
    order = rng.permutation(len(texts))
    assert mask_groups([texts[row] for row in order], [mentions[row] for row in order]) == [found[row] for row in order]


def test_faults_of_mentions_are_named():
    with pytest.raises(ValueError, match=exactly(regard.BLANK_MENTION_ERROR.format(row=1, mention=" "))):
        mask_groups(["a", "b"], [["man"], ["man", " "]])
    message = regard.LENGTH_ERROR.format(texts=2, others=1, what="lists of mentions")
    with pytest.raises(ValueError, match=exactly(message)):
        mask_groups(["a", "b"], [["man"]])


# --- Shards ---


@pytest.fixture(scope="module")
def classifier(save_classifier):
    return load_regard_classifier(save_classifier(*REGARDS))


def test_regards_come_back_from_shards(texts, classifier, tmp_path, monkeypatch):
    monkeypatch.setattr(regard, "ROWS_PER_SHARD", 8)
    some = [*texts, *texts[:4], " ".join(texts[:20])]
    ids = [f"id-{row}" for row in range(len(some))][::-1]
    table = regards_into_shards(some, ids, classifier, tmp_path, progress=False)

    assert table.schema == REGARD_SCHEMA
    assert len(list(tmp_path.iterdir())) == -(-len(some) // 8)
    assert table["id"].to_pylist() == ids
    found, (expected, truncated) = regard_array(table), classifier.classify(some)
    assert (found.dtype, found.shape) == (np.float32, (len(some), 4))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert table["truncated"].to_pylist() == truncated.tolist()
    assert truncated[-1]
    assert not truncated[0]

    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    min(files).unlink()
    again = regards_into_shards(some, ids, classifier, tmp_path, progress=False)
    assert again.equals(table)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files
    np.testing.assert_array_equal(regard_array(table.slice(7, 5)), found[7:12])
    np.testing.assert_array_equal(regard_array(pa.concat_tables([table, table])), np.tile(found, (2, 1)))


def test_what_is_on_disk_is_not_classified_again_and_texts_once(texts, classifier, tmp_path):
    asked = []

    def classify(some):
        asked.extend(some)
        return classifier.classify(some)

    counting = regard.RegardClassifier("counting", "", REGARDS, (), classify)
    many = [*texts, *reversed(texts), *texts]
    ids = list(map(str, range(90)))
    found = regard_array(regards_into_shards(many, ids, counting, tmp_path, progress=False))
    assert sorted(asked) == sorted(set(texts))
    np.testing.assert_array_equal(found[:30], found[30:60][::-1])
    np.testing.assert_array_equal(found[:30], found[60:])
    regards_into_shards(many, ids, counting, tmp_path, progress=False)
    assert len(asked) == 30


def test_no_texts_have_no_regards(classifier, tmp_path):
    assert regard_array(regards_into_shards([], [], classifier, tmp_path, progress=False)).shape == (0, 4)
    assert classifier.classify([])[0].shape == (0, 4)


@pytest.mark.parametrize(
    ("bad", "message"),
    [("", "BLANK_ERROR"), (" \n", "BLANK_ERROR"), (None, "NOT_TEXT_ERROR"), (float("nan"), "NOT_TEXT_ERROR")],
)
def test_texts_that_are_none_are_named(bad, message, classifier, tmp_path):
    expected = exactly(getattr(regard, message).format(row=1, text=bad))
    with pytest.raises(ValueError, match=expected):
        classifier.classify(["Hi.", bad, bad])
    with pytest.raises(ValueError, match=expected):
        regards_into_shards(["Hi.", bad], ["a", "b"], classifier, tmp_path)
    assert not list(tmp_path.iterdir())


def test_as_many_ids_as_texts(classifier, tmp_path):
    with pytest.raises(ValueError, match=exactly(regard.LENGTH_ERROR.format(texts=2, others=1, what="ids"))):
        regards_into_shards(["a", "b"], ["1"], classifier, tmp_path)


# --- The embedded classifier ---


@pytest.fixture(scope="module")
def embedded():
    """The classifier; fitted here unless it was in an earlier run of the same code and exemplars."""
    return load_regard_classifier()


@pytest.fixture(scope="module")
def lines():
    return read_labelled(LINES, "regard", "lines")


@pytest.fixture(scope="module")
def truth(lines):
    return np.array([REGARDS.index(lines.names[place]) for place in lines.styles])


@pytest.fixture(scope="module")
def classified(embedded, lines):
    return embedded.classify(lines.texts)


def with_group(line, singular, plural):
    line = re.sub(r"^XYZ (?=are|XYZ)", f"{plural} ", line).replace("an XYZ", "a XYZ")
    return line.replace(MASK, singular)


def swap_pronouns(line):
    """He for she and the other way round; "her" is "his" where another word follows."""
    other = {"he": "she", "she": "he", "his": "her", "him": "her", "himself": "herself", "herself": "himself"}

    def swapped(match):
        word = match[0].lower()
        follows = re.match(r" (?!with |at |and |in |because |to )[a-z]", line[match.end() :])
        found = other.get(word) or ("his" if follows else "him")
        return found.capitalize() if match[0][0].isupper() else found

    return re.sub(r"\b(he|she|his|him|her|himself|herself)\b", swapped, line, flags=re.IGNORECASE)


def test_the_embedded_classifier_is_the_default(embedded, classified):
    probabilities, truncated = classified
    assert (embedded.name, embedded.labels) == (NAME, REGARDS)
    assert load_regard_classifier(EMBEDDED).digest == embedded.digest
    assert any("stands in for the classifier of Sheng et al." in note for note in embedded.notes)
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-12)
    assert not truncated.any()
    with pytest.raises(ValueError, match="text 1 is blank"):
        embedded.classify(["Hello!", "  "])


def test_there_are_lines_enough_and_none_in_two_sets():
    sets = [read_labelled(path, "regard", "lines") for path in (EXEMPLARS, CALIBRATION, LINES)]
    for each, least in zip(sets, (60, 20, 50), strict=True):
        assert sorted(each.names) == sorted(REGARDS)
        assert np.bincount(each.styles).min() >= least
        assert all(text.strip() == text and text for text in each.texts)
    assert len(sets[2].texts) >= 200
    plain = [[" ".join(re.findall(r"\w+", text.lower())) for text in each.texts] for each in sets]
    for mine in plain:
        assert len(set(mine)) >= len(mine) - 1  # dots alone may tell two apart
    for one, other in combinations(plain, 2):
        assert not set(one) & set(other)


def test_regard_does_not_depend_on_the_batch_or_the_order(embedded, lines, classified):
    some = lines.texts[::9]
    order = np.random.default_rng(0).permutation(len(some))
    shuffled, _ = embedded.classify([some[row] for row in order])
    np.testing.assert_allclose(shuffled, classified[0][::9][order], atol=1e-5)


def test_the_fitted_regard_is_kept_apart_from_the_styles(embedded, lines, classified, monkeypatch):
    monkeypatch.setattr(embedded_styles, "fit_discriminant", None)  # it would be called in vain
    again = load_regard_classifier()
    assert again.digest == embedded.digest
    np.testing.assert_array_equal(again.classify(lines.texts[:20])[0], embedded.classify(lines.texts[:20])[0])


def test_what_the_card_says_is_so(embedded, lines, truth, classified):
    card = CARD.read_text("utf-8")
    labels = classified[0].argmax(1)
    accuracy = (labels == truth).mean()
    (said,) = re.findall(r"\*\*(\S+) %\*\* of (\d+) lines", card)
    assert int(said[1]) == len(truth)
    assert accuracy >= float(said[0]) / 100 - 0.02
    assert accuracy == pytest.approx(float(said[0]) / 100, abs=0.02)
    assert classified[0].max(1).mean() == pytest.approx(accuracy, abs=0.1)  # not far from shares

    confusion = np.zeros((4, 4), dtype=int)
    np.add.at(confusion, (truth, labels), 1)
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) % \| (\d+) % \|$", card, re.MULTILINE)
    assert [row[0] for row in rows] == list(REGARDS)
    found = np.array([[int(cell) for cell in row[1:]] for row in rows])
    # A line may fall the other way on another machine.
    np.testing.assert_allclose(found[:, :4], confusion, atol=2)
    np.testing.assert_allclose(found[:, 4], 100 * np.diag(confusion) / confusion.sum(1), atol=3)
    np.testing.assert_allclose(found[:, 5], 100 * np.diag(confusion) / confusion.sum(0), atol=3)


def test_what_the_card_says_of_groups_is_so(embedded, lines, truth, classified):
    card = CARD.read_text("utf-8")
    masked = classified[0].argmax(1)
    variants = {name: [with_group(line, name, plural) for line in lines.texts] for name, plural in GROUPS.items()}
    rows = re.findall(r"^\| (.+) \| (\d+) % \| (\d+) % \| ([+−]\d\.\d\d) \|$", card, re.MULTILINE)
    assert [row[0] for row in rows] == [MASK, *GROUPS]
    for name, changed, right, mean in rows:
        labels = embedded.classify(variants[name])[0].argmax(1) if name != MASK else masked
        # A line or two may fall the other way on another machine.
        assert int(changed) == pytest.approx(100 * (labels != masked).mean(), abs=1.5)
        assert int(right) == pytest.approx(100 * (labels == truth).mean(), abs=1.5)
        assert float(mean.replace("−", "-")) == pytest.approx(SCORES[labels].mean(), abs=0.02)

    swapped = [swap_pronouns(line) for line in lines.texts]
    with_pronoun = np.array([one != other for one, other in zip(swapped, lines.texts, strict=True)])
    labels = embedded.classify(swapped)[0].argmax(1)
    (said,) = re.findall(r"(\d+) of the (\d+) lines with\s+a pronoun", card)
    assert int(said[1]) == with_pronoun.sum()
    assert int(said[0]) == pytest.approx((labels != masked).sum(), abs=2)
