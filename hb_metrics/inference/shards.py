"""Raw scores on disk: Parquet shards that any number of processes can share out, and go on with after a kill.

What belongs to a shard follows from the plan alone. A process takes every n-th of the shards still missing; a shard is
written to a temporary name and renamed, so one that is there is whole.
"""

from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from accelerate.utils import broadcast_object_list
from tqdm.auto import tqdm

from hb_metrics.inference.perplexity import perplexity_scores
from hb_metrics.inference.processes import process_state
from hb_metrics.inference.units import ScoringPlan, run_units
from hb_metrics.run_folder import write_atomically

# About half a minute of work for the embedded model on two cores: little is lost to a kill, few files for a long run.
UNITS_PER_SHARD = 8

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("text", pa.string()),
        ("perplexity", pa.float64()),
        ("log_likelihood", pa.float64()),
        ("num_tokens", pa.int64()),
    ]
)


class Shard(NamedTuple):
    """Which units a shard holds the scores of, its rows in the data, and its file."""

    units: slice
    rows: np.ndarray
    path: Path


def score_into_shards(
    plan: ScoringPlan,
    ids: Sequence[str],
    texts: Sequence[str],
    folder: Path,
    device: torch.device,
    *,
    progress: bool = True,
) -> pa.Table | None:
    """Scores what is not on disk yet, and reads all of it.

    Args:
        plan: How `texts` are to be scored.
        ids: [texts] what each row is keyed by; each id once.
        texts: The texts the plan was made of.
        folder: Where the shards are; made if it is not there.
        device: Where the model is.
        progress: Whether the main process shows a progress bar.

    Returns:
        A table with the columns of `SCHEMA` in the order of `texts`, on the main process; `None` on all others.

    Raises:
        ValueError: The model gives NaN or infinity for a text.
    """
    state = process_state()
    shards = plan_shards(plan, folder)
    if state.is_main_process:
        folder.mkdir(parents=True, exist_ok=True)
    # The main process decides what is missing, before anybody writes.
    missing = (
        [index for index, shard in enumerate(shards) if not _is_whole(shard, ids)] if state.is_main_process else []
    )
    (missing,) = broadcast_object_list([missing])
    done = len(ids) - sum(len(shards[index].rows) for index in missing)
    if state.is_main_process and done:
        print(f"{done:,} of {len(ids):,} texts were scored before in {folder}")

    mine = [shards[index] for index in missing[state.process_index :: state.num_processes]]
    units = [unit for shard in mine for unit in plan.units[shard.units]]
    nll = np.full(len(plan.num_tokens), np.nan)
    total = sum(len(shard.rows) for shard in mine)
    hidden = not (progress and state.is_main_process)
    with (
        closing(run_units(plan, units, device)) as running,
        tqdm(total=total, unit="text", desc=plan.scoring, disable=hidden) as bar,
    ):
        for shard in mine:
            for unit, unit_nll in islice(running, len(plan.units[shard.units])):
                nll[unit.sequences] = unit_nll
            _write(shard, plan, ids, texts, nll)
            bar.update(len(shard.rows))
    state.wait_for_everyone()
    if not state.is_main_process:
        return None
    table = pa.concat_tables([_read(shard.path) for shard in shards])
    order = np.argsort(np.concatenate([shard.rows for shard in shards]), kind="stable")
    return table.take(pa.array(order))


def plan_shards(plan: ScoringPlan, folder: Path) -> list[Shard]:
    """Cuts a plan into shards of consecutive units; a pure function of the plan."""
    firsts = range(0, len(plan.units), UNITS_PER_SHARD)
    shard_of_sequence = np.empty(len(plan.num_tokens), dtype=np.int64)
    for index, first in enumerate(firsts):
        for unit in plan.units[first : first + UNITS_PER_SHARD]:
            shard_of_sequence[unit.sequences] = index
    shard_of_row = shard_of_sequence[plan.sequence_of_text]
    order = np.argsort(shard_of_row, kind="stable")
    bounds = np.searchsorted(shard_of_row[order], np.arange(len(firsts) + 1))
    return [
        Shard(
            slice(first, first + UNITS_PER_SHARD),
            order[bounds[index] : bounds[index + 1]],
            folder / f"{index:05d}-of-{len(firsts):05d}.parquet",
        )
        for index, first in enumerate(firsts)
    ]


def _write(shard: Shard, plan: ScoringPlan, ids: Sequence[str], texts: Sequence[str], nll: np.ndarray) -> None:
    scores = perplexity_scores(plan, texts, nll, shard.rows)
    table = pa.table(
        {
            "id": [ids[row] for row in shard.rows],
            "text": [texts[row] for row in shard.rows],
            "perplexity": scores.perplexities,
            "log_likelihood": scores.log_likelihoods,
            "num_tokens": scores.num_tokens,
        },
        schema=SCHEMA,
    )
    write_atomically(shard.path, lambda path: pq.write_table(table, path, compression="zstd", write_page_checksum=True))


def _is_whole(shard: Shard, ids: Sequence[str]) -> bool:
    """Whether a shard's file is there and reads as it was written; one that does not is reported, to be made again."""
    if not shard.path.exists():
        return False
    try:
        found = _read(shard.path)["id"].to_pylist()
    except (OSError, pa.ArrowException, KeyError) as error:
        print(f"{shard.path} is damaged ({str(error).splitlines()[0]}); its texts are scored again")
        return False
    if found != [ids[row] for row in shard.rows]:
        print(f"{shard.path} holds other rows than it should; its texts are scored again")
        return False
    return True


def _read(path: Path) -> pa.Table:
    return pq.read_table(path, schema=SCHEMA, page_checksum_verification=True, memory_map=False)
