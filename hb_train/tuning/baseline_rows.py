"""Draws the prompts for the methods counterfactual and distill, and defines the format of their rows.

A row contains a reply, the prompt that it answers, and the prompt for which the model learns this reply. Some rows are
anchors, which are replies that the tuned model should keep. Anchors answer two kinds of questions: questions whose
answer should depend on who is asking, and questions about nobody.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import yaml

from hb_dataset.seeded_draws import seeded_generator
from hb_train.tuning.labels import RowFolder

ANCHORS_FILE = Path(__file__).parent / "anchors.yaml"
TEMPERATURE = 0.7  # for sampling replies and for the learnt distributions; also the default of measurements
TERMS_PER_REPLY = 2  # the number of prompts with a descriptor for each reply
NEEDS_PER_NEUTRAL = 3
ROW_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "prompt", "completion", "teacher_prompt", "teacher_completion")),
        ("spans", pa.list_(pa.list_(pa.int64()))),  # swapped phrases, see `swap.Swap`
        ("moved", pa.list_(pa.list_(pa.string()))),  # first words that name descriptors, see `swap.first_words`
        *((name, pa.string()) for name in ("axis", "descriptor", "teacher_descriptor", "noun", "template")),
        ("truncated", pa.bool_()),
    ]
)
DISTILL = RowFolder("baseline.json", "baseline_replies", ROW_SCHEMA)
COUNTERFACTUAL = RowFolder("counterfactual.json", "baseline_replies", ROW_SCHEMA)


class BaselinePrompts(NamedTuple):
    """Prompts without a descriptor, and the same sentences with a descriptor.

    `table` has one row for each reply to sample. `prompts` maps a noun and a template to the rows of prompts with a
    descriptor, by axis (see `rows_by_place`).
    """

    table: pa.Table
    prompts: Mapping[tuple[str, str], Mapping[str, list[int]]]


def rows_by_place(prompts: pa.Table) -> dict[tuple[str, str], dict[str, list[int]]]:
    by_place: dict[tuple[str, str], dict[str, list[int]]] = {}
    columns = [prompts[name].to_pylist() for name in ("noun", "template", "axis")]
    for row, (noun, template, axis) in enumerate(zip(*columns, strict=True)):
        by_place.setdefault((noun, template), {}).setdefault(axis, []).append(row)
    return by_place


def draw_baseline_prompts(baseline: pa.Table, prompts: pa.Table, number: int, *, seed: int) -> BaselinePrompts:
    """Draws the baseline prompts to which the model replies.

    If `number` is larger than the number of prompts, all prompts are drawn equally often (±1).
    """
    by_place = rows_by_place(prompts)
    nouns, templates, ids = (baseline[name].to_pylist() for name in ("noun", "template", "id"))
    places = set(zip(nouns, templates, strict=True))
    if not places or not places <= by_place.keys():
        raise ValueError(
            "for some combinations of noun and template, there is no prompt with a descriptor; set a --dataset_config "
            "that contains all templates"
        )
    order = sorted(range(len(ids)), key=lambda row: (seeded_generator(seed, "baseline", ids[row]).random(), ids[row]))
    chosen = [order[reply % len(order)] for reply in range(number)]
    table = baseline.take(pa.array(chosen, pa.int64()))
    replied = [f"{ids[row]}-{reply // len(order)}" for reply, row in enumerate(chosen)]
    return BaselinePrompts(table.set_column(table.column_names.index("id"), "id", pa.array(replied)), by_place)


def draw_sources(drawn: BaselinePrompts, prompts: pa.Table, *, seed: int) -> pa.Table:
    """Replaces each baseline prompt with a prompt that adds a descriptor to its sentence. The ids remain the same."""
    ids, nouns, templates = (drawn.table[name].to_pylist() for name in ("id", "noun", "template"))
    rows = []
    for identifier, place in zip(ids, zip(nouns, templates, strict=True), strict=True):
        rows.append(_draw(drawn.prompts[place], seeded_generator(seed, "sources", identifier)))
    table = prompts.take(pa.array(rows, pa.int64()))
    return table.set_column(table.column_names.index("id"), "id", pa.array(ids))


def draw_prompts(drawn: BaselinePrompts, *, seed: int) -> Iterator[tuple[int, int, str]]:
    """Draws two prompts with a descriptor for each baseline prompt. All axes are equally likely.

    Yields the index of the baseline prompt, the index of the prompt with a descriptor, and an id for the pair.
    """
    ids, nouns, templates = (drawn.table[name].to_pylist() for name in ("id", "noun", "template"))
    for row, (identifier, place) in enumerate(zip(ids, zip(nouns, templates, strict=True), strict=True)):
        generator = seeded_generator(seed, "terms", identifier)
        for number in range(TERMS_PER_REPLY):
            yield row, _draw(drawn.prompts[place], generator), f"{identifier}-{number}"


def draw_anchors(number: int, *, seed: int) -> pa.Table:
    """Draws the prompts of anchors from `anchors.yaml`. Prompts of the same kind are drawn equally often (±1).

    Three in four anchors are questions whose answer should depend on who is asking, and the fourth is a question about
    nobody.
    """
    content = yaml.safe_load(ANCHORS_FILE.read_text(encoding="utf-8"))
    needs = []
    for group in content["needs"]:
        for person in group["people"]:
            needs += [f"I'm {person}. {question}" for question in group["questions"]]
    num_neutral = number // (NEEDS_PER_NEUTRAL + 1)
    ids, chosen = [], []
    for kind, texts, wanted in (("need", needs, number - num_neutral), ("neutral", content["neutral"], num_neutral)):
        order = seeded_generator(seed, "anchors", kind).permutation(len(texts))
        for index in range(wanted):
            ids.append(f"anchor-{kind}-{index}")
            chosen.append(texts[order[index % len(texts)]])
    return pa.table({"id": pa.array(ids, pa.string()), "text": pa.array(chosen, pa.string())})


def _draw(by_axis: Mapping[str, list[int]], generator: np.random.Generator) -> int:
    axis = sorted(by_axis)[generator.integers(len(by_axis))]
    return by_axis[axis][generator.integers(len(by_axis[axis]))]
