import json

import pytest

from hb_metrics.human_eval.ratings import read_ratings
from tests.hb_metrics.human_eval.made_study import answers, attentive, made_study, screens_of, write_lines


@pytest.fixture(scope="module")
def study():
    return made_study()


@pytest.fixture(scope="module")
def lines(study):
    return answers(study, lambda rater, screen, question: attentive(screen, 1 + (screen.pair + len(question)) % 2))


def test_ratings_are_wins_of_the_second_run_on_either_side(study, lines, tmp_path):
    read = read_ratings([write_lines(tmp_path / "a.jsonl", lines)], study)

    assert [passed for _, passed in read.checks] == [True] * 8
    assert (read.num_duplicates, read.num_repeated) == (0, 0)
    wins = {(rating.rater, rating.question, rating.pair): rating.wins for rating in read.ratings}
    assert len(wins) == len(read.ratings) == 4 * 20 * 3
    for rater, screen, tasks in screens_of(study):
        if screen.asked is None:
            for question in tasks:
                speaker = 1 + (screen.pair + len(question)) % 2
                assert wins[rater, question, screen.pair] == ((screen.first == 0) == (speaker == 2))


def test_files_can_be_in_any_order_and_of_a_crowd_platform(study, lines, tmp_path):
    expected = read_ratings([write_lines(tmp_path / "a.jsonl", lines)], study)
    strings = [{**row, "choice": str(row["choice"]), "worker": 3, "seconds": None} for row in lines[::-1]]
    half = len(strings) // 2
    paths = [tmp_path / "b.jsonl", tmp_path / "c.jsonl"]
    paths[0].write_bytes(b"\xef\xbb\xbf" + "\r\n".join(map(json.dumps, strings[:half])).encode())
    write_lines(paths[1], strings[half:])

    assert read_ratings(paths, study) == read_ratings(paths[::-1], study) == expected


def test_repeated_lines_and_repeated_pairs_count_once(study, lines, tmp_path):
    paths = [write_lines(tmp_path / "a.jsonl", lines[:100]), write_lines(tmp_path / "b.jsonl", lines[40:120])]
    read = read_ratings(paths, study)
    assert read.num_duplicates == 60
    assert len(read.ratings) + 3 * len(read.checks) == 120

    rows = [{**row, "rater": "one for all"} for row in answers(study, lambda *_: 1)]  # meets each pair in two sheets
    read = read_ratings([write_lines(tmp_path / "a.jsonl", rows)], study)
    assert len(read.ratings) == 3 * len(study.pairs) == 120
    assert read.num_repeated == 4 * 20 * 3 - 120
    first = {}
    for _, screen, _ in screens_of(study):
        if screen.asked is None:
            first.setdefault(screen.pair, screen.first)
    assert all(rating.wins == (first[rating.pair] == 1) for rating in read.ratings)


def test_a_check_is_passed_only_with_every_answer(study, lines, tmp_path):
    missed = next(tasks for _, screen, tasks in screens_of(study) if screen.asked is not None)
    rows = []
    for row in lines:
        if row["task"] == missed["humanness"]:
            row = {**row, "choice": 3 - row["choice"]}
        if row["task"] != missed["preference"]:  # not answered
            rows.append(row)
    read = read_ratings([write_lines(tmp_path / "a.jsonl", rows)], study)
    assert [passed for _, passed in read.checks] == [False] + [True] * 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"study": "0123"}, r"line 2: study is '0123', but the study's id is '\w{16}'; pass files of one study"),
        ({"task": "0123456789abcdef"}, "line 2: task is '0123456789abcdef', which is not in the study"),
        ({"rater": "  "}, "rater is blank"),
        ({"rater": "\x1b[31m", "choice": 9}, "choice is 9; pass 1 or 2"),
        ({"choice": True}, "choice is True"),
        ({"question": "humanness"}, "'humanness', but the task's question is 'preference'"),
        ({"seconds": -1}, "seconds is -1; pass a number from 0 to"),
        ({"seconds": 1e308}, r"seconds is 1e\+308"),
    ],
    ids=str,
)
def test_a_line_that_is_no_rating_is_rejected(study, lines, tmp_path, change, message):
    path = write_lines(tmp_path / "a.jsonl", [lines[3], {**lines[0], **change}])
    with pytest.raises(ValueError, match=message) as rejected:
        read_ratings([path], study)
    assert str(path) in str(rejected.value)
    assert str(rejected.value).isprintable()


def test_files_without_ratings_are_rejected(study, lines, tmp_path):
    path, other = tmp_path / "a.jsonl", write_lines(tmp_path / "b.jsonl", lines[3:6])
    for content, message in (
        (json.dumps(lines[0])[:-1] + ', "choice": 2}', "line 1 .*the key 'choice' occurs twice"),
        ('{"study": 1, "task": 1}\n', "line 1: rater, choice is missing; write an object with study, rater, task"),
        ("\n \n", "a.jsonl' has no ratings"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=message):
            read_ratings([other, path], study)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ({}, {"same_task": True}, r"rater 'rater-01' made a different choice in '.*a\.jsonl', line 5"),
        ({"session": "aa"}, {"session": "bb"}, "rater 'rater-01' used two browsers"),
        ({}, {"rater": "Rater-01 "}, "rater 'Rater-01 ' is also spelled 'rater-01'"),
        ({"session": "aa"}, {"rater": "ann", "session": "aa"}, "rater 'ann' used the same browser as rater 'rater-01'"),
    ],
)
def test_lines_that_contradict_each_other_are_rejected(study, lines, tmp_path, before, after, message):
    later = lines[4] | {"choice": 3 - lines[4]["choice"]} if "same_task" in after else lines[6] | after
    paths = [write_lines(tmp_path / "a.jsonl", [row | before for row in lines[:5]])]
    paths.append(write_lines(tmp_path / "b.jsonl", [later]))
    with pytest.raises(ValueError, match=rf"b\.jsonl', line 1: {message}"):
        read_ratings(paths, study)
