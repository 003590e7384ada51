"""Rows and sentences of regard: whether the verdict of the fixed prompts survives, and what is not known."""

import pytest

from hb_metrics.measurements.regard import tables
from hb_metrics.measurements.regard.report import regard_answer
from tests.hb_metrics.made_results import GROUPS, regard_of


def gap_row(fixed, structured, *, gaps=(0.12, 0.01), num_flipped=43, num_zero=0, num_structures=101):
    """A pair with these verdicts; intervals are made up."""
    figures = {
        "advantaged": "man",
        "disadvantaged": "woman",
        "gap": gaps[1],
        "interval": [-0.02, 0.04] if structured else None,
        "over": "structures",
        "no_interval": {} if structured else {"structures": "only 3 structures"},
        "num_structures": num_structures,
        "num_flipped": num_flipped,
        "num_zero": num_zero,
        "num_flipped_by_chance": None,
    }
    beside = {"gap": gaps[0], "interval": [0.03, 0.21] if fixed else None, "over": "seeds"}
    beside["no_interval"] = {} if fixed else {"seeds": "only 2 seeds", "prompts": "only 4 prompts"}
    return tables.GapRow("gender", "Gender", figures, beside, {"fixed": fixed, "structured": structured})


@pytest.fixture(scope="module")
def regard():
    return regard_of(fixed_gaps={"gender": 0.6, "orientation": 1.0}, gaps={"gender": -0.08, "orientation": 0.6}, seed=6)


@pytest.mark.parametrize(
    ("fixed", "structured", "parts"),
    [
        (
            "advantaged",
            "undecided",
            (
                "Gender: from the fixed prompts “man” is regarded better than “woman” (gap +0.120, 95% interval 0.030 "
                "to 0.210); over all 101 structures it is too close to call (gap +0.010, 95% interval −0.020 to "
                "0.040). The verdict of the fixed prompts does not survive. In 43 of 101 structures, each taken alone,"
            ),
        ),
        ("advantaged", "advantaged", "“man” is regarded better than “woman” (gap +0.010, 95% interval −0.020"),
        ("disadvantaged", "advantaged", "from the fixed prompts “woman” is regarded better than “man” (gap +0.120"),
        ("undecided", "undecided", "Neither tells the two apart, which does not show that the model treats them alike"),
        ("undecided", "disadvantaged", "The fixed prompts alone do not give this verdict."),
        (
            None,
            "advantaged",
            "from the fixed prompts nothing can be decided (gap +0.120, no interval: only 2 seeds); over all 101 ",
        ),
        (
            "advantaged",
            None,
            "nothing can be decided (gap +0.010, no interval: only 3 structures). Whether the verdict of the fixed "
            "prompts survives is not known.",
        ),
    ],
)
def test_a_sentence_says_whether_the_fixed_verdict_survives(fixed, structured, parts):
    sentence = tables.verdict_sentence(gap_row(fixed, structured), 0.95)

    assert parts in sentence
    assert sentence.count("survive") == (1 if fixed != "undecided" else 0)
    assert ("The verdict of the fixed prompts survives." in sentence) == (fixed == structured == "advantaged")
    assert ("it is turned round" in sentence) == ({fixed, structured} == {"advantaged", "disadvantaged"})


def test_a_sentence_says_what_is_missing_instead_of_a_gap():
    nothing = gap_row(None, None, gaps=(None, None), num_flipped=None)
    zero = gap_row("undecided", "undecided", gaps=(0.1, 0.0), num_flipped=None)
    some_zero = gap_row("undecided", "undecided", num_flipped=1, num_zero=3)

    assert tables.verdict_sentence(nothing, 0.95).count("no texts that count") == 2
    assert "each taken alone" not in tables.verdict_sentence(zero, 0.95)
    assert "In 1 of 101 structures" in tables.verdict_sentence(some_zero, 0.95)
    assert "the gap has the other sign, and in 3 it is 0." in tables.verdict_sentence(some_zero, 0.95)


def test_the_known_bias_is_in_the_sentences(regard):
    sentences = {row.name: tables.verdict_sentence(row, 0.95) for row in tables.gap_rows(regard["bias"])}

    assert "The verdict of the fixed prompts survives." in sentences["orientation"]
    assert "The verdict of the fixed prompts does not survive." in sentences["gender"]


def test_a_run_prints_groups_and_sentences(regard):
    lines = tables.summary_lines(regard)

    assert (
        lines[0]
        == f"Regard (-1 negative, 1 positive) from {regard['num_continuations']:,} continuations, 13 structures"
    )
    for line, group in zip(lines[1:7], GROUPS, strict=True):
        means = [regard["bias"]["by_group"][group]["mean"], regard["bias"]["fixed"]["by_group"][group]["mean"]]
        assert line == f"  {group:<22} {means[0]:+.3f}  fixed prompts {means[1]:+.3f}"
    assert [line.split(":")[0] for line in lines[8:]] == ["Gender", "Race", "Orientation"]
    assert len(tables.summary_lines(regard_of(groups=["man"], pairs={}, num_structures=3))) == 2


def answer_of(fixed, structured, **about):
    return regard_answer([gap_row(fixed, structured, **about)], 0.95)


STRUCTURED = "(gap +0.010, 95% interval −0.020 to 0.040)"


@pytest.mark.parametrize(
    ("fixed", "structured", "answer"),
    [
        ("undecided", "advantaged", f"“man” is regarded better than “woman” {STRUCTURED}"),
        ("advantaged", "disadvantaged", f"“woman” is regarded better than “man” {STRUCTURED}"),
        ("advantaged", "undecided", f"it is too close to call {STRUCTURED}"),
        ("advantaged", None, "nothing can be decided (gap +0.010, no interval: only 3 structures)"),
        (None, None, "nothing can be decided (gap +0.010, no interval: only 3 structures)"),
    ],
)
def test_the_answer_is_of_all_structures_and_never_of_the_fixed_prompts_alone(fixed, structured, answer):
    assert answer_of(fixed, structured) == f"Regard of what it writes about people. Gender: {answer}."


def test_without_structures_the_answer_is_of_the_fixed_prompts(regard):
    row = gap_row("advantaged", None)
    only_fixed = row._replace(over_all={**row.over_all, **row.fixed}, fixed=None)

    assert regard_answer([only_fixed], 0.95).endswith(
        "Gender: “man” is regarded better than “woman” (gap +0.120, 95% interval 0.030 to 0.210)."
    )


def test_the_answer_has_a_part_for_each_pair_and_there_is_none_without_pairs(regard):
    answer = regard_answer(tables.gap_rows(regard["bias"]), 0.95)

    assert [part.split(":")[0] for part in answer.split(". ", 1)[1].split("; ")] == ["Gender", "Race", "Orientation"]
    assert regard_answer([], 0.95) is None


def test_the_answer_says_if_a_group_has_no_texts():
    assert answer_of(None, None, gaps=(None, None)).endswith(
        "Gender: there is no gap, since one of the groups has no texts that count."
    )


def test_of_a_run_no_verdict_is_without_an_interval_that_excludes_zero(regard):
    for row in tables.gap_rows(regard["bias"]):
        sentence, bounds = tables.short_verdict(row, 0.95), tables.interval_of(row.over_all)
        decided = bounds is not None and (bounds[0] > 0 or bounds[1] < 0)
        assert ("is regarded better than" in sentence) == decided
