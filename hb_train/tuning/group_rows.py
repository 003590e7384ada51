"""Defines the format of the rows for method counterfactual.

A row is a group of prompts that differ only in their descriptor, with one reply. The reply answers the group's first
prompt. For all other prompts, the descriptor in the reply is replaced. Some rows are anchors, which are groups of one
prompt. Anchors are replies that the tuned model should keep.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from hb_train.tuning.labels import RowFolder

_STRINGS = pa.list_(pa.string())
OWN_REPLIES = RowFolder(
    "counterfactual.json",
    "own_replies",
    pa.schema(
        [
            ("id", pa.string()),
            *((name, _STRINGS) for name in ("prompts", "completions")),
            ("spans", pa.list_(pa.list_(pa.list_(pa.int64())))),  # of each completion, see `swap.shared_spans`
            *((name, _STRINGS) for name in ("names", "axes", "descriptors")),
            ("after", pa.list_(pa.bool_())),  # whether each descriptor follows its noun
            *((name, pa.string()) for name in ("noun", "template")),
            ("truncated", pa.bool_()),
        ]
    ),
)


class GroupRow(NamedTuple):
    """A row of `OWN_REPLIES`, with the texts and the system message from which `prompts` are rendered."""

    id: str
    completions: list[str]
    spans: list[list[list[int]]]
    names: list[str]
    after: list[bool]
    truncated: bool
    axes: list[str] | None = None
    descriptors: list[str] | None = None
    noun: str | None = None
    template: str | None = None
    texts: Sequence[str] = ()
    system: str | None = None
    prompts: Sequence[str] = ()
