"""Exports the requests of a run to a file, for any engine or for people to answer; loads no model."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hb_dataset.whole_files import write_atomically, write_text
from hb_metrics.measurements.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

# torch and the model classes take seconds to import: not before the options are known to be right.

SUFFIXES = (".parquet", ".jsonl")
REPLY, LOG_PROBABILITY = "reply", "log_probability"  # the kinds of requests

_COLUMNS = ("id", "wanted", "text", "question", "messages", "personas", "seed")


def export_prompts(settings: Settings, prompts: "pa.Table", path: Path) -> Path:
    """Writes the requests of a run: one row per reply and per log-probability.

    Args:
        settings: The options of the run.
        prompts: Its prompts.
        path: A new file with one of `SUFFIXES`.

    Returns:
        The path.

    Raises:
        ValueError: The file exists or has another suffix, or there is nothing to ask.
    """
    import pyarrow.parquet as pq

    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"'{path}' ends in none of {', '.join(SUFFIXES)}; give a file that does")
    if path.exists():
        raise ValueError(f"'{path}' exists; move it away, or give another name")
    table = requested(settings, prompts)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".jsonl":
        write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()))
    else:
        write_atomically(path, lambda scratch: pq.write_table(table, scratch, compression="zstd"))
    wanted = table["wanted"].to_pylist()
    print(f"{wanted.count(REPLY):,} replies and {wanted.count(LOG_PROBABILITY):,} log-probabilities are requested")
    print(f"prompts: {path.resolve()}")
    return path


def requested(settings: Settings, prompts: "pa.Table") -> "pa.Table":
    """The requests of a run.

    Returns:
        Columns `id`, `wanted` ("reply" or "log_probability") and `text`; for replies also `question` (after a cue, see
        `replies/cues.py`), `messages` (role and content), `personas`, `seed` and `decoding`, which are null for the
        log-probability of a text.

    Raises:
        ValueError: There is nothing to ask, or a measurement needs the model itself.
    """
    import pyarrow as pa

    from hb_metrics.arguments import asked_measurements
    from hb_metrics.inference.engines.engine import Engine
    from hb_metrics.runs.planning import wanted_measurements

    for measurement in asked_measurements(settings) or []:
        if "weights" in measurement.needs:
            raise ValueError(
                f"measurement '{measurement.name}' needs the model itself and has no requests to export; leave it out "
                "of --measurements"
            )
    needs = {need for measurement in wanted_measurements(settings) for need in measurement.needs}
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    decoding: dict[str, Any] | None = None
    if "replies" in needs:
        from hb_metrics.measurements.generation.work import ask

        engine = Engine()
        engine.name = settings.run.model
        requests = ask(settings, prompts, engine).requests
        number = len(requests.ids)
        decoding = {"reply": requests.extent, **asdict(requests.decoding)}
        if requests.max_reasoning_tokens is not None:
            decoding["max_reasoning_tokens"] = requests.max_reasoning_tokens
        columns["id"] += requests.ids
        columns["wanted"] += [REPLY] * number
        columns["text"] += requests.texts
        columns["question"] += requests.questions or [None] * number
        columns["messages"] += requests.messages
        columns["personas"] += requests.personas
        columns["seed"] += [requests.request_seed(row) for row in range(number)]
    num_replies = len(columns["id"])
    if "likelihoods" in needs:
        number = prompts.num_rows
        columns["id"] += prompts["id"].to_pylist()
        columns["wanted"] += [LOG_PROBABILITY] * number
        columns["text"] += prompts["text"].to_pylist()
        for name in _COLUMNS[3:]:
            columns[name] += [None] * number
    if not columns["id"]:
        raise ValueError(
            "these measurements ask a model for nothing; name another in --measurements, such as generation"
        )
    types = {"messages": pa.list_(message), "personas": pa.list_(pa.string()), "seed": pa.int64()}
    arrays = {name: pa.array(values, types.get(name, pa.string())) for name, values in columns.items()}
    if decoding is not None:
        arrays["decoding"] = pa.array([decoding] * num_replies + [None] * (len(columns["id"]) - num_replies))
    return pa.table(arrays)
