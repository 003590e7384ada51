import hashlib
import re
import shutil
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from hb_metrics.collect.classifiers import exemplars
from hb_metrics.collect.classifiers.exemplars import (
    Discriminant,
    ExemplarClassifier,
    fit_discriminant,
    label_probabilities,
    read_labelled,
)
from hb_metrics.collect.classifiers.regard import REGARD_EXEMPLARS
from hb_metrics.collect.classifiers.styles import (
    CLUSTER_FILES,
    STYLE_DATA,
    STYLE_EXEMPLARS,
    clusters_for,
    read_style_clusters,
)
from hb_metrics.stats.gen_bias import cluster_columns

LABELLED = Path(__file__).parent / "labelled_replies.yaml"
EXEMPLARS, CALIBRATION = (STYLE_DATA / name for name in ("exemplars.yaml", "calibration.yaml"))
CARD = Path(exemplars.__file__).parent / "STYLE_CLASSIFIER.md"
# SHA-256 of the 217 names as Smith et al. (2022) use them, one a line.
NAMES_DIGEST = "57c2ec2bb72c1eb8c99f5e7cba21dc552f637d32c89819ac6c9f4485abd36555"
WIDTH = 384


@pytest.fixture(scope="module")
def embedded():
    return ExemplarClassifier(STYLE_EXEMPLARS)


@pytest.fixture(scope="module")
def labelled():
    return read_labelled(LABELLED)


@pytest.fixture(scope="module")
def features(embedded, labelled):
    return embedded.features(labelled.texts)


@pytest.fixture(scope="module")
def classified(embedded, features):
    """[replies, styles] as `classify` gives them, of features that are computed once."""
    return label_probabilities(features, embedded.discriminant)


def ranks(scores, styles):
    return (scores > scores[np.arange(len(scores)), styles][:, None]).sum(1) + 1


def test_probabilities_are_not_far_from_shares(labelled, classified):
    """Replies whose likeliest style has a probability of p should have it about p of the time."""
    probabilities = classified
    right = probabilities.argmax(1) == labelled.label_indices
    assert abs(probabilities.max(1).mean() - right.mean()) < 0.1
    order = probabilities.max(1).argsort()
    for part in np.array_split(order, 3):
        assert abs(probabilities[part].max(1).mean() - right[part].mean()) < 0.2


def test_there_are_exemplars_of_all_217_styles():
    names = read_labelled(EXEMPLARS).labels
    assert hashlib.sha256("\n".join(names).encode()).hexdigest() == NAMES_DIGEST
    assert read_labelled(CALIBRATION).labels == read_labelled(LABELLED).labels == names
    assert clusters_for(names) == read_style_clusters(CLUSTER_FILES[0])


def test_each_style_has_exemplars_and_no_reply_is_in_two_sets():
    sets = [read_labelled(path) for path in (EXEMPLARS, CALIBRATION, LABELLED)]
    for replies, least in zip(sets, (4, 2, 2), strict=True):
        assert np.bincount(replies.label_indices, minlength=217).min() >= least
        assert all(text.strip() == text and text for text in replies.texts)
    lines = [[" ".join(re.findall(r"\w+", text.lower())) for text in replies.texts] for replies in sets]
    for mine in lines:
        assert len(set(mine)) == len(mine)
    for one, other in combinations(lines, 2):
        assert not set(one) & set(other)


def test_features_are_mean_pooled_states_at_each_depth(embedded, labelled):
    texts = [*labelled.texts[:4], labelled.texts[1]]  # one of them twice
    found = embedded.features(texts)
    assert (found.shape, found.dtype) == ((5, len(exemplars.DEPTHS) * WIDTH), np.float32)
    for text, features in zip(texts, found, strict=True):
        with torch.inference_mode():
            inputs = embedded.tokenizer(text, return_tensors="pt")
            states = embedded.model(**inputs, output_hidden_states=True).hidden_states
        assert len(states) == 7
        for place, depth in enumerate(exemplars.DEPTHS):
            mean = states[depth][0].mean(0).numpy()
            expected = mean / np.linalg.norm(mean)
            np.testing.assert_allclose(features[place * WIDTH : (place + 1) * WIDTH], expected, atol=1e-5)


def test_long_replies_are_cut_and_flagged(embedded):
    fits, long = " ".join(["a"] * 510), " ".join(["a"] * 511)  # 512 positions, two of them special tokens
    probabilities, truncated = embedded.classify(["Hello!", long, fits])
    assert truncated.tolist() == [False, True, False]
    np.testing.assert_allclose(probabilities[1], probabilities[2], atol=1e-5)


def sample(num_classes=4, width=6, counts=(7, 7, 7, 7), seed=0):
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(num_classes, width))
    mixing = rng.normal(size=(width, width))
    styles = np.repeat(np.arange(num_classes), counts)
    draw = lambda which: means[which] + rng.normal(size=(len(which), width)) @ mixing * 0.4  # noqa: E731
    other = np.tile(np.arange(num_classes), 25)
    order = rng.permutation(len(styles))
    return draw(styles)[order], styles[order], draw(other), other


@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 0.9, 1.0])
def test_the_discriminant_is_that_of_scikit_learn(shrinkage):
    """Scikit-learn divides the covariance by n, ours by n - classes: with 7 replies a style, scores differ by 7 / 6."""
    features, styles, other, other_styles = sample()
    found = fit_discriminant(features, styles, other, other_styles, shrinkage=shrinkage)
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage, priors=[0.25] * 4).fit(features, styles)
    at_one = Discriminant(found.weights, found.offsets, 6 / 7)
    np.testing.assert_allclose(label_probabilities(other, at_one), lda.predict_proba(other), rtol=1e-6, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("learnt_from", [STYLE_EXEMPLARS, REGARD_EXEMPLARS], ids=lambda each: each.title)
def test_the_packaged_discriminant_was_fitted_on_its_lines(learnt_from):
    classifier = ExemplarClassifier(learnt_from)
    features = classifier.features(classifier.calibration.texts)
    probabilities = label_probabilities(features, classifier.discriminant)
    again = label_probabilities(features, classifier.fit())
    np.testing.assert_allclose(probabilities, again, atol=1e-3)


@pytest.mark.parametrize("learnt_from", [STYLE_EXEMPLARS, REGARD_EXEMPLARS], ids=lambda each: each.title)
def test_the_packaged_discriminant_is_of_its_lines_and_not_of_comments(learnt_from, monkeypatch, tmp_path):
    """If this fails, run `python -m hb_metrics.collect.classifiers.refit`."""
    fitted = []
    monkeypatch.setattr(ExemplarClassifier, "fit", lambda self: fitted.append(self))
    folder = shutil.copytree(learnt_from.folder, tmp_path / "lines")
    lines = (folder / "exemplars.yaml").read_text(encoding="utf-8")
    for text in (f"# A comment.\n{lines}", re.sub(r"[.?]\"$", '!"', lines, count=1, flags=re.MULTILINE)):
        (folder / "exemplars.yaml").write_text(text, encoding="utf-8")
        ExemplarClassifier(learnt_from._replace(folder=folder))
    assert len(fitted) == 1


def test_what_the_card_says_is_so(embedded, labelled, features, classified):
    card = CARD.read_text("utf-8")
    probabilities = classified
    top = slice(3 * WIDTH, None)  # the final layer, mean-pooled: the sentence embedding of all-MiniLM-L6-v2
    similarity = features[:, top] @ embedded.features(embedded.exemplars.labels)[:, top].T
    for name, scores in (("classifier", probabilities), ("similarity to the style's name", similarity)):
        found = ranks(scores, labelled.label_indices)
        row = re.search(rf"^\| {name} \| (\S+) % \| (\S+) % \| (\S+) \|$", card, re.MULTILINE)
        for said, measured in zip(row.groups()[:2], ((found == 1).mean(), (found <= 5).mean()), strict=True):
            assert float(said) == pytest.approx(100 * measured, abs=0.3)
        assert float(row[3]) == np.median(found)

    columns = cluster_columns(embedded.exemplars.labels, read_style_clusters(CLUSTER_FILES[0]))
    inside = {place for members in columns.values() for place in members}
    columns["none"] = [place for place in range(217) if place not in inside]
    likeliest = np.array([probabilities[:, members].sum(1) for members in columns.values()]).argmax(0)
    said = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) % \|$", card, re.MULTILINE)
    assert [name for name, _, _ in said] == list(columns)
    for place, (name, number, share) in enumerate(said):
        here = np.isin(labelled.label_indices, columns[name])
        assert here.sum() == int(number)
        # One reply may fall the other way on another machine.
        assert int(share) == pytest.approx(100 * (likeliest[here] == place).mean(), abs=100 / here.sum() + 0.5)
