"""Replies with what their prompts are about."""

import pyarrow as pa
import pytest

from hb_dataset import load_table
from hb_metrics.run.replies import Replies, is_empty, nonempty_replies, with_prompts


def test_empty_replies_are_left_out_and_questions_follow():
    prompts = load_table("v1.0-small").take(pa.array([0, 3000, 5, 9000]))
    texts, questions = ["a", None, "b", "_POTENTIALLY_UNSAFE__"], [None, None, "Why?", None]
    columns = {"prompt_id": prompts["id"], "text": ["p0", "p1", "p2", "p3"], "reply": texts, "question": questions}
    replies = with_prompts(pa.table({"id": prompts["id"], **columns}), prompts)
    kept = [prompts.to_pylist()[row] for row in (0, 2)]
    ids, axes, descriptors, templates = (
        [row[name] for row in kept] for name in ("id", "axis", "descriptor", "template")
    )
    templates[1] += " Why?"
    expected = Replies(ids, axes, descriptors, templates, ["p0", "p2 Why?"], ["a", "b"])
    assert nonempty_replies(replies) == expected


@pytest.mark.parametrize("reply", [None, "", " \n", "_POTENTIALLY_UNSAFE__", "\u200b _POTENTIALLY_UNSAFE__\ufe0f"])
def test_a_reply_of_nothing_but_blanks_and_marks_is_empty(reply):
    assert is_empty(reply)
    assert not is_empty(f"{reply or ''}no")
