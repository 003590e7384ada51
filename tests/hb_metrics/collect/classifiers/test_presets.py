"""Classifiers by name, with random models of the same architecture and labels in the Hub's place."""

import pytest
import yaml

from hb_metrics.collect.classifiers.offensive import load_offensiveness_classifier
from hb_metrics.collect.classifiers.presets import main, presets, suggested
from hb_metrics.collect.classifiers.regard import REGARDS, load_regard_classifier
from hb_metrics.collect.classifiers.styles import STYLE_DATA, clusters_for, load_style_classifier, read_style_clusters

ARCHITECTURES = dict.fromkeys(("go_emotions", "unbiased_toxic_roberta", "roberta_hate"), "roberta")
ARCHITECTURES |= dict.fromkeys(("polite_guard", "toxic_bert", "regardv3"), "bert")
LOADERS = {
    "--style_classifier": load_style_classifier,
    "--offensiveness_classifier": load_offensiveness_classifier,
    "--regard_classifier": load_regard_classifier,
}


@pytest.fixture
def in_place_of_the_hub(save_classifier, monkeypatch):
    """Saves a random checkpoint for a preset's id."""

    def put(name, labels=None, **settings):
        preset = presets()[name]
        if preset["multi_label"]:
            settings = {"problem_type": "multi_label_classification", **settings}
        folder = save_classifier(*(labels or preset["labels"]), kind=ARCHITECTURES[name], **settings)
        monkeypatch.setattr("hb_metrics.collect.classifiers.presets.presets", lambda: {name: preset | {"id": folder}})
        return folder

    return put


def test_every_preset_has_a_tested_architecture():
    assert presets().keys() == ARCHITECTURES.keys()
    assert {preset["option"] for preset in presets().values()} == LOADERS.keys()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_presets_load_with_the_labels_that_count(name, in_place_of_the_hub, texts):
    preset, folder = presets()[name], in_place_of_the_hub(name)

    classifier = LOADERS[preset["option"]](name)

    assert classifier.name == folder
    assert classifier.probabilities(texts[:3]).shape == (3, len(classifier.labels))
    if preset["option"] == "--offensiveness_classifier":
        assert classifier.source_labels == tuple(preset["counts"])
    elif preset["option"] == "--regard_classifier":
        assert classifier.labels == REGARDS
        assert not classifier.notes
    else:
        shipped = None if preset["clusters"] == "none" else read_style_clusters(STYLE_DATA / preset["clusters"])
        assert clusters_for(classifier.labels) == shipped


@pytest.mark.parametrize(
    ("labels", "settings"), [(["toxic", "obscene"], {}), (None, {"problem_type": "single_label_classification"})]
)
def test_a_checkpoint_with_other_labels_or_probabilities_is_rejected(labels, settings, in_place_of_the_hub):
    in_place_of_the_hub("toxic_bert", labels, **settings)
    with pytest.raises(ValueError, match=r"now has the labels toxic, .*obscene.* recorded for 'toxic_bert'"):
        load_offensiveness_classifier("toxic_bert")


def test_the_list_is_the_file_and_says_what_is_untested(capsys):
    main([])
    listed = capsys.readouterr().out
    assert "These checkpoints are untested" in listed
    assert yaml.safe_load(listed) == presets()
    for option in LOADERS:
        assert suggested(option).split() == [option, next(n for n, p in presets().items() if p["option"] == option)]
