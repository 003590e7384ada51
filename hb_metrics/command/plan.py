"""Plans a longer run from a finished pilot run with the same prompts: its precision, its cost and its command.

    holistic-bias plan runs/pilot --replies 8 16 --half_width 2

For each figure and each number of replies per term and template, the table shows the half-width, which is half of an
interval's width. A pilot needs at least four replies for most combinations of a term and a template.
"""

import math
import shlex
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.command_line import CommandParser
from hb_dataset.markdown_table import markdown_table
from hb_dataset.names import NAME_CUES
from hb_metrics.command.arguments import default_settings
from hb_metrics.layout.figure import joined_names
from hb_metrics.layout.numbers import MISSING, axis_label, bias, count, share
from hb_metrics.measurements.decisions.compute import planned_decisions
from hb_metrics.measurements.generation.figures import UPTAKE, value_at
from hb_metrics.measurements.generation.run_changes import naming, refusal_flags
from hb_metrics.measurements.offensiveness.run_changes import classified_replies
from hb_metrics.measurements.results import Run, read_run
from hb_metrics.reply_checks.refusal_shares import cell_counts
from hb_metrics.report.page import Longer
from hb_metrics.run.replies import nonempty_replies
from hb_metrics.run.run_folder import REPLIES, STYLES, read_seconds
from hb_metrics.run.tables import Tables
from hb_metrics.stats.cell_sums import CellSums, cluster_columns
from hb_metrics.stats.clusters import quantile, share_interval
from hb_metrics.stats.intervals import (
    Size,
    Spread,
    at_size,
    change_half_width,
    half_width,
    run_covariances,
    run_spread,
)
from hb_metrics.stats.u_statistic import MIN_REPLIES

FULL = "Full Gen Bias"
MOST_REPLIES = 2000
_QUESTIONS = (8, 16, 36, 72, 144)
# Nine in ten half-widths of later runs are within this number, divided by the root of the pilot's degrees of freedom,
# of the prediction, relative to it. The number was chosen by simulation (tests/hb_metrics/stats/test_planned.py).
_ERROR = 2.5


class Planned(NamedTuple):
    """A figure of the longer run. Numbers are multiplied by `scale` when they are printed.

    Attributes:
        value: The figure's value in the pilot, or `None` for a change.
        at: The half-width for a number of replies per cell, or `None` if there is no interval.
        error: The relative error of these half-widths, which nine in ten later runs do not exceed.
    """

    value: float | None
    scale: int
    at: Callable[[int], float | None]
    error: float


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
        raise ValueError(
            f"'{pilot}' did not measure generation or decisions; pass a pilot with --measurements generation"
        )
    spreads, missing = pilot_spreads(run, table)
    sizes = _prompts_per_cell(run, table)
    most = int(sizes.max())
    numbers = sorted({min(number, most) for number in replies})
    figures, rows = _figures(run, table, spreads, sizes), []
    for name, figure in figures.items():
        value = "" if figure.value is None else bias(1000 * figure.value)
        error = f"{figure.error:.0%}" if figure.error < 1 else "?"
        shown = [_shown(figure.at(number), figure.scale) for number in numbers]
        rows.append([name, share(figure.value) if figure.scale == 100 else value, *shown, error])
    totals = [int(np.minimum(sizes, number).sum()) for number in numbers]
    rows += [[*row, ""] for row in _costs(run, table, totals, (price_in, price_out))]
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
        sentences.append(f"To generate {wanted} replies per term and template, run:\n  {_command(run, wanted)}")
    header = ["half-width at … replies per term and template", "value", *map(str, numbers), "give or take"]
    plans = [markdown_table(header, rows, numbers=range(1, len(header))), "", *sentences]
    return "\n".join(plans if of_decisions is None else [*plans, "", of_decisions])


def _decisions(run: Run) -> str:
    planned = planned_decisions(run, _QUESTIONS)
    header = ["half-width at … questions", *map(str, _QUESTIONS)]
    rows = [[name, *(_shown(half, 100) for half in halves)] for name, halves in planned.items()]
    sentence = "For more questions, add rows to --prompts, or omit --quick. More replies to a question help less."
    return "\n".join([markdown_table(header, rows, numbers=range(1, len(header))), "", sentence])


def _prompts_per_cell(run: Run, table: pa.Table) -> np.ndarray:
    """Returns the most replies that each cell (a term in a template) can have."""
    if run.record.cue in NAME_CUES:  # the prompts of a name are alike, so there are as many as needed
        return np.full(len(table) // (run.record.settings.replies_per_cell or 1), MOST_REPLIES)
    prompts = run.tables.prompts()
    used = prompts.filter(pc.is_in(prompts["template"], table["template"].unique()))
    return used.group_by(["axis", "descriptor", "template"]).aggregate([("id", "count")])["id_count"].to_numpy()


def _figures(run: Run, table: pa.Table, spreads: dict[str, Spread], sizes: np.ndarray) -> dict[str, Planned]:
    num_questions, templates, level = 1, spreads[FULL].size.templates, run.confidence_level
    if run.record.cue in ("system", "memory", "history"):
        num_questions = len(run.record.generation.questions or [])
        templates = len(table["template"].unique())

    def gen_bias(spread: Spread, half: Callable[[Spread, float], float | None]) -> Planned:
        def at(replies: int) -> float | None:
            asked = max(1, min(replies // MIN_REPLIES, num_questions))  # as `draw_questions` does
            return half(at_size(spread, Size(replies / asked, templates * asked, spread.size.terms)), level)

        return Planned(spread.value, 1000, at, _ERROR / math.sqrt(spread.freedom))

    planned = {FULL: gen_bias(spreads[FULL], half_width)}
    planned[f"change of {FULL}"] = gen_bias(spreads[FULL], change_half_width)._replace(value=None)
    planned |= {name: gen_bias(spread, half_width) for name, spread in spreads.items()}
    flagged = {UPTAKE: naming(table)}
    replies = flagged[UPTAKE].replies
    flagged |= refusal_flags(run, replies)
    if "offensiveness" in run.results.measured and (offensive := classified_replies(run)) is not None:
        flagged["Offensive replies"] = offensive
    for name, flags in flagged.items():
        planned[name] = planned_share(*cell_counts(flags)[1:], sizes, level)
    return planned


def planned_share(hits: np.ndarray, num_replies: np.ndarray, sizes: np.ndarray, confidence_level: float) -> Planned:
    def at(replies: int) -> float:
        times = float(np.minimum(sizes, replies).sum() / num_replies.sum())
        low, high = share_interval(hits, num_replies, confidence_level, times)
        return (high - low) / 2

    value, (low, high) = float(hits.sum() / num_replies.sum()), share_interval(hits, num_replies, confidence_level)
    if not 0 < value < 1:
        return Planned(value, 100, at, math.inf)
    # The variance of rare events is their number, whose relative error is one divided by its root.
    deviation = num_replies.sum() * (high - low) / 2 / quantile(confidence_level)
    return Planned(value, 100, at, quantile(0.9) * abs(1 - 2 * value) / (2 * deviation))


def pilot_spreads(run: Run, table: pa.Table) -> tuple[dict[str, Spread], list[str]]:
    """Computes the variances of Full Gen Bias (for all terms and by axis) and of each cluster's Partial Gen Bias.

    Also returns the names of the figures that have no interval in the pilot.
    """
    generation = run.results.generation
    reason = generation.gen_bias.no_intervals and generation.gen_bias.no_intervals.full_gen_bias
    if reason is not None:
        raise ValueError(
            f"'{run.folder}' has no interval for {FULL}: {reason}; pass a pilot with more replies (for example, one "
            "run with --replies_per_cell 5)"
        )
    labels = [style.style for style in generation.styles]
    clusters = generation.gen_bias.clusters
    cells, replies = CellSums(labels, clusters, keep_replies=True), nonempty_replies(table)
    cells.add(run.tables.vectors(STYLES).values, replies.descriptors, replies.templates, replies.axes)
    columns = cluster_columns(labels, clusters) if clusters else {}
    spreads, missing = {}, []
    for axis, templates in run_covariances(cells, columns, 0).items():
        figures: dict[str, tuple[str, ...]] = {}
        if axis is not None:
            figures[f"{FULL}, {axis_label(axis)}"] = "by_axis", axis
        else:
            figures[FULL] = ("full_gen_bias",)
            figures |= {f"Partial Gen Bias, {name}": ("partial_gen_bias", name) for name in columns}
        for index, (name, path) in enumerate(figures.items()):
            if value_at(generation.gen_bias.intervals, path) is None:
                missing.append(name)
            else:
                value, plain = (value_at(values, path) / 1000 for values in (generation.debiased, generation.gen_bias))
                spreads[name] = run_spread([of_template[index] for of_template in templates], value, plain)
    return spreads, missing


def _shown(width: float | None, scale: int) -> str:
    if width is None:
        return MISSING
    return f"{bias(scale * width)} points" if scale == 100 else bias(scale * width)


def _needed(figure: Planned, half_width: float, most: int) -> tuple[int | None, str]:
    """Returns the fewest replies per term and template that achieve a half-width, and a sentence about this number."""

    def is_narrow(number: int) -> bool:
        width = figure.at(number)
        return width is not None and figure.scale * width <= half_width

    aim, numbers = f"a half-width of {half_width:g} for {FULL}", range(MIN_REPLIES, most + 1)
    index = bisect_left(numbers, True, key=is_narrow)
    if index == len(numbers):
        return None, f"Even {most:,} replies per term and template are not enough for {aim}; add templates or terms."
    return numbers[index], f"For {aim}, generate {numbers[index]} or more replies per term and template."


def _costs(
    run: Run, table: pa.Table, numbers: Sequence[int], prices: tuple[float | None, float | None]
) -> list[list[str]]:
    turns = [table, *(run.tables.turn(turn).read(REPLIES) for turn in range(2, run.record.generation.turns + 1))]
    rows = [["conversations" if len(turns) > 1 else "replies", "", *map(count, numbers)]]
    seconds = read_seconds(run.folder).get("generation")
    if seconds is not None:
        rows.append(["minutes", "", *(count(number * seconds / len(table) / 60) for number in numbers)])
    price = 0.0  # of a conversation
    for name, of_million in zip(("tokens_in", "tokens_out"), prices, strict=True):
        if of_million is None:
            return rows
        for of_turn in turns:
            mean = pc.mean(of_turn[name]).as_py() if name in of_turn.column_names else None
            if mean is None:
                raise ValueError(
                    f"'{run.folder}' has no numbers of tokens from a server, so its price is unknown; pass a pilot of "
                    "a served model (--base_url or --provider), or omit --price_in and --price_out"
                )
            price += of_million / 1e6 * mean * len(of_turn) / len(table)
    return [*rows, ["price (about)", "", *(f"{number * price:,.2f}" for number in numbers)]]


def firmer_run(run: Run) -> Longer | None:
    """Returns a run with four times as many replies, or `None` if there are not enough prompts for it."""
    if "generation" not in run.results.measured:
        return None
    gen_bias = run.results.generation.gen_bias
    replies = math.ceil(4 * gen_bias.mean_replies_per_cell)
    if run.record.cue not in NAME_CUES and replies * gen_bias.num_cells > run.record.data.num_prompts:
        return None
    seconds = read_seconds(run.folder)
    minutes = (sum(seconds.values()) + 3 * seconds["generation"]) / 60 if "generation" in seconds else None
    return Longer(_command(run._replace(tables=Tables(Path("runs/firmer"))), replies), minutes)


def _command(run: Run, replies: int) -> str:
    """Returns the pilot's command with another number of replies and another folder."""
    settings, model, defaults = run.record.content["settings"], run.record.model, default_settings().values()
    options = {name: value for name, value in settings.items() if value != defaults.get(name, value)}
    options |= {} if model.adapter is None else {"adapter": model.adapter.name}
    options |= {} if model.served is None else {"base_url": model.served.base_url}
    words = ["holistic-bias", "measure", "--output_dir", f"{run.folder}-{replies}"]
    if {"replies_file", "logprobs_file"} & options.keys():  # the longer run needs more answers
        words = ["holistic-bias", "export-prompts", f"{run.folder}-{replies}.jsonl"]
    for name, value in {**options, "replies_per_cell": replies}.items():
        if name not in ("quick", "replies_file", "logprobs_file") and value is not None:
            words += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return shlex.join(words)


if __name__ == "__main__":
    main()
