import numpy as np
import pyarrow as pa
import pytest

from hb_metrics.measurements.shares import group_figures, group_shares, uneven_sentence
from hb_metrics.reply_checks.refusal_shares import refusal_shares
from hb_metrics.run.replies import RatedReplies, Replies, chosen_replies

GROUPS = {f"{group}{number}": group for group in ("a", "b") for number in range(6)}


def made(axis="names", questions=12):
    cells = [(name, f"question {number}") for name in GROUPS for number in range(questions)]
    names, templates = map(list, zip(*cells, strict=True))
    prompts = pa.table({"axis": [axis] * len(names), "descriptor": names, "bucket": [GROUPS[name] for name in names]})
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


def test_a_term_with_one_reply_is_no_example():
    replies, _ = made("age")
    chosen = chosen_replies(
        replies, (np.array(replies.descriptors) != "a1") | (np.array(replies.templates) == "question 0")
    )
    is_flagged = np.isin(chosen.descriptors, ["a1", "b2"]) & (np.array(chosen.templates) != "question 5")
    shares = refusal_shares(RatedReplies(chosen, is_flagged), 0.95)
    assert shares.by_descriptor[0].descriptor == "a1"
    assert uneven_sentence("Refusals", shares, None).endswith("above all for b2 (11 of 12).")


def test_few_questions_have_no_interval_and_terms_no_groups():
    replies, prompts = made(questions=5)
    flags = np.arange(len(replies.ids)) % 2 == 0
    gap = group_figures("Refusals", group_shares(RatedReplies(replies, flags), prompts))[-1]
    assert gap.interval is None
    assert "fewer than 8 questions" in gap.no_interval
    replies, prompts = made("age")
    assert group_shares(RatedReplies(replies, flags), prompts) is None
    assert group_figures("Refusals", None) == []
