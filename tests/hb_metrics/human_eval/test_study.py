import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import hb_dataset
from hb_dataset.vocabulary import read_vocabulary
from hb_metrics.human_eval.export import INFLAMMATORY_TEMPLATES, QUESTIONS, pairs_of_runs, task_rows
from hb_metrics.human_eval.study import (
    CHECK_REPLY,
    LAYOUT,
    REASONS,
    Design,
    draw_study,
    read_study,
    speakers,
    study_text,
)
from hb_metrics.measurements.results import read_run
from tests.hb_metrics.human_eval.made_runs import small_prompts, write_run
from tests.hb_metrics.human_eval.made_study import about, made_study, pairs_of, screens_of

NEXT = Path(hb_dataset.__file__).parent / "vocabulary" / "next"
MANY = {"ability": 200, "age": 60, "nonce": 5, "religion": 90}


def shown_pairs(screens):
    return [screen for screen in screens if screen.asked is None]


def test_each_pair_is_rated_as_often_by_different_raters():
    for design in (Design(6, 20, 2, 3, 0), Design(5, 12, 5, 0, 1), Design(4, 9, 1, 1, 2), Design(5, 7, 2, 0, 3)):
        study = made_study(MANY, design)
        ratings = Counter()
        for screens in study.sheets.values():
            pairs = [screen.pair for screen in shown_pairs(screens)]
            assert len(pairs) == len(set(pairs)) == design.pairs_per_rater
            assert len(screens) == len(pairs) + design.checks_per_rater
            ratings.update(pairs)
        assert set(ratings) == set(range(len(study.pairs))) == set(range(design.num_pairs))
        more = sum(ratings.values()) - design.num_pairs * design.raters_per_pair  # where numbers do not divide
        times = Counter(ratings.values())
        assert times[design.raters_per_pair + 1] == more == len(ratings) - times[design.raters_per_pair]


def test_axes_sides_and_checks_are_balanced_for_each_rater():
    for seed in range(2):
        study = made_study(MANY, Design(6, 30, 2, 4, seed))
        of_axes = Counter(pair.axis for pair in study.pairs)
        assert of_axes.pop("nonce") == 5  # all that there are
        assert sorted(of_axes.values()) == [28, 28, 29]
        of_terms = Counter(pair.descriptor for pair in study.pairs if pair.axis == "ability")
        assert max(of_terms.values()) - min(of_terms.values()) <= 1
        for screens in study.sheets.values():
            sides, places = defaultdict(list), []
            for place, screen in enumerate(screens):
                if screen.asked is None:
                    sides[study.pairs[screen.pair].axis].append(2 * screen.first - 1)
                else:
                    places.append(place - len(places))  # the number of pairs before the check
            assert len(sides.pop("nonce")) in (1, 2)
            assert all(abs(len(of_axis) - 85 / 3 * 30 / 90) < 1.5 for of_axis in sides.values())
            assert all(abs(sum(of_axis)) <= 1 for of_axis in sides.values())
            assert sum(screen.first for screen in shown_pairs(screens)) == 15
            assert Counter(screen.asked for screen in screens if screen.asked is not None) == {1: 2, 2: 2}
            assert all(7.5 * number < pairs <= 7.5 * number + 7.5 for number, pairs in enumerate(places))


def test_sides_and_order_depend_on_seed_and_rater_alone():
    study = made_study(MANY, Design(2, 20, 2, 2, 0))
    again = draw_study(pairs_of(MANY)[::-1], Design(2, 20, 2, 2, 0), QUESTIONS, about())
    other = made_study(MANY, Design(2, 20, 2, 2, 1))

    assert again == study
    assert other.id != study.id
    assert {pair.id for pair in other.pairs} != {pair.id for pair in study.pairs}
    one, two = ({screen.pair: screen.first for screen in shown_pairs(screens)} for screens in study.sheets.values())
    assert list(one) != list(two)
    assert 0 < sum(one[pair] != two[pair] for pair in one) < 20


def test_tasks_do_not_reveal_which_run_a_reply_is_of():
    study = made_study(questions=QUESTIONS[1:2])
    rows = task_rows(study)

    assert len({row["task"] for row in rows}) == len(rows) == 4 * 22
    fields = {"study", "task", "sheet", "screen", "question", "question_text", "prompt", "speaker_1", "speaker_2"}
    for row, (rater, screen, tasks) in zip(rows, screens_of(study), strict=True):
        assert row.keys() == fields
        assert row["question_text"] == "Which speaker sounds more human?"
        assert (row["sheet"], row["task"]) == (rater, tasks["humanness"])
        replies = study.pairs[screen.pair].replies
        expected = [replies[screen.first], replies[1 - screen.first]]
        if screen.asked is not None:
            expected[screen.asked - 1] = CHECK_REPLY
        assert [row["speaker_1"], row["speaker_2"]] == expected == list(speakers(study, screen))


def test_a_study_is_read_only_as_it_was_written(tmp_path):
    study, path = made_study(), tmp_path / "study.json"
    text = study_text(study, LAYOUT)
    path.write_text(text, encoding="utf-8")
    assert read_study(path) == study

    sides, name = json.loads(text), json.loads(text)
    sides["sheets"]["rater-01"][0][1] = 1 - sides["sheets"]["rater-01"][0][1]
    name["about"]["runs"][0]["name"] = "another"
    changed = [sides, name, {**name, "pairs": 3}, {**name, "layout": 1}, [], {}]
    for wrong in (*map(json.dumps, changed), "", text[:5000]):
        path.write_text(wrong, encoding="utf-8")
        with pytest.raises(ValueError, match="is not a study written by this release's `human-eval export`"):
            read_study(path)


def test_the_inflammatory_templates_are_those_of_dislike():
    templates = read_vocabulary(NEXT).templates
    assert set(INFLAMMATORY_TEMPLATES) == {row.template for row in templates if row.bucket == "dislike"}


@pytest.fixture(scope="module")
def prompts():
    return small_prompts(per_axis=40)


def kind(row):
    """What is special about a prompt."""
    return int(row["id"][:8], 16) % 13


@pytest.fixture(scope="module")
def runs(prompts, tmp_path_factory):
    """Two runs in which prompts are left out for each reason."""
    folder = tmp_path_factory.mktemp("runs")

    def before(row):
        return {0: " ", 1: "the same", 2: "rude _POTENTIALLY_UNSAFE__"}.get(kind(row), f"before {row['id']}")

    def after(row):
        return {1: "the  same\n", 3: None}.get(kind(row), f"after {row['id']}")

    def other_words(row):
        return row["text"].lower() + "!" if kind(row) == 5 else row["text"]

    first = write_run(folder / "a", prompts, before, lambda row: 0.5 if kind(row) == 4 else 0.49)
    second = write_run(folder / "b", prompts.slice(0, 450), after, text=other_words, model="other")
    return read_run(first), read_run(second)


def expected(prompts, *, offensive=True):
    """The pairs and counts, one prompt after the other."""
    counts, ids = dict.fromkeys(REASONS, 0), []
    for number, row in enumerate(prompts.to_pylist()):
        reasons = {
            "one_run": number >= 450,
            "other_prompt": kind(row) == 5,
            "empty": kind(row) in (0, 3),
            "template": row["template"] in INFLAMMATORY_TEMPLATES,
            "term": row["preference"] == "dispreferred",
            "offensive": offensive and kind(row) in (2, 4),
            "identical": kind(row) == 1,
        }
        reason = next((name for name, applies in reasons.items() if applies), None)
        if reason is None:
            ids.append(row["id"])
        else:
            counts[reason] += 1
    return ids, counts


def test_pairs_are_replies_to_the_same_prompt_or_counted(prompts, runs):
    found = pairs_of_runs(*runs)

    assert ([pair.id for pair in found.pairs], found.left_out) == expected(prompts)
    assert found.axes == sorted(set(prompts["axis"].to_pylist()))
    assert min(found.left_out.values()) > 0
    rows = {row["id"]: row for row in prompts.to_pylist()}
    for pair in found.pairs:
        row = rows[pair.id]
        assert pair[1:5] == (row["axis"], row["descriptor"], row["template"], row["text"])
        assert pair.replies == (f"before {pair.id}", f"after {pair.id}")


def test_offensive_replies_can_be_kept(prompts, runs):
    found = pairs_of_runs(*runs, keep_offensive=True)
    assert ([pair.id for pair in found.pairs], found.left_out) == expected(prompts, offensive=False)
    assert "rude " in {pair.replies[0] for pair in found.pairs}  # without the mark of BlenderBot


def test_runs_without_replies_or_offensiveness_are_rejected(prompts, tmp_path):
    few = prompts.slice(0, 60)
    runs = [read_run(write_run(tmp_path / name, few, lambda row, name=name: name, None)) for name in "ab"]
    with pytest.raises(ValueError, match=r"a' does not record which .* set --keep_offensive"):
        pairs_of_runs(*runs)
    assert pairs_of_runs(*runs, keep_offensive=True).pairs
    for path in (tmp_path / "b" / "replies").iterdir():
        path.unlink()
    with pytest.raises(ValueError, match="b' has no replies; pass the folder of a run with --measurements generation"):
        pairs_of_runs(*runs, keep_offensive=True)
