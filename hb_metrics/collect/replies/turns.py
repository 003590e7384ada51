"""Continues conversations with follow-up questions of the user.

A template has the same follow-up questions for all terms. With a cue, conversations share follow-up questions only if
they also have the same question. No follow-up question is repeated within a conversation. A conversation ends when the
model does not reply.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.collect.replies.requests import ReplyRequests
from hb_metrics.models.contexts import read_sentences, with_tag
from hb_metrics.run.replies import is_empty, prompt_ids

FOLLOW_UPS_FILE = Path(__file__).parent / "follow_ups.yaml"


def with_follow_ups(requests: ReplyRequests, templates: Sequence[str], turns: int) -> ReplyRequests:
    follow_ups = read_sentences(FOLLOW_UPS_FILE, "follow_ups")
    if turns - 1 > len(follow_ups):
        raise ValueError(
            f"turns is {turns}, which needs {turns - 1} different follow-up questions, but there are only "
            f"{len(follow_ups)}; set --turns to at most {len(follow_ups) + 1}"
        )
    asked: list[tuple[str, str | None]] = [(template, None) for template in templates]
    if requests.questions is not None:
        asked = list(zip(templates, requests.questions, strict=True))
    drawn = {}
    for template, question in dict.fromkeys(asked):
        order = seeded_generator(requests.seed, "follow-ups", f"{template}\x1f{question}").permutation(len(follow_ups))
        drawn[template, question] = [follow_ups[index] for index in order[: turns - 1]]
    return replace(requests, turns=turns, follow_ups=[drawn[key] for key in asked], all_follow_ups=list(follow_ups))


def next_turn(requests: ReplyRequests, replies: pa.Table) -> ReplyRequests:
    """Returns the requests for the next turn of every conversation with a reply.

    The ids of the requests are the ids of the replies, and the texts are the user's follow-up questions.
    """
    row_of = {identifier: row for row, identifier in enumerate(requests.ids)}
    rows, ids, texts, messages = [], [], [], []
    columns = replies["id"].to_pylist(), prompt_ids(replies["id"]).to_pylist(), replies["reply"].to_pylist()
    for identifier, prompt, reply in zip(*columns, strict=True):
        if is_empty(reply):
            continue
        row = row_of[identifier if identifier in row_of else prompt]
        *earlier, last = requests.messages[row]
        follow_up = requests.follow_ups[row][requests.turn - 1]
        said = last["content"] if requests.tag is None else last["content"].removesuffix(f" {requests.tag}")
        messages.append(
            [
                *earlier,
                {**last, "content": said},
                {"role": "assistant", "content": reply},
                {"role": "user", "content": with_tag(follow_up, requests.tag)},
            ]
        )
        rows.append(row)
        ids.append(identifier)
        texts.append(follow_up)
    return replace(requests.take(rows), ids=ids, texts=texts, messages=messages, turn=requests.turn + 1, questions=None)
