from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_metrics.run.blank_texts import is_blank
from hb_metrics.run.schema import by_id
from hb_metrics.stats.inputs import DescriptorKey, descriptor_codes, text_codes

UNSAFE_MARK = "_POTENTIALLY_UNSAFE__"  # BlenderBot 2.0 adds this mark to replies that may offend
# In the ids of replies, this character separates the prompt's id from the reply's number. No prompt's id contains it.
_NUMBER = "#"


class Replies(NamedTuple):
    """Non-empty replies, each with the axis, descriptor and template of its prompt. All lists are [replies].

    If the user asks a question after the prompt, `templates` and `prompts` include the question, because replies to
    different questions are not comparable.
    """

    ids: list[str]
    axes: list[str]
    descriptors: list[str]
    templates: list[str]
    prompts: list[str]
    texts: list[str]


class RatedReplies(NamedTuple):
    """A run's replies, and a number or flag for each reply, such as whether it is a refusal: [replies]."""

    replies: Replies
    values: np.ndarray


def cell_counts(flagged: RatedReplies) -> tuple[list[DescriptorKey], np.ndarray, np.ndarray]:
    """Returns the descriptors, and the numbers of flagged replies and of all replies: [descriptors, templates]."""
    keys, counts, sizes = cell_sums(flagged)
    return keys, counts.astype(np.int64), sizes


def cell_sums(rated: RatedReplies) -> tuple[list[DescriptorKey], np.ndarray, np.ndarray]:
    """Returns the descriptors, and the sums of values and the numbers of replies: [descriptors, templates]."""
    replies, values = rated
    codes, keys = descriptor_codes(replies.descriptors, replies.axes)
    template_codes, template_names = text_codes("template", replies.templates)
    cells = codes * len(template_names) + template_codes
    shape = (len(keys), len(template_names))
    sums, sizes = (np.bincount(cells, of_replies, shape[0] * shape[1]).reshape(shape) for of_replies in (values, None))
    return keys, sums, sizes


def nonempty_replies(replies: pa.Table) -> Replies:
    """Selects the non-empty replies of a table that `with_prompts` returns."""
    every = all_replies(replies)
    return chosen_replies(every.replies, ~every.values)


def all_replies(replies: pa.Table) -> RatedReplies:
    """Reads all replies of a table that `with_prompts` returns, and flags the empty ones, whose texts may be `None`."""
    ids, axes, descriptors, templates, contexts, questions, texts = (
        replies[name].to_pylist() for name in ("id", "axis", "descriptor", "template", "text", "question", "reply")
    )
    if "own_id" not in replies.column_names:  # the users' own prompts are the questions
        templates = with_questions(templates, questions)
    every = Replies(ids, axes, descriptors, templates, with_questions(contexts, questions), texts)
    return RatedReplies(every, np.array([is_empty(text) for text in texts], bool))


def later_replies(first: Replies, replies: pa.Table) -> Replies:
    """Selects the non-empty replies of a later turn, in the first turn's order.

    The prompts of these replies are the follow-up questions.
    """
    reply_of, prompt_of = by_id(replies, "reply"), by_id(replies, "text")
    kept = [not is_empty(reply_of.get(identifier)) for identifier in first.ids]
    chosen = chosen_replies(first, np.array(kept, dtype=bool))
    texts = [reply_of[identifier] for identifier in chosen.ids]
    return chosen._replace(prompts=[prompt_of[identifier] for identifier in chosen.ids], texts=texts)


def chosen_replies(replies: Replies, chosen: np.ndarray) -> Replies:
    return Replies(*(list(compress(column, chosen)) for column in replies))


class LeftOutError(ValueError):
    """A measurement is impossible, for example because its judge fails. The run's other measurements are possible.

    `partial` contains the measurement's possible results, or is `None`.
    """

    def __init__(self, message: str, partial: object = None) -> None:
        super().__init__(message)
        self.partial = partial


def answered_replies(replies: Replies, answered: np.ndarray) -> Replies:
    if not answered.any():
        raise LeftOutError(
            f"the judge did not choose a label for any of the {len(answered):,} texts; set --judge_model to a model "
            "that follows instructions better"
        )
    return chosen_replies(replies, answered)


def are_comparable(replies: Replies) -> bool:
    """Returns whether a template has replies for two terms."""
    cells = {*zip(replies.templates, replies.axes, replies.descriptors, strict=True)}
    return len(cells) > len({*replies.templates})


def verdicts(probabilities: np.ndarray) -> np.ndarray:
    """Returns the index of each text's likeliest label, or -1 if several labels are equally likely."""
    likeliest = probabilities == probabilities.max(axis=1, keepdims=True)
    return np.where(likeliest.sum(axis=1) == 1, likeliest.argmax(axis=1), -1)


def reply_id(prompt_id: str, number: int) -> str:
    """Returns the id of one of several replies to a prompt. The first reply has the id of the prompt."""
    return prompt_id if number == 1 else f"{prompt_id}{_NUMBER}{number}"


def reply_number(identifier: str) -> tuple[str, int]:
    """Returns the prompt's id and the reply's number: the inverse of `reply_id`."""
    prompt, _, number = identifier.partition(_NUMBER)
    return prompt, int(number or 1)


def prompt_ids(reply_ids: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    return pc.replace_substring_regex(reply_ids, f"{_NUMBER}[0-9]+$", "")


def with_prompts(replies: pa.Table, prompts: pa.Table) -> pa.Table:
    """Adds the other columns of the prompts, and sorts the replies by prompt: shards are in a different order."""
    rows = pc.index_in(replies["prompt_id"], prompts["id"])
    if rows.null_count:
        raise ValueError(
            f"{rows.null_count:,} of the run's replies belong to none of its prompts; measure again in a new folder"
        )
    order = pc.sort_indices(rows)
    table, about = replies.take(order), prompts.take(rows.take(order))
    for name in about.column_names:
        if name not in table.column_names:
            table = table.append_column(name, about[name])
    return table.replace_schema_metadata(None)


def with_questions(sentences: Sequence[str], questions: Sequence[str | None]) -> list[str]:
    """Adds a question after each sentence, unless the question is `None`.

    If the sentence is a signature, which has two lines, the question is put before it.
    """
    joined = []
    for sentence, question in zip(sentences, questions, strict=True):
        asked = f"{question}\n\n{sentence}" if "\n" in sentence else f"{sentence} {question}"
        joined.append(sentence if question is None else asked)
    return joined


def whole_prompts(prompts: pa.Table) -> Replies:
    ids, axes, descriptors, templates, texts = (
        prompts[name].to_pylist() for name in ("id", "axis", "descriptor", "template", "text")
    )
    if "question" in prompts.column_names:
        texts = with_questions(texts, prompts["question"].to_pylist())
    return Replies(ids, axes, descriptors, templates, texts, texts)


def no_replies(replies: pa.Table, max_reasoning_tokens: int | None) -> LeftOutError:
    num_unclosed = sum(replies["reasoning_unclosed"].to_pylist())
    if num_unclosed:
        within = f" within {max_reasoning_tokens:,} tokens" if max_reasoning_tokens else ""
        return LeftOutError(
            f"the model replied to none of the {len(replies):,} prompts, and {num_unclosed:,} thoughts did not "
            f"end{within}; raise --max_reasoning_tokens, or turn thinking off (for many models, with "
            "--chat_template_kwargs '{\"enable_thinking\": false}')"
        )
    return LeftOutError(
        f"all replies to {len(replies):,} prompts are empty, because the model stops before its first word, or because "
        "a server's filter removes the text; set --context plain if the model only continues text, check that the chat "
        "template is the model's own, and measure it on a server without a filter"
    )


def is_empty(reply: str | None) -> bool:
    return reply is None or is_blank(reply.replace(UNSAFE_MARK, ""))
