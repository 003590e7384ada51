"""Exports a run's prompts to a file, so that another program or people can answer them. No model is loaded.

    holistic-bias export-prompts prompts.jsonl --dataset_config v1.0-small

To import the answers, run `measure` with the same options and `--replies_file` or `--logprobs_file`.
"""

import sys
from argparse import ArgumentParser
from pathlib import Path

from hb_metrics.arguments import parse_arguments
from hb_metrics.runs.exported_prompts import export_prompts
from hb_metrics.runs.planning import read_prompts

USAGE = (
    "usage: holistic-bias export-prompts FILE [--after REPLIES] [OPTION ...]\nThe name of FILE must end in .parquet or "
    ".jsonl. All other options are the options of measure."
)


def main(argv: list[str] | None = None) -> None:
    argv = sys.argv[1:] if argv is None else argv
    title = (__doc__ or "").split("\n", 1)[0]
    if not argv or argv[0] in ("-h", "--help"):
        print(f"{USAGE}\n", file=sys.stdout if argv else sys.stderr)
        if not argv:
            raise SystemExit(2)
        parse_arguments(["--help"], title)
    if argv[0].startswith("-"):
        raise SystemExit(f"export_prompts.py: {argv[0]!r} is not a file name; {USAGE}")
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--after", type=Path)
    own, others = parser.parse_known_args(argv[1:])
    settings = parse_arguments(others, title)
    export_prompts(settings, read_prompts(settings), Path(argv[0]), own.after)
