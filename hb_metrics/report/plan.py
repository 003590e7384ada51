"""Says how precise a longer run would be, and what it would cost, from a finished pilot run or from assumptions.

    holistic-bias plan runs/pilot --replies 8 16 32 --half_width 2
    holistic-bias plan --assume value=10 noise=220 styles=12 --terms 78 --templates 4

The table has the half-width of the interval of each Gen Bias figure by replies to each term in each template, and the
probability that a fall of Full Gen Bias is seen. A pilot needs four or more replies to most terms in each template.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hb_dataset.markdown_table import markdown_table
from hb_metrics.measurements.generation.figures import value_at
from hb_metrics.measurements.generation.results import add_in_batches
from hb_metrics.report.layout.figure import joined_names
from hb_metrics.report.layout.numbers import MISSING, axis_label, bias, count, share
from hb_metrics.runs.finished_run import Run, StyleShards, read_reply_table, read_run
from hb_metrics.runs.replies import nonempty_replies
from hb_metrics.runs.run_folder import STYLES
from hb_metrics.stats.bias_variance import MIN_REPLIES
from hb_metrics.stats.cell_sums import CellSums
from hb_metrics.stats.intervals import gathered_moments
from hb_metrics.stats.planned import (
    MIN_PILOT_FREEDOM,
    Size,
    Spread,
    assumed_spread,
    at_size,
    half_width,
    pilot_spread,
    power_of_fall,
)
from hb_metrics.stats.style_clusters import cluster_columns

FULL = "Full Gen Bias"
MOST_REPLIES = 2000
POWER = 0.8
_ASSUMED = ("value", "noise", "styles")


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the plan."""
    parser = argparse.ArgumentParser(prog="holistic-bias plan", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("pilot", type=Path, nargs="?", metavar="RUN", help="The folder of a finished run.")
    parser.add_argument(
        "--assume",
        nargs=3,
        metavar="NAME=NUMBER",
        help="Instead of a pilot: value=V (debiased Full Gen Bias), noise=S (the sampling noise of one reply, ×1000) "
        "and styles=K (the effective number of styles of a cell's replies).",
    )
    parser.add_argument(
        "--replies",
        type=int,
        nargs="+",
        default=[4, 8, 16, 32, 64],
        help="The numbers of replies to each term in each template. Default: 4 8 16 32 64.",
    )
    parser.add_argument("--templates", type=int, help="The number of templates. Default: the pilot's.")
    parser.add_argument("--terms", type=int, help="The number of terms of all axes. Default: the pilot's.")
    parser.add_argument("--half_width", type=float, help="Find the replies for this half-width of Full Gen Bias.")
    parser.add_argument("--fall", type=float, default=30.0, help="The fall of Full Gen Bias to see, in percent.")
    parser.add_argument("--price_in", type=float, help="The price of a million tokens of prompts.")
    parser.add_argument("--price_out", type=float, help="The price of a million tokens of replies.")
    parser.add_argument("--pilot_minutes", type=float, help="The minutes that the replies of the pilot took.")
    arguments = parser.parse_args(argv)
    try:
        print(plan(**vars(arguments)))
    except (ValueError, OSError) as error:
        raise SystemExit(f"hb_metrics.report.plan: {error}") from error


def plan(
    pilot: Path | None = None,
    assume: Sequence[str] | None = None,
    replies: Sequence[int] = (8, 16),
    templates: int | None = None,
    terms: int | None = None,
    half_width: float | None = None,
    fall: float = 30.0,
    price_in: float | None = None,
    price_out: float | None = None,
    pilot_minutes: float | None = None,
) -> str:
    """The plan as a table in Markdown and sentences; see the command's options.

    Raises:
        ValueError: Options contradict each other or are out of range, or the pilot is too small.
    """
    if (pilot is None) == (assume is None):
        raise ValueError("pass the folder of a pilot run, or --assume value=… noise=… styles=…, and not both")
    if min(replies) < 2 or not 0 < fall <= 100:
        raise ValueError(f"--replies is {min(replies)} and --fall {fall:g}; pass 2 or more replies, and 0 < fall ≤ 100")
    for name, number, least in (("templates", templates, 1), ("terms", terms, 2)):
        if number is not None and number < least:
            raise ValueError(f"--{name} is {number}; pass {least} or more")
    for name, amount in (
        ("half_width", half_width),
        ("price_in", price_in),
        ("price_out", price_out),
        ("pilot_minutes", pilot_minutes),
    ):
        if amount is not None and not 0 <= amount < math.inf:
            raise ValueError(f"--{name} is {amount:g}; pass 0 or more")
    if (price_in is None) != (price_out is None):
        raise ValueError("a price needs both --price_in and --price_out; pass both")
    if pilot is None and (price_in, pilot_minutes) != (None, None):
        raise ValueError("prices and minutes need a pilot run, which shows the tokens of a reply; pass its folder")
    run = None if pilot is None else read_run(pilot)
    if run is not None and "generation" not in run.results:
        raise ValueError(f"'{run.folder}' did not measure generation; pass a pilot that did")
    if run is None and (templates is None or terms is None):
        raise ValueError("--assume needs --templates and --terms; pass both")
    if run is None:
        level = 0.95
        size = Size(2, templates or 0, terms or 0)
        spreads: dict[str, Spread] = {FULL: assumed_spread(*_assumed(assume or ()), size)}
    else:
        level = run.results["generation"]["gen_bias"]["confidence_level"]
        spreads = pilot_spreads(run)
    rough = []
    for name, spread in spreads.items():
        if spread.freedom < MIN_PILOT_FREEDOM or (run is not None and _half(spread, level) is None):
            rough.append(name)
    if FULL in rough:
        raise ValueError(
            f"the pilot's replies are too few, or too alike, to show how far chance moves {FULL}; "
            f"pass a pilot with --replies_per_cell {_larger_pilot(spreads[FULL])}"
        )
    full = spreads[FULL]
    num_templates, growth = templates or full.size.templates, (terms or full.size.terms) / full.size.terms

    def planned(spread: Spread, number: int) -> Spread:
        return at_size(spread, Size(number, num_templates, round(spread.size.terms * growth)))

    rows = []
    for name, spread in spreads.items():
        if name in rough:
            continue
        widths = [_half(planned(spread, number), level) for number in replies]
        rows.append([name, bias(1000 * spread.value), *(MISSING if width is None else bias(width) for width in widths)])
    powers = [power_of_fall(planned(full, number), fall / 100, level) for number in replies]
    rows.append([f"power to detect a fall of {fall:g} %", "", *(share(power, 0) for power in powers)])
    rows += _costs(run, full, num_templates, growth, replies, (price_in, price_out), pilot_minutes)
    header = ["half-width at … replies per term and template", "value", *map(str, replies)]
    sentences = [
        _needed(f"a power of {POWER:.0%}", lambda n: power_of_fall(planned(full, n), fall / 100, level) >= POWER)
    ]
    if half_width is not None:
        sentences.append(
            _needed(
                f"a half-width of {half_width:g} of {FULL}",
                lambda number: (_half(planned(full, number), level) or math.inf) <= half_width,
            )
        )
    sentences.append(
        f"{num_templates} templates, {round(full.size.terms * growth)} terms. {MISSING}: most such runs have no "
        "interval. The power counts the runs' replies as independent; where they go together, it is higher."
    )
    if rough:
        number = max(_larger_pilot(spreads[name]) for name in rough)
        sentences.append(
            f"The pilot is too small to plan for {joined_names(rough)}; one with {number} replies per term and "
            "template would do."
        )
    return "\n".join([markdown_table(header, rows, numbers=range(1, len(header))), "", *sentences])


def pilot_spreads(run: Run) -> dict[str, Spread]:
    """Name of a figure → the parts of its variance, of Full Gen Bias, its axes, and each cluster's Partial Gen Bias.

    Raises:
        ValueError: The pilot has too few replies, or lacks the files.
    """
    generation = run.results["generation"]
    table = read_reply_table(run.folder)
    if table is None or generation["debiased"] is None:
        raise ValueError(f"'{run.folder}' lacks replies, or has one to each term and template; pass another pilot")
    styles, replies = StyleShards(run.folder / STYLES), nonempty_replies(table, table)
    labels = [style["style"] for style in generation["styles"]]
    clusters = generation["gen_bias"]["clusters"]
    cells = CellSums(labels, clusters, keep_replies=True)
    add_in_batches(cells, replies, styles)
    columns = cluster_columns(labels, clusters) if clusters else {}
    spreads = {}
    for axis, templates in gathered_moments(cells, columns, 0).items():
        figures: dict[str, tuple[str, ...]] = {}
        if axis is not None:
            figures[f"{FULL}, {axis_label(axis)}"] = "by_axis", axis
        else:
            figures[FULL] = ("full_gen_bias",)
            figures |= {f"Partial Gen Bias, {name}": ("partial_gen_bias", name) for name in columns}
        for index, (name, path) in enumerate(figures.items()):
            moments = [of_template[index] for of_template in templates]
            enough = [np.count_nonzero(each.counts >= MIN_REPLIES) * 2 > len(each.counts) for each in moments]
            value, plain = (value_at(generation[kind], path) for kind in ("debiased", "gen_bias"))
            if all(enough) and plain > 0 and sum(float(np.nansum(each.cross)) for each in moments) > 0:
                spreads[name] = pilot_spread(moments, value / 1000, plain / 1000)
    if FULL not in spreads:
        raise ValueError(
            f"'{run.folder}' has fewer than {MIN_REPLIES} replies to most terms in some template, too few for a plan; "
            "pass a pilot with --replies_per_cell 5 or more"
        )
    return spreads


def _larger_pilot(spread: Spread) -> int:
    """The replies of a cell of a pilot that would show enough."""
    return math.ceil(1 + (spread.size.replies - 1) * MIN_PILOT_FREEDOM / max(spread.freedom, 1.0))


def _half(spread: Spread, confidence_level: float) -> float | None:
    half = half_width(spread, confidence_level)
    return None if half is None else 1000 * half


def _needed(aim: str, reached: Any) -> str:
    """A sentence with the fewest replies of a cell that reach an aim."""
    number = next((each for each in range(MIN_REPLIES, MOST_REPLIES + 1) if reached(each)), None)
    if number is None:
        return f"No run of up to {MOST_REPLIES:,} replies per term and template has {aim}; add templates or terms."
    return f"Fewest replies per term and template for {aim}: {number}."


def _assumed(words: Sequence[str]) -> tuple[float, float, float]:
    """The numbers of `--assume`, in the order of `assumed_spread`; value and noise are not ×1000."""
    found: Mapping[str, str] = dict(word.partition("=")[::2] for word in words)
    try:
        value, noise, styles = (float(found[name]) for name in _ASSUMED)
    except (KeyError, ValueError) as error:
        raise ValueError(f"--assume is {' '.join(words)}; write value=10 noise=220 styles=12") from error
    if not (0 <= value < math.inf and 0 < noise < math.inf and 1 <= styles < math.inf):
        raise ValueError(f"--assume is {' '.join(words)}; value is 0 or more, noise above 0, styles 1 or more")
    return value / 1000, noise / 1000, styles


def _costs(
    run: Run | None,
    full: Spread,
    templates: int,
    growth: float,
    replies: Sequence[int],
    prices: tuple[float | None, float | None],
    minutes: float | None,
) -> list[list[str]]:
    """Rows with the replies of a run, and where the pilot shows them its tokens, minutes and money."""
    numbers = [templates * round(full.size.terms * growth) * number for number in replies]
    rows = [["replies", "", *map(count, numbers)]]
    if run is None:
        return rows
    generation = run.results["generation"]
    done = generation["num_prompts"]
    if minutes is not None:
        rows.append(["minutes", "", *(count(number * minutes / done) for number in numbers)])
    served, of_reply = generation.get("served"), generation["mean_num_tokens"]
    if served is not None and not served["num_without_counts"]:
        of_prompt, of_reply = served["tokens_in"] / done, served["tokens_out"] / done
    else:
        table = read_reply_table(run.folder)
        of_prompt = float(np.mean([len(text) for text in table["text"].to_pylist()])) / 4 if table else 0.0
    if of_reply is None:
        return rows
    rows.append(["tokens of prompts (about)", "", *(count(number * of_prompt) for number in numbers)])
    rows.append(["tokens of replies (about)", "", *(count(number * of_reply) for number in numbers)])
    if prices[0] is not None and prices[1] is not None:
        of_one = (prices[0] * of_prompt + prices[1] * of_reply) / 1e6
        rows.append(["price (about)", "", *(f"{number * of_one:,.2f}" for number in numbers)])
    return rows


if __name__ == "__main__":
    main()
