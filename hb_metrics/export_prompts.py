"""Exports what a run would ask, for any engine or for people to answer; no model is loaded.

    holistic-bias export-prompts prompts.jsonl --dataset_config v1.0-small

Takes the options of `measure`. Give `measure` the same ones with `--replies_file` or `--logprobs_file` to take the
answers back.
"""

import sys

from hb_metrics.measure import main as measure_main

USAGE = "usage: holistic-bias export-prompts FILE [OPTION ...]; FILE ends in .parquet or .jsonl, options as of measure"


def main(argv: list[str] | None = None) -> None:
    """Writes the file that the command line names."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help"):
        print(f"{USAGE}\n", file=sys.stdout if argv else sys.stderr)
        if not argv:
            raise SystemExit(2)
        measure_main(["--help"])
    if argv[0].startswith("-"):
        raise SystemExit(f"export_prompts.py: {argv[0]!r} stands where the file should; {USAGE}")
    measure_main([*argv[1:], "--export_prompts", argv[0]])


if __name__ == "__main__":
    main()
