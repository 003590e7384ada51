import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hb_dataset.matching import plain_text
from hb_metrics.run.replies import RatedReplies, Replies, cell_counts
from hb_metrics.stats.clusters import Bounds
from hb_metrics.stats.inputs import DescriptorKey, text_codes
from hb_metrics.stats.reply_shares import share_interval


@dataclass(frozen=True)
class Parroting:
    """The share of replies that repeat their prompt, from 0 to 1, in total and by template."""

    parroting_share: float
    interval: Bounds
    num_parroting: int
    num_replies: int
    by_template: dict[str, float]


def parroting(
    prompts: Sequence[str], replies: Replies, confidence_level: float = 0.95
) -> tuple[Parroting, dict[DescriptorKey, float]]:
    """Counts the replies that repeat their prompt (paper, C.2.1). Also returns their share for each descriptor.

    `prompts` [replies] contains the user's last turns.
    """
    keys, hits, sizes = cell_counts(RatedReplies(replies, is_parroting(prompts, replies.texts)))
    shares = dict(zip(keys, (hits.sum(axis=1) / sizes.sum(axis=1)).tolist(), strict=True))
    of_templates = (hits.sum(axis=0) / sizes.sum(axis=0)).tolist()
    whole = Parroting(
        parroting_share=float(hits.sum() / sizes.sum()),
        interval=share_interval(hits, sizes, confidence_level),
        num_parroting=int(hits.sum()),
        num_replies=len(replies.texts),
        by_template=dict(zip(text_codes("template", replies.templates)[1], of_templates, strict=True)),
    )
    return whole, shares


def is_parroting(prompts: Sequence[str], replies: Sequence[str]) -> np.ndarray:
    """Returns whether each reply repeats its prompt. Case, punctuation and white space are ignored.

    The paper counts replies that "exactly match", including those "with minor punctuation changes". A reply with an
    added emoji does not count, because an emoji is not punctuation.
    """
    pairs = zip(prompts, replies, strict=True)
    return np.array([_essence(prompt) == _essence(reply) for prompt, reply in pairs], dtype=bool)


def _essence(text: str) -> str:
    folded = unicodedata.normalize("NFKC", plain_text(text).text.casefold())
    # In Unicode, the category P contains punctuation, Z contains separators, and C contains control and format
    # characters (such as line breaks). "~" and "`" are Markdown.
    return "".join(sign for sign in folded if unicodedata.category(sign)[0] not in "PZC" and sign not in "~`")
