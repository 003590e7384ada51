import json

import pytest

from hb_metrics.human_eval.ratings import read_ratings
from hb_metrics.human_eval.study import Design
from tests.hb_metrics.human_eval.made_study import answers, attentive, made_study, screens_of, write_lines


@pytest.fixture(scope="module")
def study():
    return made_study()


@pytest.fixture(scope="module")
def lines(study):
    return answers(study, lambda rater, screen, question: attentive(screen, 1 + (screen.pair + len(question)) % 2))


def test_ratings_are_those_of_the_second_run_whichever_speaker_it_was(study, lines, tmp_path):
    read = read_ratings([write_lines(tmp_path / "a.jsonl", lines)], study)

    assert len(read.ratings) == 4 * 20 * 3
    assert [check.passed for check in read.checks] == [True] * 8
    assert (read.num_duplicates, read.num_repeated) == (0, 0)
    expected = {
        (rater, question, screen.pair): (screen.first == 0) == (1 + (screen.pair + len(question)) % 2 == 2)
        for rater, screen in screens_of(study)
        if screen.asked is None
        for question in screen.tasks
    }
    assert {(rating.rater, rating.question, rating.pair): rating.wins for rating in read.ratings} == expected


def test_files_can_be_in_any_order_and_of_a_crowd_platform(study, lines, tmp_path):
    expected = read_ratings([write_lines(tmp_path / "a.jsonl", lines)], study)
    strings = [{**row, "choice": str(row["choice"]), "worker": 3, "seconds": None} for row in lines[::-1]]
    half = len(strings) // 2
    paths = [tmp_path / "b.jsonl", tmp_path / "c.jsonl"]
    paths[0].write_bytes(b"\xef\xbb\xbf" + "\r\n".join(map(json.dumps, strings[:half])).encode())
    write_lines(paths[1], strings[half:])

    assert read_ratings(paths, study) == expected
    assert read_ratings(paths[::-1], study) == expected


def test_what_is_there_twice_is_counted_once_and_what_is_missing_is_missing(study, lines, tmp_path):
    paths = [write_lines(tmp_path / "a.jsonl", lines[:100]), write_lines(tmp_path / "b.jsonl", lines[40:120])]
    read = read_ratings(paths, study)

    assert read.num_duplicates == 60
    assert len(read.ratings) + 3 * len(read.checks) == 120


def test_a_pair_that_a_crowd_rater_met_in_two_sheets_counts_once(study, tmp_path):
    rows = [{**row, "rater": "one for all"} for row in answers(study, lambda *_: 1)]
    read = read_ratings([write_lines(tmp_path / "a.jsonl", rows)], study)

    assert len(read.ratings) == 3 * len(study.pairs) == 120
    assert read.num_repeated == 4 * 20 * 3 - 120
    first = {}
    for _, screen in screens_of(study):
        if screen.asked is None:
            first.setdefault(screen.pair, screen.first)
    assert all(rating.first == first[rating.pair] for rating in read.ratings)


def test_a_check_is_passed_only_with_every_answer(study, tmp_path):
    missed = next(screen for _, screen in screens_of(study) if screen.asked is not None)
    wrong_task = missed.tasks["humanness"]
    rows = answers(study, lambda rater, screen, question: attentive(screen, 1))
    for row in rows:
        if row["task"] == wrong_task:
            row["choice"] = 3 - row["choice"]
    rows = [row for row in rows if row["task"] != missed.tasks["preference"]]
    read = read_ratings([write_lines(tmp_path / "a.jsonl", rows)], study)

    assert [check.passed for check in read.checks] == [False] + [True] * 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"study": "0123"},
            r"line 2: it is of study '0123', and this is study '\w{16}'; give the ratings of one study",
        ),
        ({"study": ["x" * 500]}, r"it is of study \['x{50,60}…, and"),
        ({"task": "0123456789abcdef"}, "line 2: task '0123456789abcdef' is none of the study's; give the ids"),
        ({"task": 7}, "task is 7; give a text"),
        ({"rater": "  "}, "rater is '  '; give a text that is not empty"),
        ({"rater": None}, "rater is None; give a text"),
        ({"rater": "\x1b[31m", "choice": 9}, "choice is 9; allowed: 1 or 2, the number of the speaker chosen"),
        ({"choice": True}, "choice is True"),
        ({"choice": 1.0}, r"choice is 1\.0"),
        ({"choice": [1]}, r"choice is \[1\]"),
        ({"choice": None}, "choice is None"),
        ({"question": "humanness"}, "question is 'humanness', and task '.*' asks about 'preference'"),
        ({"session": 3}, "session is 3; give a text"),
        ({"rater": "\ud800"}, r"rater is '.ud800'; give a text"),
        ({"seconds": -1}, "seconds is -1; give a number from 0 to 1,000,000,000, or leave it out"),
        ({"seconds": 1e308}, r"seconds is 1e\+308"),
        ({"seconds": float("nan")}, "seconds is nan"),
        ({"seconds": "4"}, "seconds is '4'"),
    ],
    ids=str,
)
def test_a_line_that_is_no_rating_of_the_study_is_refused(study, lines, tmp_path, change, message):
    assert lines[0]["task"] == study.sheets["rater-01"][0].tasks["preference"]
    path = write_lines(tmp_path / "a.jsonl", [lines[3], {**lines[0], **change}])
    with pytest.raises(ValueError, match=message) as refused:
        read_ratings([path], study)
    assert "\n" not in str(refused.value)
    assert "\x1b" not in str(refused.value)
    assert str(path) in str(refused.value)


def test_files_that_are_none_are_refused(study, lines, tmp_path):
    path = tmp_path / "a.jsonl"
    whole = "".join(json.dumps(row) + "\n" for row in lines[:3])
    for content, message in (
        (whole[:-20], r"line 3: it is not JSON \(.*\); the file may be half-written: save it again"),
        ("[1]\n", "line 1: it is no object of JSON with the fields study, rater, task, choice"),
        (
            json.dumps({"study": study.id, "rater": "a"}),
            "it has no task, choice; each line has study, rater, task, choice",
        ),
        ("[" * 100_000, "line 1: it is not JSON"),
        ('{"choice": ' + "9" * 5000 + "}", "line 1: it is not JSON"),
        ("", "there are no ratings in '.*a.jsonl'"),
        ("\n \n", "there are no ratings"),
        (b"\xff\xfe\x00", "is no text in UTF-8"),
    ):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        for paths in ([path], [write_lines(tmp_path / "b.jsonl", lines[3:6]), path]):  # also beside a file with ratings
            with pytest.raises(ValueError, match=message):
                read_ratings(paths, study)
    with pytest.raises(ValueError, match=r"is a folder; give the files with ratings in it"):
        read_ratings([tmp_path], study)
    with pytest.raises(FileNotFoundError):
        read_ratings([tmp_path / "nowhere.jsonl"], study)


def test_answers_that_contradict_each_other_are_refused(study, lines, tmp_path):
    before = write_lines(tmp_path / "a.jsonl", lines[:5])
    after = write_lines(tmp_path / "b.jsonl", [*lines[:4], {**lines[4], "choice": 3 - lines[4]["choice"]}])
    with pytest.raises(
        ValueError, match=r"b\.jsonl', line 5: rater 'rater-01' chose \d for task .* in '.*a\.jsonl', line 5"
    ):
        read_ratings([before, after], study)


def test_two_browsers_of_one_rater_are_refused(study, lines, tmp_path):
    rows = [{**row, "session": "aa"} for row in lines[:5]]
    others = [{**row, "session": "bb"} for row in lines[5:9]]
    with pytest.raises(ValueError, match=r"b\.jsonl', line 1: rater 'rater-01' used two browsers, .*a\.jsonl"):
        read_ratings([write_lines(tmp_path / "a.jsonl", rows), write_lines(tmp_path / "b.jsonl", others)], study)


def test_one_person_is_not_counted_as_two(study, lines, tmp_path):
    """By hand a name is changed in some lines, or all of a rater's are there again under another name."""
    for change, message in (
        ({"rater": "Rater-01 "}, r"line 6: rater 'Rater-01 ' is also written 'rater-01'"),
        ({"rater": "ann", "session": "aa"}, r"line 6: rater 'ann' has the browser of rater 'rater-01'"),
    ):
        rows = [{**row, "session": "aa"} if "session" in change else row for row in lines[:5]]
        path = write_lines(tmp_path / "a.jsonl", [*rows, {**lines[6], **change}])
        with pytest.raises(ValueError, match=message):
            read_ratings([path], study)


def test_ratings_of_a_study_with_other_sides_are_not_taken(lines, tmp_path):
    other = made_study(design=Design(4, 20, 2, 2, 1))
    with pytest.raises(ValueError, match="give the ratings of one study"):
        read_ratings([write_lines(tmp_path / "a.jsonl", lines)], other)
