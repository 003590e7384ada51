"""Rows of baseline distillation: replies to prompts without a descriptor, and the same prompts with a descriptor."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

from hb_dataset.seeded_draws import seeded_generator
from hb_train.tuning.labels import RowFolder

BASELINE_FILE = "baseline.json"
TERMS_PER_REPLY = 2  # prompts with a descriptor per reply
ROW_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "prompt", "baseline_prompt", "completion")),
        *((name, pa.string()) for name in ("axis", "descriptor", "noun", "template")),
        ("truncated", pa.bool_()),
    ]
)
BASELINE = RowFolder(BASELINE_FILE, "baseline_replies", ROW_SCHEMA)


class BaselinePrompts(NamedTuple):
    """Prompts without a descriptor, repeated once per reply.

    Attributes:
        table: [replies] rows of the config of baseline prompts, with new `id`s.
        prompts: The corresponding prompts with a descriptor, by noun, template and axis.
    """

    table: pa.Table
    prompts: Mapping[tuple[str, str], Mapping[str, list[int]]]


def draw_baseline_prompts(baseline: pa.Table, prompts: pa.Table, number: int, *, seed: int) -> BaselinePrompts:
    """Draws the baseline prompts to reply to, each equally often, up to a difference of one.

    Args:
        baseline: Prompts without a descriptor, with the columns of the dataset.
        prompts: Prompts with a descriptor.
        number: The number of replies.
        seed: The seed of the draw. Raises:
        ValueError: There is no baseline prompt, or one has no counterpart with a descriptor.
    """
    by_place: dict[tuple[str, str], dict[str, list[int]]] = {}
    columns = [prompts[name].to_pylist() for name in ("noun", "template", "axis")]
    for row, (noun, template, axis) in enumerate(zip(*columns, strict=True)):
        by_place.setdefault((noun, template), {}).setdefault(axis, []).append(row)
    nouns, templates, ids = (baseline[name].to_pylist() for name in ("noun", "template", "id"))
    places = set(zip(nouns, templates, strict=True))
    if not places or not places <= by_place.keys():
        raise ValueError("some templates have no prompts both with and without a descriptor; set the usual templates")
    order = sorted(range(len(ids)), key=lambda row: (seeded_generator(seed, "baseline", ids[row]).random(), ids[row]))
    chosen = [order[reply % len(order)] for reply in range(number)]
    table = baseline.take(pa.array(chosen, pa.int64()))
    replied = [f"{ids[row]}-{reply // len(order)}" for reply, row in enumerate(chosen)]
    return BaselinePrompts(table.set_column(table.column_names.index("id"), "id", pa.array(replied)), by_place)


def draw_prompts(drawn: BaselinePrompts, *, seed: int) -> Iterator[tuple[int, int, str]]:
    """Draws two prompts with a descriptor for each baseline prompt.

    All axes are equally likely, and so are all descriptors of an axis.

    Yields:
        The row of the baseline prompt, the row of the prompt, and the id of the pair.
    """
    ids, nouns, templates = (drawn.table[name].to_pylist() for name in ("id", "noun", "template"))
    for row, (identifier, place) in enumerate(zip(ids, zip(nouns, templates, strict=True), strict=True)):
        by_axis = drawn.prompts[place]
        generator = seeded_generator(seed, "terms", identifier)
        for number in range(TERMS_PER_REPLY):
            axis = sorted(by_axis)[generator.integers(len(by_axis))]
            yield row, by_axis[axis][generator.integers(len(by_axis[axis]))], f"{identifier}-{number}"
