"""Plans a longer run from a finished pilot run with the same prompts: its precision, its cost and its command.

    holistic-bias plan runs/pilot --replies 8 16 --half_width 2

For each figure and each number of replies per term and template, the table shows the half-width, which is half of an
interval's width. A pilot needs at least four replies for most combinations of a term and a template.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.command_line import CommandParser
from hb_dataset.markdown_table import markdown_table
from hb_metrics.command.longer_run import longer_command, reply_seconds
from hb_metrics.command.pilot import FULL, PlannedFigure, pilot_spreads, planned_figures, prompts_per_cell
from hb_metrics.layout.figure import joined_names
from hb_metrics.layout.numbers import MISSING, bias, count, share
from hb_metrics.measurements.decisions.planned import planned_decisions
from hb_metrics.measurements.generation.figures import value_at
from hb_metrics.measurements.results import Run, read_run
from hb_metrics.run.run_folder import REPLIES
from hb_metrics.stats.u_statistic import MIN_REPLIES

_QUESTIONS = (8, 16, 36, 72, 144)


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("pilot", type=Path, metavar="RUN", help="The folder of a finished run, used as the pilot.")
    parser.add_argument(
        "--replies",
        type=int,
        nargs="+",
        default=[4, 8, 16, 32, 64],
        help="The numbers of replies per term and template. Default: 4 8 16 32 64.",
    )
    parser.add_argument(
        "--half_width", type=float, help="The half-width that the Full Gen Bias interval of the longer run should have."
    )
    parser.add_argument("--price_in", type=float, help="The price per million prompt tokens.")
    parser.add_argument("--price_out", type=float, help="The price per million reply tokens.")
    print(plan(**vars(parser.parse_args(argv))))


def plan(
    pilot: Path,
    replies: Sequence[int] = (8, 16),
    half_width: float | None = None,
    price_in: float | None = None,
    price_out: float | None = None,
) -> str:
    """Returns the plan as a Markdown table, followed by sentences and the command for the longer run."""
    amounts = {"half_width": half_width, "price_in": price_in, "price_out": price_out}
    for name, amount, least in (("replies", min(replies), 2), *((*item, 0) for item in amounts.items())):
        if amount is not None and not least <= amount < math.inf:
            raise ValueError(f"--{name} is {amount:g}; pass {least} or more")
    if (price_in is None) != (price_out is None):
        raise ValueError("only one of --price_in and --price_out is set; set both, as prices per million tokens")
    run = read_run(pilot)
    table = run.tables.reply_table() if "generation" in run.results.measured else None
    of_decisions = _decisions(run) if "decisions" in run.results.measured else None
    has_interval = table and value_at(run.results.generation.gen_bias.intervals, ("full_gen_bias",)) is not None
    if of_decisions is not None and not has_interval:
        return of_decisions
    if table is None:
        raise ValueError(f"'{pilot}' did not measure generation or decisions; pass another pilot")
    spreads, missing = pilot_spreads(run, table)
    sizes = prompts_per_cell(run, table)
    most = int(sizes.max())
    numbers = sorted({min(number, most) for number in replies})
    figures, rows = planned_figures(run, table, spreads, sizes), []
    for name, figure in figures.items():
        value = "" if figure.value is None else bias(1000 * figure.value)
        error = f"{figure.error:.0%}" if figure.error < 1 else "?"
        shown = [_shown(figure.at(number), figure.scale) for number in numbers]
        rows.append([name, share(figure.value) if figure.scale == 100 else value, *shown, error])
    totals = [int(np.minimum(sizes, number).sum()) for number in numbers]
    rows += [[*row, ""] for row in _costs(run, table, totals, price_in, price_out)]
    sentences = [
        "The last column shows by how much nine in ten half-widths of later runs differ from these predictions at most "
        f"(“?”: the pilot is too small to say). “{MISSING}” means that there is no interval. The change is between two "
        "such runs with independent replies."
    ]
    if missing:
        sentences.append(f"The plan leaves out figures for which the pilot has no interval: {joined_names(missing)}.")
    if most < max(replies):
        sentences.append(f"There are no more than {most} prompts per term and template.")
    wanted: int | None = numbers[-1]
    if half_width is not None:
        wanted, sentence = _needed(figures[FULL], half_width, most)
        sentences.append(sentence)
    if wanted is not None:
        sentences.append(
            f"To generate {wanted} replies per term and template, run:\n  {longer_command(run, run.folder, wanted)}"
        )
    header = ["half-width at … replies per term and template", "value", *map(str, numbers), "give or take"]
    plans = [markdown_table(header, rows, numbers=range(1, len(header))), "", *sentences]
    return "\n".join(plans if of_decisions is None else [*plans, "", of_decisions])


def _decisions(run: Run) -> str:
    planned = planned_decisions(run, _QUESTIONS)
    header = ["half-width at … questions", *map(str, _QUESTIONS)]
    rows = [[name, *(_shown(half, 100) for half in halves)] for name, halves in planned.items()]
    sentence = "For more questions, add rows to --prompts, or omit --quick. More replies to a question help less."
    return "\n".join([markdown_table(header, rows, numbers=range(1, len(header))), "", sentence])


def _shown(width: float | None, scale: int) -> str:
    if width is None:
        return MISSING
    return f"{bias(scale * width)} points" if scale == 100 else bias(scale * width)


def _needed(figure: PlannedFigure, half_width: float, most: int) -> tuple[int | None, str]:
    """Returns the fewest replies per term and template that achieve a half-width, and a sentence about this number."""

    def is_narrow(number: int) -> bool:
        width = figure.at(number)
        return width is not None and figure.scale * width <= half_width

    aim = f"a half-width of {half_width:g} for {FULL}"
    narrow = [number for number in range(MIN_REPLIES, most + 1) if is_narrow(number)]
    if not narrow:
        return None, f"Even {most:,} replies per term and template are not enough for {aim}; add templates or terms."
    # With a cue, more replies are spread over more questions, so the half-width does not always fall.
    more = " or more" if len(narrow) == most + 1 - narrow[0] else ""
    return narrow[0], f"For {aim}, generate {narrow[0]}{more} replies per term and template."


def _costs(
    run: Run, table: pa.Table, numbers: Sequence[int], price_in: float | None, price_out: float | None
) -> list[list[str]]:
    rows = [["conversations" if run.record.generation.turns > 1 else "replies", "", *map(count, numbers)]]
    seconds = reply_seconds(run)
    if seconds is not None:
        rows.append(["minutes", "", *(count(number * seconds / len(table) / 60) for number in numbers)])
    if price_in is not None and price_out is not None:
        price = _price(run, table, price_in, price_out)
        rows.append(["price (about)", "", *(f"{number * price:,.2f}" for number in numbers)])
    return rows


def _price(run: Run, table: pa.Table, price_in: float, price_out: float) -> float:
    """Returns the price of a conversation, from prices per million tokens and the server's counts of tokens."""
    later = [run.tables.turn(turn) for turn in range(2, run.record.generation.turns + 1)]
    price = 0.0
    for of_turn in (table, *(tables.read(REPLIES) for tables in later if tables.has(REPLIES))):
        for name, per_million in (("tokens_in", price_in), ("tokens_out", price_out)):
            mean = pc.mean(of_turn[name]).as_py() if name in of_turn.column_names else None
            if mean is None:
                raise ValueError(
                    f"'{run.folder}' has no numbers of tokens from a server, so its price is unknown; pass a pilot of "
                    "a served model (--base_url or --provider), or omit --price_in and --price_out"
                )
            price += per_million / 1e6 * mean * len(of_turn) / len(table)
    return price
