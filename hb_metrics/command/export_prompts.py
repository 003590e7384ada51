"""Exports a run's prompts to a file, so that another program or people can answer them. No model is loaded.

    holistic-bias export-prompts prompts.jsonl --dataset_config v1.0-small

To import the answers, run `measure` with the same options and `--replies_file` or `--logprobs_file`.
"""

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hb_dataset.whole_files import write_atomically, write_text
from hb_metrics.command.arguments import asked_measurements, parse_arguments, wanted_measurements
from hb_metrics.command.planning import read_files
from hb_metrics.command.run_prompts import read_prompts
from hb_metrics.measurements.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from hb_metrics.collect.replies.requests import ReplyRequests

# Importing torch takes seconds, so modules that need it are imported after the options are checked.

USAGE = (
    "usage: holistic-bias export-prompts FILE [--after REPLIES] [OPTION ...]\nThe name of FILE must end in .parquet or "
    ".jsonl. All other options are the options of measure."
)
SUFFIXES = (".parquet", ".jsonl")
REPLY, LOG_PROBABILITY = "reply", "log_probability"  # the values of the column `wanted`


def main(argv: list[str] | None = None) -> None:
    argv = sys.argv[1:] if argv is None else argv
    title = (__doc__ or "").split("\n", 1)[0]
    if argv[:1] in (["-h"], ["--help"]):
        print(f"{USAGE}\n")
        parse_arguments(["--help"], title)
    if not argv or argv[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        raise SystemExit(2)
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--after", type=Path)
    own, others = parser.parse_known_args(argv[1:])
    settings = parse_arguments(others, title)
    export_prompts(settings, read_prompts(settings), Path(argv[0]), own.after)


def export_prompts(settings: Settings, prompts: "pa.Table", path: Path, after: Path | None = None) -> Path:
    """Writes a run's prompts to a new file, which must have one of `SUFFIXES`. Returns the path.

    For conversations of several turns, `after` is a file with the replies of all previous turns. The new file then
    contains the prompts of the next turn.
    """
    import pyarrow.parquet as pq

    if path.exists() or path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"'{path}' exists or has another suffix; pass a new file that ends in {' or '.join(SUFFIXES)}")
    table = requested(settings, prompts, after)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".jsonl":
        write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()))
    else:
        write_atomically(path, lambda scratch: pq.write_table(table, scratch, compression="zstd"))
    wanted = table["wanted"].to_pylist()
    print(f"{wanted.count(REPLY):,} replies and {wanted.count(LOG_PROBABILITY):,} log-probabilities are requested")
    print(f"prompts: {path.resolve()}")
    return path


def requested(settings: Settings, prompts: "pa.Table", after: Path | None = None) -> "pa.Table":
    """Returns a table with a row for each reply and each log-probability that a run needs.

    The columns are `id`, `wanted` ("reply" or "log_probability") and `text`. If the run needs replies, the table also
    has the columns `question` (the user's question after a cue), `messages`, `personas`, `seed` and `decoding`. In rows
    for log-probabilities, these columns are null. For conversations of several turns, the table also has the column
    `turn`.
    """
    import pyarrow as pa

    from hb_metrics.collect.engines.engine import Engine

    for measurement in asked_measurements(settings) or []:
        if "weights" in measurement.needs:
            raise ValueError(f"'{measurement.name}' needs the model itself; remove it from --measurements")
    wanted = wanted_measurements(settings)
    read_files(settings, prompts, wanted)
    needs = {need for measurement in wanted for need in measurement.needs}
    rows: list[dict[str, object]] = []
    if "replies" in needs:
        from hb_metrics.measurements.reply_requests import ask
        from hb_metrics.measurements.reply_requests import read_files as check_prompts

        check_prompts(settings, prompts)  # with replies from a file, `measure` adds generation to decisions
        engine = Engine()
        engine.name = settings.run.model
        asked = ask(settings, prompts, engine)
        requests = asked.requests if after is None else _next_requests(asked.requests, str(after))
        decoding = {"reply": requests.extent, **asdict(requests.decoding)}
        if requests.max_reasoning_tokens is not None:
            decoding["max_reasoning_tokens"] = requests.max_reasoning_tokens
        for row, (identifier, text) in enumerate(zip(requests.ids, requests.texts, strict=True)):
            rows.append(
                {
                    "id": identifier,
                    "wanted": REPLY,
                    "text": text,
                    "question": requests.questions[row] if requests.questions else None,
                    "messages": requests.messages[row],
                    "personas": requests.personas[row],
                    "seed": requests.request_seed(row),
                    "decoding": decoding,
                    **({} if requests.turns == 1 else {"turn": requests.turn}),
                }
            )
    if "likelihoods" in needs and after is None:
        for prompt in prompts.select(["id", "text"]).to_pylist():
            rows.append({"id": prompt["id"], "wanted": LOG_PROBABILITY, "text": prompt["text"]})
    if not rows:
        raise ValueError("there are no prompts to export; add generation or likelihood to --measurements")
    return pa.Table.from_pylist(rows)


def _next_requests(requests: "ReplyRequests", path: str) -> "ReplyRequests":
    """Returns the requests for the turn that follows the last turn in a file of replies."""
    from hb_metrics.collect.engines.files import FileEngine
    from hb_metrics.collect.replies.requests import next_turn
    from hb_metrics.run.answer_files import read_replies_file

    last, turns = max(reply.turn for reply in read_replies_file(path)), requests.turns
    if last >= turns:
        raise ValueError(
            f"'{path}' has replies from turn {last}, and turns is {turns}, so there is no next turn; set --turns to "
            f"at least {last + 1}, or pass this file to measure as --replies_file"
        )
    engine, requests = FileEngine("", path, None), replace(requests, turns=last)
    for _ in range(last):
        requests = next_turn(requests, engine.plan_replies(requests).work)
    if not requests.ids:
        raise ValueError(
            f"all replies of turn {last} in '{path}' are empty, so no conversation can continue; pass non-empty "
            f"replies, or set --turns to {last}"
        )
    return replace(requests, turns=turns)
