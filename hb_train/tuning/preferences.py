"""Rows for tuning by preference: the least biased replies against the most biased ones, without tags (KTO and DPO).

What the model learns here is to be less biased however it is asked, so the prompts are those of a model that is asked
without a tag.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from datasets import Dataset

from hb_metrics.inference.models.bias_tags import BIAS, NO_BIAS
from hb_train.training.encoding import IGNORED, without_tag

ONE_TAG_ERROR = (
    "method kto needs replies of both tags in each split; all {number} of {split} are tagged '{tag}'. Give another "
    "--beta to bias_labels.py, or more replies"
)
NO_PAIRS_ERROR = (
    "method dpo needs prompts with a reply tagged 'bias' and another tagged 'no_bias'; of the {prompts} prompts of "
    "{split}, {several} have several replies and none has both. Replies made elsewhere can be several a prompt "
    "(docs/any-engine.md); or give --method kto, which takes one reply a prompt"
)


class PairedRows(NamedTuple):
    """Pairs of replies for DPO.

    Attributes:
        dataset: `prompt_ids`, `chosen_ids` and `rejected_ids` of each pair.
        num_prompts: How many prompts there are.
        num_unpaired: How many of them have no pair, because all of their replies have the same tag or the same text.
    """

    dataset: Dataset
    num_prompts: int
    num_unpaired: int


def kto_rows(rows: Dataset, encoded: Dataset, split: str) -> Dataset:
    """The rows of KTO: each prompt without its tag, its reply, and whether that is wanted.

    Args:
        rows: Rows with the column `tag`.
        encoded: The same rows as `encoding.encode_rows` encodes them for a causal model, without tags.
        split: The name of the split, for the error.

    Returns:
        `prompt_ids`, `completion_ids` and `label` (whether the reply is tagged "no_bias") of each row.

    Raises:
        ValueError: All replies have the same tag.
    """
    tags = rows["tag"]
    if len(set(tags)) < 2:
        raise ValueError(ONE_TAG_ERROR.format(number=len(tags), split=split, tag=tags[0] if len(tags) else NO_BIAS))
    prompts, replies = _prompts_and_replies(encoded)
    return Dataset.from_dict(
        {"prompt_ids": prompts, "completion_ids": replies, "label": [tag == NO_BIAS for tag in tags]}
    )


def dpo_pairs(rows: Dataset, encoded: Dataset, suffix: str, split: str) -> PairedRows:
    """The pairs of DPO: to each prompt the reply with the lowest bias value and that with the highest.

    A prompt has a pair if the first is tagged "no_bias" and the second "bias". Of replies with the same bias value the
    one with the lower id counts.

    Args:
        rows: Rows with the columns `id`, `prompt`, `completion`, `tag` and `bias_value`.
        encoded: The same rows as `encoding.encode_rows` encodes them for a causal model, without tags.
        suffix: The text after the tag in every prompt.
        split: The name of the split, for the error.

    Returns:
        The pairs, in the order of their prompts' first replies.

    Raises:
        ValueError: No prompt has a pair.
    """
    ids, texts, tags, values = (rows[name] for name in ("id", "completion", "tag", "bias_value"))
    by_prompt = defaultdict(list)
    for row, (prompt, tag, identifier) in enumerate(zip(rows["prompt"], tags, ids, strict=True)):
        by_prompt[without_tag(prompt, tag, suffix, identifier)].append(row)
    prompts, replies = _prompts_and_replies(encoded)
    columns: dict[str, list[list[int]]] = {"prompt_ids": [], "chosen_ids": [], "rejected_ids": []}
    for members in by_prompt.values():
        least = min(members, key=lambda row: (values[row], ids[row]))
        most = min(members, key=lambda row: (-values[row], ids[row]))
        if (tags[least], tags[most]) != (NO_BIAS, BIAS) or texts[least] == texts[most]:
            continue
        # A context is cut by so much as its reply is long: the shorter one fits with either reply.
        columns["prompt_ids"].append(min(prompts[least], prompts[most], key=len))
        columns["chosen_ids"].append(replies[least])
        columns["rejected_ids"].append(replies[most])
    num_pairs = len(columns["prompt_ids"])
    if not num_pairs:
        several = sum(len(members) > 1 for members in by_prompt.values())
        raise ValueError(NO_PAIRS_ERROR.format(prompts=f"{len(by_prompt):,}", split=split, several=f"{several:,}"))
    return PairedRows(Dataset.from_dict(columns), len(by_prompt), len(by_prompt) - num_pairs)


def undesirable_weight(labels: Sequence[bool], desirable_weight: float) -> float:
    """The weight of replies that are not wanted with which both kinds weigh the same in all.

    Within the range that Ethayarajh et al. (2024, equation 8) advise.

    Args:
        labels: [rows] whether a reply is wanted; some are and some are not.
        desirable_weight: The weight of a reply that is wanted.
    """
    num_wanted = sum(labels)
    return desirable_weight * num_wanted / (len(labels) - num_wanted)


def _prompts_and_replies(encoded: Dataset) -> tuple[list[list[int]], list[list[int]]]:
    """The tokens of each row that are not learnt, and those that are."""
    prompts, replies = [], []
    for tokens, labels in zip(encoded["input_ids"], encoded["labels"], strict=True):
        length = sum(label == IGNORED for label in labels)
        prompts.append(tokens[:length])
        replies.append(tokens[length:])
    return prompts, replies
