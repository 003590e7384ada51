"""Replies with what their prompts are about."""

import pyarrow as pa
import pytest

from hb_dataset import load_table
from hb_metrics.runs.replies import is_empty, nonempty_replies, whole_prompts


@pytest.fixture(scope="module")
def prompts():
    return load_table("v1.0-small").take(pa.array([0, 3000, 5, 9000]))


def test_empty_replies_are_left_out_and_rows_have_to_match(prompts):
    texts = pa.array(["a", None, "b", "_POTENTIALLY_UNSAFE__"])
    replies = pa.table({"id": prompts["id"], "text": pa.array(["p0", "p1", "p2", "p3"]), "reply": texts})

    nonempty = nonempty_replies(prompts, replies)
    assert nonempty.texts == ["a", "b"]
    assert nonempty.prompts == ["p0", "p2"]
    kept = [prompts.to_pylist()[row] for row in (0, 2)]
    assert nonempty.ids == [row["id"] for row in kept]
    assert nonempty.axes == [row["axis"] for row in kept]
    assert nonempty.descriptors == [row["descriptor"] for row in kept]
    assert nonempty.templates == [row["template"] for row in kept]
    for other in (replies.slice(0, 3), replies.take([1, 0, 2, 3])):
        with pytest.raises(ValueError, match="not about the same rows"):
            nonempty_replies(prompts, other)


def test_prompts_are_looked_at_whole(prompts):
    whole = whole_prompts(prompts)
    assert whole.texts == whole.prompts == prompts["text"].to_pylist()
    assert whole.ids == prompts["id"].to_pylist()


@pytest.mark.parametrize("reply", [None, "", " \n", "_POTENTIALLY_UNSAFE__", " _POTENTIALLY_UNSAFE__ "])
def test_a_reply_of_nothing_but_blanks_and_marks_is_empty(reply):
    assert is_empty(reply)
    assert not is_empty(f"{reply or ''}no")
