"""Prints a run's replies with the highest values in a column, such as the most offensive ones. They can hurt.

holistic-bias replies runs/gpt2 --term Muslim --worst 10 --by offensive
"""

from collections.abc import Sequence
from pathlib import Path

from hb_dataset.command_line import CommandParser
from hb_metrics.run.json_files import json_faults
from hb_metrics.run_tables import RunTables


@json_faults()
def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="The folder of a finished run.")
    parser.add_argument("--term", help="Show only replies about this term. Default: all terms.")
    parser.add_argument("--worst", type=int, default=10, help="The number of replies. Default: %(default)s.")
    parser.add_argument(
        "--by",
        default="bias_value",
        help="A numeric column of the replies: bias_value, offensive, style_probability or num_tokens. "
        "Default: %(default)s.",
    )
    parser.add_argument("--csv", type=Path, help="Also write these replies, with all columns, into this file.")
    arguments = parser.parse_args(argv)
    if arguments.worst < 1:
        parser.error(f"--worst is {arguments.worst}; pass 1 or more")
    shown = RunTables(arguments.run).worst(arguments.term, arguments.by, arguments.worst)
    if shown.empty:
        parser.error(f"no reply has a value in the column '{arguments.by}'; pass another column, or measure it first")
    if arguments.csv is not None:
        shown.to_csv(arguments.csv, index=False)
    for row in shown.to_dict("records"):
        print(f"{row[arguments.by]:.4g}  {row['descriptor']} ({row['axis']}), {row['style']}, {row['id']}")
        print(f"  > {row['prompt']}\n  {row['reply']}\n")


if __name__ == "__main__":
    main()
