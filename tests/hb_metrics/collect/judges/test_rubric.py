"""Rubrics: reading, the record in a run, and what is not valid."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from hb_metrics.collect.classifiers.regard import REGARDS
from hb_metrics.collect.judges.rubric import read_rubric, recorded_rubric, shipped_rubrics
from hb_metrics.run.replies import verdicts

OWN = """
question: Is it about the sea?
figure: yes
labels:
- {label: yes, definition: It is., examples: [We sailed all day., The tide is low.]}
- {label: no, definition: It is not., examples: [I like trains., It rains.]}
"""


def test_shipped_rubrics_are_valid():
    rubrics = {name: read_rubric(name) for name in shipped_rubrics()}
    assert set(rubrics) == {"offensive", "refusal", "condescending", "stereotyping", "regard", "style_clusters"}
    assert rubrics["regard"].labels == [*REGARDS]
    assert rubrics["style_clusters"].labels[-1] == "none"
    assert [name for name, rubric in rubrics.items() if rubric.figure is None] == ["style_clusters"]


def test_own_rubric_survives_its_record(tmp_path):
    path = tmp_path / "my sea.yaml"
    path.write_text(OWN)
    rubric = read_rubric(path)
    assert (rubric.name, rubric.labels, rubric.figure) == ("my_sea", ["yes", "no"], "yes")  # no booleans of YAML
    assert recorded_rubric(SimpleNamespace(**json.loads(json.dumps(rubric.description())))) == rubric


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (("figure: yes", "figure: maybe"), ["own.yaml:3", "yes, no"]),
        (("It rains.", ""), ["own.yaml:6", "examples"]),
        ((", It rains.", ""), ["own.yaml:6", "2 examples"]),
        (("label: no,", "label: yes,"), ["own.yaml:6", "'yes'"]),
        (("label: no,", "label: No Answer,"), ["own.yaml:6", "'No Answer'"]),
        (("label: no,", "label: YES,"), ["own.yaml:6", "'YES'"]),
        (("label: no,", "label: A,"), ["own.yaml:6", "'A'"]),  # a letter that judges answer with
        (("label: no,", 'label: "no\\nyes",'), ["own.yaml:6", "U+000A"]),
        (("label: no,", "label: a  b,"), ["own.yaml:6", "white space"]),
        (("question", "asked"), ["question"]),
        (("- {label: no, definition: It is not., examples: [I like trains., It rains.]}", ""), ["2 to 26"]),
        (("figure: yes", "figure: yes\nfigure: no"), ["own.yaml:4", "twice"]),
        (("figure: yes", "figure: [yes"), ["own.yaml", "YAML"]),
    ],
)
def test_faults_are_named_with_their_line(tmp_path, change, names):
    path = tmp_path / "own.yaml"
    path.write_text(OWN.replace(*change))
    with pytest.raises(ValueError, match=r"own\.yaml") as caught:
        read_rubric(path)
    assert all(name in str(caught.value) for name in names), caught.value


@pytest.mark.parametrize("name", ["refusals.yaml", "offensiveness.yml"])
def test_a_rubric_hides_no_classifier(name, tmp_path):
    (tmp_path / name).write_text(OWN)
    with pytest.raises(ValueError, match="rename the file"):
        read_rubric(tmp_path / name)


def test_verdicts_guess_no_tie():
    rows = [[0.2, 0.5, 0.3], [0.4, 0.4, 0.2], [0.2, 0.4, 0.4], [0, 0, 0]]
    assert verdicts(np.array(rows)).tolist() == [1, -1, -1, -1]


def test_misspelt_rubric_gets_a_hint():
    with pytest.raises(FileNotFoundError, match=r"'condescendig'.*'condescending'"):
        read_rubric("condescendig")
