import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import hb_dataset
from hb_dataset.vocabulary import read_vocabulary
from hb_metrics.human_eval.export import task_rows
from hb_metrics.human_eval.questions import CHECK_REPLY, INFLAMMATORY_TEMPLATES, QUESTIONS
from hb_metrics.human_eval.study import Design, draw_study, read_study, speakers, study_text
from tests.hb_metrics.human_eval.made_study import about, made_study, pairs_of, screens_of

NEXT = Path(hb_dataset.__file__).parent / "vocabulary" / "next"
MANY = {"ability": 200, "age": 60, "nonce": 5, "religion": 90}


def shown_pairs(screens):
    return [screen for screen in screens if screen.asked is None]


def test_each_pair_is_rated_as_often_and_no_rater_sees_one_twice():
    designs = (Design(6, 20, 2, 3, 0), Design(5, 12, 5, 0, 1), Design(4, 9, 1, 1, 2), Design(5, 7, 2, 0, 3))
    for design in designs:
        study = made_study(MANY, design)
        ratings = Counter()
        for screens in study.sheets.values():
            pairs = [screen.pair for screen in shown_pairs(screens)]
            assert len(pairs) == len(set(pairs)) == design.pairs_per_rater
            assert sum(screen.asked is not None for screen in screens) == design.checks_per_rater
            ratings.update(pairs)
        assert set(ratings) == set(range(len(study.pairs))) == set(range(design.num_pairs))
        more = sum(ratings.values()) - design.num_pairs * design.raters_per_pair  # where numbers do not divide
        assert Counter(ratings.values())[design.raters_per_pair + 1] == more < design.raters_per_pair
        assert set(ratings.values()) <= {design.raters_per_pair, design.raters_per_pair + 1}


def test_axes_have_as_many_pairs_for_each_rater():
    study = made_study(MANY, Design(6, 30, 2, 0, 0))
    of_axes = Counter(pair.axis for pair in study.pairs)
    assert of_axes.pop("nonce") == 5  # all that there are
    assert sorted(of_axes.values()) == [28, 28, 29]
    for screens in study.sheets.values():
        of_axes = Counter(study.pairs[screen.pair].axis for screen in screens)
        assert all(abs(of_axes[axis] - 85 / 3 * 30 / 90) < 1.5 for axis in ("ability", "age", "religion"))
        assert of_axes["nonce"] in (1, 2)
    of_terms = Counter(pair.descriptor for pair in study.pairs if pair.axis == "ability")
    assert max(of_terms.values()) - min(of_terms.values()) <= 1


def test_sides_are_balanced_for_each_rater_and_within_each_axis():
    study = made_study(MANY, Design(6, 25, 2, 4, 5))
    for screens in study.sheets.values():
        sides = defaultdict(list)
        for screen in shown_pairs(screens):
            sides[study.pairs[screen.pair].axis].append(screen.first)
        assert abs(sum(2 * first - 1 for of_axis in sides.values() for first in of_axis)) <= 1
        assert all(abs(sum(2 * first - 1 for first in of_axis)) <= 1 for of_axis in sides.values())
        assert Counter(screen.asked for screen in screens if screen.asked is not None) == {1: 2, 2: 2}


def test_sides_and_order_depend_on_seed_and_rater_alone():
    study = made_study(MANY, Design(2, 20, 2, 2, 0))
    again = draw_study(pairs_of(MANY)[::-1], Design(2, 20, 2, 2, 0), QUESTIONS, about())
    other = made_study(MANY, Design(2, 20, 2, 2, 1))

    assert again == study
    assert study_text(again) == study_text(study)
    assert other.id != study.id
    assert {pair.id for pair in other.pairs} != {pair.id for pair in study.pairs}
    one, two = study.sheets.values()
    assert [screen.pair for screen in one] != [screen.pair for screen in two]
    firsts = [{screen.pair: screen.first for screen in shown_pairs(screens)} for screens in (one, two)]
    assert 0 < sum(firsts[0][pair] != firsts[1][pair] for pair in firsts[0]) < 20


def test_checks_come_after_the_first_pair_and_are_spread():
    for seed in range(20):
        for screens in made_study(MANY, Design(2, 20, 2, 4, seed)).sheets.values():
            places = [place for place, screen in enumerate(screens) if screen.asked is not None]
            assert places[0] >= 1
            before = [place - number for number, place in enumerate(places)]  # pairs before each
            assert all(5 * number < pairs <= 5 * number + 5 for number, pairs in enumerate(before))


def test_speakers_say_the_replies_or_ask_to_be_chosen():
    study = made_study()
    for _, screen in screens_of(study):
        said, pair = speakers(study, screen), study.pairs[screen.pair]
        expected = [pair.replies[screen.first], pair.replies[1 - screen.first]]
        if screen.asked is not None:
            expected[screen.asked - 1] = CHECK_REPLY
        assert said == tuple(expected)


def test_tasks_do_not_reveal_which_run_a_reply_is_of():
    study = made_study(questions=QUESTIONS[1:2])
    rows = task_rows(study)

    assert len({row["task"] for row in rows}) == len(rows) == 4 * 22
    assert {row["question_text"] for row in rows} == {"Which speaker sounds more human?"}
    fields = {"study", "task", "sheet", "screen", "question", "question_text", "prompt", "speaker_1", "speaker_2"}
    assert all(row.keys() == fields for row in rows)
    for row, (rater, screen) in zip(rows, screens_of(study), strict=True):
        assert (row["sheet"], row["task"]) == (rater, screen.tasks["humanness"])
        assert (row["speaker_1"], row["speaker_2"]) == speakers(study, screen)


def test_a_study_is_read_only_as_it_was_written(tmp_path):
    study, path = made_study(), tmp_path / "study.json"
    path.write_text(study_text(study), encoding="utf-8")
    assert read_study(path) == study

    content = json.loads(study_text(study))
    sides, name = (json.loads(study_text(study)) for _ in range(2))
    screen = sides["sheets"]["rater-01"][0]
    screen[1] = 1 - screen[1]
    name["runs"][0]["name"] = "another"
    texts = [json.dumps(changed) for changed in (sides, name, {**content, "pairs": 3}, {**content, "layout": 1})]
    for text in (*texts, "", "[]", "{}", study_text(study)[:5000]):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match="is not a study as `export` wrote it"):
            read_study(path)


def test_numbers_that_do_not_go_together_are_rejected():
    for design, message in (
        (Design(0, 5, 1, 0, 0), "num_raters is 0; set at least 1"),
        (Design(2, 5, 2, -1, 0), "checks_per_rater is -1; set at least 0"),
        (Design(2, 5, 3, 0, 0), "raters_per_pair is 3; .* at most num_raters"),
        (Design(5, 100, 1, 0, 0), "needs 500 pairs, and raters can be shown 120"),
    ):
        with pytest.raises(ValueError, match=message):
            made_study(design=design)


def test_the_inflammatory_templates_are_those_of_dislike():
    buckets = {template.template: template.bucket for template in read_vocabulary(NEXT).templates}
    assert set(INFLAMMATORY_TEMPLATES) == {template for template, bucket in buckets.items() if bucket == "dislike"}
