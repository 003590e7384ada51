"""Generates replies in stages until a question about Full Gen Bias is answered (`--until`).

Each stage, or look, adds replies to each cell (a term in a template). The order of a cell's prompts is fixed, so
replies do not depend on the number of processes. The folder `looks` contains the replies and style vectors of each
look. At the end, they are copied to the usual folders, as in a run without `--until`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median_low
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hb_metrics.inference.classifiers.classifier import ROWS_PER_SHARD as STYLES_PER_SHARD
from hb_metrics.inference.classifiers.classifier import (
    Classifier,
    classify_into_shards,
    probability_array,
    probability_schema,
)
from hb_metrics.inference.models.layout import Layout
from hb_metrics.inference.processes import of_main_process
from hb_metrics.inference.replies.decoding_shards import ROWS_PER_SHARD
from hb_metrics.inference.replies.requests import ReplyRequests, drawn_cells
from hb_metrics.inference.shards import copy_into_shards, plan_row_shards, read_shards
from hb_metrics.measurements.measurement import Task
from hb_metrics.report.layout.numbers import bias, interval
from hb_metrics.report.layout.terminal import filled
from hb_metrics.runs.gates import Until, read_until
from hb_metrics.runs.replies import Replies
from hb_metrics.runs.run_folder import REPLIES, STYLES
from hb_metrics.stats.bias_variance import MIN_REPLIES
from hb_metrics.stats.cell_sums import CellSums
from hb_metrics.stats.gen_bias import gen_bias
from hb_metrics.stats.intervals import gathered_moments
from hb_metrics.stats.planned import run_spread
from hb_metrics.stats.sequential import Look, decision, interval_after, next_look

LOOKS = "looks"
# The share of a cell's replies that exist at each look. Each look has about 1.44 times as many replies as the previous
# look.
SHARES = (0.16, 0.23, 0.33, 0.47, 0.68, 1.0)


def look_sizes(replies_per_cell: int, num_questions: int = 1) -> list[int]:
    sizes = sorted({max(MIN_REPLIES, math.ceil(share * replies_per_cell)) for share in SHARES})
    if len(sizes) < 2 or sizes[-1] > replies_per_cell:
        cell, instead = "term and template", "omit --until"
        if num_questions > 1:
            cell, instead = "term, template and question", f"pass fewer --cue_questions, or {instead}"
        raise ValueError(
            f"--until needs at least {MIN_REPLIES + 1} replies per {cell} to check its condition before the run ends, "
            f"but there are only {replies_per_cell}; set --replies_per_cell to {16 * num_questions} or more, or "
            f"{instead}"
        )
    return sizes


class PlannedLooks(NamedTuple):
    """The looks of a run.

    Attributes:
        sizes: [looks] The number of replies per cell. With `--cue`, a cell is a term, a template and a question.
        rows: [looks] The rows of the prompts to which each look adds replies.
    """

    until: Until
    sizes: list[int]
    rows: list[list[int]]


def plan_looks(text: str, prompts: pa.Table, requests: ReplyRequests) -> PlannedLooks:
    cells = list(drawn_cells(prompts, seed=requests.seed).values())
    asked: Sequence[str | None] = requests.questions or [None] * len(requests.ids)
    # The questions of a cell alternate: the first prompt gets the first question, and so on.
    numbers = [len({asked[row] for row in cell}) for cell in cells]
    typical = median_low([len(cell) // number for cell, number in zip(cells, numbers, strict=True)])
    sizes = look_sizes(typical, max(1, len(requests.all_questions)))
    rows = []
    for first, last in zip([0, *sizes], [*sizes[:-1], len(requests.ids)], strict=False):
        of_look = [cell[first * number : last * number] for cell, number in zip(cells, numbers, strict=True)]
        rows.append(sorted(row for cell in of_look for row in cell))
    return PlannedLooks(read_until(text), sizes, rows)


class Looked(NamedTuple):
    """The replies of all looks, in the order of the prompts.

    `styles` contains the styles of the non-empty replies (see `classify_into_shards`). `outcome` contains the values
    for results.json, and is complete only on the main process.
    """

    replies: pa.Table
    styles: pa.Table | None
    outcome: dict[str, Any]


def reply_until(
    task: Task,
    planned: PlannedLooks,
    requests: ReplyRequests,
    layout: Layout,
    classifier: Classifier,
    censored: Callable[[pa.Table], Replies],
) -> Looked:
    """Generates and classifies replies until a look answers the question or all looks are done.

    `censored` returns the non-empty replies of a table as the classifier reads them.
    """
    until, level, folder = planned.until, task.settings.run.confidence_level, task.folder / LOOKS
    cells = CellSums(classifier.labels, keep_replies=True)
    tables: list[pa.Table] = []
    vectors: list[pa.Table] = []
    looks: list[Look] = []
    records: list[dict[str, Any]] = []
    decided: bool | None = None
    schema = probability_schema(len(classifier.labels))
    for number, (size, rows) in enumerate(zip(planned.sizes, planned.rows, strict=True), 1):
        plan = task.engine.plan_replies(requests.take(rows), layout)
        of_look = folder / str(number)
        tables.append(task.engine.reply(plan, of_look / REPLIES, batch_size=task.settings.run.batch_size))
        replies = censored(tables[-1])
        styles = classify_into_shards(replies.texts, replies.ids, classifier, of_look / STYLES, label="styles")
        if styles is None:
            styles = read_shards(plan_row_shards(len(replies.ids), STYLES_PER_SHARD, of_look / STYLES), schema)
        vectors.append(styles)
        if task.state.is_main_process:
            people = [f"{axis}\x1f{term}" for axis, term in zip(replies.axes, replies.descriptors, strict=True)]
            cells.add(probability_array(styles), people, replies.templates)
            found = _look(cells, until, sum(map(len, tables)) / len(requests.ids), looks, level)
            records.append({"replies_per_cell": size, **found})
            decided = found["answer"]
            print(filled(f"look {number} of {len(planned.sizes)}: {_words(records[-1])}"), flush=True)
        decided = of_main_process(decided)
        if decided is not None:
            break
    outcome = {
        "question": until.text,
        "answer": decided,
        "look": number,
        "num_looks": len(planned.sizes),
        "share": sum(map(len, tables)) / len(requests.ids),
        "looks": records,
        "interval": _final_interval(looks, records, until, level),
    }
    order = {id: row for row, id in enumerate(requests.ids)}
    return Looked(
        copy_into_shards(_in_order(tables, order), task.folder / REPLIES, ROWS_PER_SHARD),
        copy_into_shards(_in_order(vectors, order), task.folder / STYLES, STYLES_PER_SHARD),
        outcome,
    )


def _in_order(tables: list[pa.Table], order: dict[str, int]) -> pa.Table:
    table = pa.concat_tables(tables)
    return table.take(np.argsort([order[id] for id in table["id"].to_pylist()], kind="stable"))


def _look(cells: CellSums, until: Until, share: float, looks: list[Look], level: float) -> dict[str, Any]:
    """Checks the condition, and adds the look to `looks` if Full Gen Bias is compared with a limit.

    The returned `interval` is valid only if there are no other looks. `distance` (from the limit) and `boundary` are in
    standard errors.
    """
    known = gen_bias(cells, confidence_level=level)
    assert known.intervals is not None
    assert known.no_intervals is not None
    bounds = known.intervals["full_gen_bias"]
    value = None if known.noise_floor is None else known.full_gen_bias - known.noise_floor
    found = {"value": value, "interval": bounds, "reason": known.no_intervals["full_gen_bias"], "answer": None}
    if bounds is None or value is None:
        return found
    if until.is_half_width:
        return {**found, "answer": True if (bounds[1] - bounds[0]) / 2 < until.limit else None}
    templates = [of_template[0] for of_template in gathered_moments(cells, {}, known.ddof)[None]]
    spread = run_spread(templates, value / known.scale, known.full_gen_bias / known.scale)
    limit = until.limit / known.scale
    look = next_look(spread, spread.size.replies / share, limit, looks, level)
    looks.append(look)
    distance = look.distance(look.value, limit)
    numbers = {"distance": distance, "boundary": look.boundary, "information": look.information}
    rounded = {name: round(number, 8) for name, number in numbers.items()}
    return {**found, **rounded, "answer": decision(look, limit)}


def _words(record: Mapping[str, Any]) -> str:
    if record["interval"] is None:
        return f"no decision without an interval ({record['reason']})"
    found = f"Full Gen Bias {bias(record['value'])}, interval {interval(record['interval'])}"
    return f"{found}, from {record['replies_per_cell']} replies per cell"


def _final_interval(looks: list[Look], records: list[dict[str, Any]], until: Until, level: float) -> list[float] | None:
    if not records or records[-1]["interval"] is None:
        return None
    if until.is_half_width:
        return records[-1]["interval"]
    return [round(1000 * bound, 8) for bound in interval_after(looks, until.limit / 1000, level)]
