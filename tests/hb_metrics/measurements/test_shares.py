import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from hb_metrics.measurements.means import reply_mean_changes
from hb_metrics.measurements.shares import (
    TurnShares,
    group_figures,
    group_shares,
    reply_share_changes,
    turn_shares,
    uneven_sentence,
    uneven_turn_sentence,
)
from hb_metrics.reply_checks.refusal_shares import refusal_shares
from hb_metrics.run.replies import RatedReplies, Replies

GROUPS = {f"{group}{number}": group for group in ("a", "b") for number in range(6)}


def made(axis="names", questions=12, groups=GROUPS):
    cells = [(name, f"question {number}") for name in groups for number in range(questions)]
    names, templates = map(list, zip(*cells, strict=True))
    prompts = pa.table({"axis": [axis] * len(names), "descriptor": names, "bucket": [groups[name] for name in names]})
    return Replies(templates, [axis] * len(names), names, templates, templates, templates), prompts


def test_shares_by_group_have_a_difference_with_an_interval():
    replies, prompts = made()
    shares = np.array([{"a": 0.2, "b": 0.7}[GROUPS[name]] for name in replies.descriptors])
    flags = np.random.default_rng(0).random(len(shares)) < shares
    found = group_shares(RatedReplies(replies, flags), prompts)
    table = flags.reshape(2, 6 * 12)
    assert [found.by_group[group].share for group in "ab"] == pytest.approx(table.mean(axis=1).tolist())
    *rows, gap = group_figures("Refusals", found)
    assert [row.label for row in rows] == ["b", "a"]
    assert (gap.value, gap.detail) == (pytest.approx(np.ptp(table.mean(axis=1))), "b compared with a")
    assert 0 < gap.interval[0] < 0.5 < gap.interval[1]


def test_shares_of_groups_differ_by_their_difference_although_some_prompts_have_more_replies():
    replies, prompts = made()
    is_high = np.array([GROUPS[name] == "a" for name in replies.descriptors])
    is_first = np.array([template == "question 0" for template in replies.templates])
    flags = np.random.default_rng(0).random(len(is_high)) < np.where(is_high, 0.6, 0.2)
    rows = np.repeat(np.arange(len(flags)), np.where(is_first & ~is_high, 20, 1))
    flags[is_first & ~is_high] = True
    repeated = Replies(*([column[row] for row in rows] for column in replies[:6]))
    found = group_shares(RatedReplies(repeated, flags[rows]), prompts)
    assert found.largest.value == pytest.approx(found.by_group["a"].share - found.by_group["b"].share)
    assert found.by_group["b"].share == pytest.approx(flags[~is_high].mean())


@pytest.mark.parametrize(("num_old", "num_young", "is_named"), [(5, 2, False), (10, 0, True)])
def test_shares_are_tested_at_each_turn(num_old, num_young, is_named):
    """The test between two terms in one template is Fisher's exact test, except for the draws."""
    ids, terms = [f"{row}" for row in range(96)], ["old"] * 32 + ["young"] * 64
    replies = Replies(ids, ["age"] * 96, terms, ["t"] * 96, ids, ids)
    first, flags = np.tile([True, False, False, False], 24), np.zeros(96, bool)
    flags[[*range(num_old), *range(32, 32 + num_young)]] = True
    prompts = pa.table({"axis": ["age"] * 96, "descriptor": terms, "bucket": terms})
    shares = turn_shares([RatedReplies(replies, first), RatedReplies(replies, flags)], prompts)
    expected = stats.fisher_exact([[num_old, 32 - num_old], [num_young, 64 - num_young]]).pvalue
    assert shares.p_values == pytest.approx([1, expected], abs=0.015)
    sentence = uneven_turn_sentence("Refusals", shares, 0.01)
    whole = "At turn 2, refusals are more frequent for some people (p < 0.001), above all for old."
    assert sentence == (whole if is_named else "")


@pytest.mark.parametrize("p_values", [None, [0.001], [0.001, None]])
def test_no_difference_is_named_if_no_later_turn_was_tested(p_values):
    assert uneven_turn_sentence("Refusals", TurnShares([], None, p_values)) == ""
    assert uneven_turn_sentence("Refusals", None) == ""


def test_a_term_in_a_template_that_is_refused_for_all_is_no_example():
    rng, cells = np.random.default_rng(0), []
    for term in range(12):
        template, share = ("hard", 0.9) if term in (10, 11) else ("easy", 0.4 if term == 0 else 0.02)
        cells += [(f"t{term}", template, share)] * 60
    terms, templates, shares = map(list, zip(*cells, strict=True))
    ids = [f"{row}" for row in range(len(cells))]
    replies = Replies(ids, ["age"] * len(ids), terms, templates, ids, ids)
    shares = refusal_shares(RatedReplies(replies, rng.random(len(ids)) < shares), 0.95)
    assert "above all for t0 (" in uneven_sentence("Refusals", shares, None)


def test_no_pair_of_groups_is_named_if_the_test_shows_another_pair():
    """Group c is refused most, but has few names, which differ much; group b differs clearly from a."""
    rng, of_names = np.random.default_rng(0), {}
    for group, number, low, high in (("a", 25, 0.1, 0.1), ("b", 25, 0.3, 0.3), ("c", 4, 0.0, 0.9)):
        of_names |= {f"{group}{name}": share for name, share in enumerate(np.linspace(low, high, number))}
    replies, prompts = made(questions=40, groups={name: name[0] for name in of_names})
    flagged = RatedReplies(replies, rng.random(len(prompts)) < [of_names[name] for name in replies.descriptors])
    shares, groups = refusal_shares(flagged, 0.95), group_shares(flagged, prompts)
    assert (groups.largest.high, groups.largest.low) == ("c", "a")
    assert uneven_sentence("Refusals", shares, groups).startswith(
        "Refusals are more frequent for some groups of names than for others (p "
    )


@pytest.mark.parametrize("flag", [False, True])
def test_groups_are_not_tested_if_all_or_no_replies_are_flagged(flag):
    replies, prompts = made()
    assert group_shares(RatedReplies(replies, np.full(len(prompts), flag)), prompts).largest.p_value is None


def test_few_questions_have_no_interval_and_terms_no_groups():
    replies, prompts = made(questions=5)
    flags = np.arange(len(replies.ids)) % 2 == 0
    gap = group_figures("Refusals", group_shares(RatedReplies(replies, flags), prompts))[-1]
    assert gap.interval is None
    assert "fewer than 8 questions" in gap.no_interval
    replies, prompts = made("age")
    assert group_shares(RatedReplies(replies, flags), prompts) is None
    assert group_figures("Refusals", None) == []


CELLS = np.repeat(np.arange(50), 4)  # of each reply: 10 terms in 5 templates, of which half are high


def lacking(kind, rng):
    """The prompts' numbers to which each of two runs replied."""
    numbers = np.arange(len(CELLS))
    if kind == "high cells":  # of whose four replies, the second run has the first
        return numbers, numbers[(CELLS % 2 == 0) | (numbers % 4 == 0)]
    if kind == "at random":
        return [numbers[rng.random(len(numbers)) < 0.8] for _ in range(2)]
    if kind == "fewer replies":
        return numbers[numbers % 4 < 2], numbers
    return numbers, numbers + len(numbers)  # other prompts


@pytest.mark.parametrize(("sets", "least"), [(40, 0.85), pytest.param(1500, 0.93, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["high cells", "at random", "fewer replies", "other prompts"])
@pytest.mark.parametrize("changes", [reply_share_changes, reply_mean_changes])
def test_replies_that_one_run_lacks_are_no_change(changes, kind, sets, least):
    rng, inside, widths = np.random.default_rng(0), 0, []
    for _ in range(sets):
        runs = []
        for numbers in lacking(kind, rng):
            cells = CELLS[numbers % len(CELLS)]
            is_high = cells % 2 == 1
            values = rng.random(len(cells)) < np.where(is_high, 0.9, 0.1)
            if changes is reply_mean_changes:
                values = np.where(is_high, 100, 10) * rng.lognormal(0, 0.1, len(cells))
            terms, templates = [[f"{code}" for code in codes] for codes in (cells % 10, cells // 10)]
            ids = [f"{number}" for number in numbers]
            runs.append(RatedReplies(Replies(ids, ["age"] * len(ids), terms, templates, ids, ids), values))
        change = changes("Replies", *runs).by_name["Replies"]
        inside += change.interval[0] <= 0 <= change.interval[1]
        widths.append(np.diff(change.interval).item())
    assert least <= inside / sets
    assert np.median(widths) < (0.2 if changes is reply_share_changes else 5.5)
