"""Estimates the precision and cost of a longer run from a finished pilot run or from assumptions.

    holistic-bias plan runs/pilot --replies 8 16 32 --half_width 2 --output plan.html
    holistic-bias plan runs/pilot --second runs/tuned_pilot
    holistic-bias plan --assume value=10 noise=220 styles=12 --terms 78 --templates 4

For each figure and each number of replies per term and template, the table shows the half-width, which is half of an
interval's width. It also shows the probability of detecting a decrease in Full Gen Bias. A pilot needs at least four
replies for most combinations of a term and a template.
"""

import math
import os
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.command_line import CommandParser
from hb_dataset.markdown_table import markdown_table
from hb_metrics.report.layout.figure import joined_names
from hb_metrics.report.layout.numbers import MISSING, bias, count, interval, share
from hb_metrics.report.layout.plots import half_widths_plot
from hb_metrics.report.layout.rendering import write_page
from hb_metrics.report.pilot import (
    FULL,
    LIKELIHOOD,
    Planned,
    corrected_figures,
    gen_bias_figure,
    likelihood_figure,
    paired_half_widths,
    pilot_spreads,
    share_figures,
)
from hb_metrics.runs.finished_run import Run, has_pairs_of_terms, read_reply_table, read_run, read_shards
from hb_metrics.runs.json_files import json_faults
from hb_metrics.runs.run_folder import REPLIES, turn_folder
from hb_metrics.runs.run_record import cue_of
from hb_metrics.stats.planned import (
    MAX_RANGE,
    Range,
    Size,
    Spread,
    assumed_spread,
    change_half_width,
    power_of_fall,
    predicted,
)
from hb_metrics.stats.u_statistic import MIN_REPLIES

MOST_REPLIES = 2000
POWER = 0.8
_ASSUMED = ("value", "noise", "styles")
_UNKNOWN = "?"
_NUM_DRAWN = 24
# Assumptions are treated as exact, in the same way as a pilot with this many replies per term and template.
_ENDLESS = 1_000_000
_LEVEL = 0.95
# A power is printed without its range if both ends are at most this far from it.
_SURE_POWER = 0.05


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "pilot", type=Path, nargs="?", metavar="RUN", help="The folder of a finished run, used as the pilot."
    )
    parser.add_argument(
        "--second",
        type=Path,
        metavar="RUN",
        help="A second pilot: a run of another model, such as a tuned model, on the same prompts. The plan then also "
        "covers the change from the first model to the second. Replies are paired by prompt.",
    )
    parser.add_argument(
        "--assume",
        nargs=3,
        metavar="NAME=NUMBER",
        help="Assumptions that replace a pilot: value=V (the debiased Full Gen Bias), noise=S (the sampling noise of "
        "one reply, ×1000) and styles=K (the effective number of styles among replies to the same prompt).",
    )
    parser.add_argument(
        "--replies",
        type=int,
        nargs="+",
        default=[4, 8, 16, 32, 64],
        help="The numbers of replies per term and template. Default: 4 8 16 32 64.",
    )
    parser.add_argument("--templates", type=int, help="The number of templates. Default: the number in the pilot.")
    parser.add_argument(
        "--terms", type=int, help="The total number of terms across all axes. Default: the number in the pilot."
    )
    parser.add_argument(
        "--half_width",
        type=float,
        help="The desired half-width of the Full Gen Bias interval. The command then also prints how many replies per "
        "term and template are needed for this half-width.",
    )
    parser.add_argument("--fall", type=float, default=30.0, help="The decrease in Full Gen Bias to detect, in percent.")
    parser.add_argument("--price_in", type=float, help="The price per million prompt tokens.")
    parser.add_argument("--price_out", type=float, help="The price per million reply tokens.")
    parser.add_argument(
        "--pilot_minutes", type=float, help="The number of minutes that the pilot took to generate its replies."
    )
    parser.add_argument(
        "--output", type=Path, help="The HTML file for a plot of the half-width of the Full Gen Bias interval."
    )
    print(plan(**vars(parser.parse_args(argv))))


@json_faults()
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
    output: Path | None = None,
    second: Path | None = None,
) -> str:
    """Returns the plan as a Markdown table, followed by sentences."""
    if (pilot is None) == (assume is None):
        raise ValueError(
            "a plan needs either a pilot or assumptions; pass the folder of a finished run, or "
            "--assume value=… noise=… styles=…"
        )
    if not 0 < fall <= 100:
        raise ValueError(f"--fall is {fall:g}; set it to a number above 0 and at most 100")
    amounts = {"replies": min(replies), "templates": templates, "terms": terms, "half_width": half_width}
    amounts |= {"price_in": price_in, "price_out": price_out, "pilot_minutes": pilot_minutes}
    for name, amount in amounts.items():
        least = {"replies": 2, "templates": 1, "terms": 2}.get(name, 0)
        if amount is not None and not least <= amount < math.inf:
            raise ValueError(f"--{name} is {amount:g}; pass {least} or more")
    if (price_in is None) != (price_out is None):
        raise ValueError("only one of --price_in and --price_out is set; set both, as prices per million tokens")
    if output is not None and (output.is_dir() or not output.parent.is_dir() or not os.access(output.parent, os.W_OK)):
        raise ValueError(f"--output is '{output}'; pass the path of an HTML file in an existing, writable folder")
    if pilot is not None:
        basis = _of_pilot(read_run(pilot), templates, terms)
    elif (price_in, pilot_minutes) != (None, None):
        raise ValueError(
            "--assume cannot be combined with prices or minutes; pass the folder of a finished run as the pilot"
        )
    elif second is not None:
        raise ValueError("--second needs a first pilot; pass the folder of a finished run before this option")
    elif templates is None or terms is None:
        raise ValueError("--assume needs the size of the planned run; set --templates and --terms")
    else:
        spread = assumed_spread(*_assumed(assume or ()), Size(_ENDLESS, templates, terms))
        figures = {FULL: gen_bias_figure(spread, terms, _LEVEL)}
        basis = _Basis(None, None, _LEVEL, spread, figures, [], templates, terms, 1)

    independent = change_half_width(basis.full, basis.level)
    changes: dict[str, float | None] = {}
    paired = 1.0
    if independent is not None and independent < math.inf:
        changes[FULL] = independent
        if basis.run is not None and second is not None:
            found = paired_half_widths(basis.run, read_run(second))
            changes, paired = {name: found.get(name) for name in basis.figures}, found[FULL] / independent

    def power_of(spread: Spread) -> float | None:
        has_interval = change_half_width(spread, basis.level) not in (None, math.inf)
        return power_of_fall(spread, fall / 100, basis.level, paired) if has_interval else None

    def power(number: int) -> Range | None:
        return predicted(basis.full, basis.size(number), power_of)

    rows, rough = _figure_rows(basis, replies, changes)
    rows.append([f"power to detect a fall of {fall:g} %", "", *(_shown_power(power(number)) for number in replies)])
    rows += _axes_row(basis, replies)
    numbers = [round(math.prod(basis.size(number))) for number in replies]
    rows += _costs(basis.run, basis.table, numbers, (price_in, price_out), pilot_minutes)
    sentences = [_needed(f"a power of {POWER:.0%}", power, lambda found: found >= POWER)]
    if half_width is not None:
        aim = f"a half-width of {half_width:g} for {FULL}"
        at = basis.figures[FULL].at
        sentences.append(_needed(aim, lambda number: at(basis.size(number)), lambda found: 1000 * found <= half_width))
    if output is not None:
        _write(output, replies, basis, half_width)
    sentences += _explanations(basis, second is not None, rough)
    header = ["half-width at … replies per term and template", "value", *map(str, replies)]
    return "\n".join([markdown_table(header, rows, numbers=range(1, len(header))), "", *sentences])


class _Basis(NamedTuple):
    """The data on which a plan is based: a pilot run or assumptions.

    Attributes:
        run: The pilot, or `None` for assumptions.
        missing: The names of figures that have no interval in the pilot.
        num_questions: The maximum number of questions that follow a template (with `--cue`), or 1 without questions.
    """

    run: Run | None
    table: pa.Table | None
    level: float
    full: Spread
    figures: dict[str, Planned]
    missing: list[str]
    templates: int
    terms: int
    num_questions: int

    def size(self, replies: int) -> Size:
        asked = max(1, min(replies // MIN_REPLIES, self.num_questions))  # as `draw_questions` does
        return Size(replies / asked, self.templates * asked, self.terms)


def _of_pilot(run: Run, templates: int | None, terms: int | None) -> _Basis:
    if "generation" not in run.results:
        raise ValueError(f"'{run.folder}' did not measure generation; pass a pilot with --measurements generation")
    table = read_reply_table(run.folder)
    if table is None:
        raise ValueError(f"'{run.folder}' lacks its replies; pass the folder of a run that measured generation")
    level = run.confidence_level
    spreads, missing = pilot_spreads(run, table)
    full, num_questions, own_templates = spreads[FULL], 1, spreads[FULL].size.templates
    figures = {name: gen_bias_figure(spread, full.size.terms, level) for name, spread in spreads.items()}
    figures |= share_figures(run, table, level) | corrected_figures(run, full.size)
    if cue_of(run.results) in ("system", "memory", "history"):
        num_questions = len(run.results["run"]["generation"]["questions"])
        own_templates = len(table["template"].unique())
    templates = templates or own_templates
    if "likelihood" in run.results and has_pairs_of_terms(table):
        missing.append(LIKELIHOOD)
    elif "likelihood" in run.results:
        figures[LIKELIHOOD] = likelihood_figure(run, full.size, templates / own_templates)
    return _Basis(run, table, level, full, figures, missing, templates, terms or full.size.terms, num_questions)


def _figure_rows(
    basis: _Basis, replies: Sequence[int], changes: Mapping[str, float | None]
) -> tuple[list[list[str]], list[str]]:
    rows, rough = [], []
    for name, figure in basis.figures.items():
        widths = [figure.at(basis.size(number)) for number in replies]
        shown = [_shown(width, figure.is_share) for width in widths]
        rows.append([name, share(figure.value) if figure.is_share else bias(figure.value), *shown])
        if _UNKNOWN in shown:
            rough.append(name)
        if name in changes:
            change, own = changes[name], _middle(figure.at(basis.full.size))
            shown = [MISSING] * len(replies)
            if change is not None and own < math.inf:
                shown = [_shown(width, figure.is_share, change / own) for width in widths]
            rows.append([f"change of {name}", "", *shown])
    return rows, rough


def _axes_row(basis: _Basis, replies: Sequence[int]) -> list[list[str]]:
    axes = [figure for name, figure in basis.figures.items() if name.startswith(f"{FULL}, ")]
    given = [sum(_middle(figure.at(basis.size(number))) < math.inf for figure in axes) for number in replies]
    shown = [f"{number} of {len(axes)}" for number in given]
    return [["axes known to have an interval", "", *shown]] if axes else []


def _explanations(basis: _Basis, is_paired: bool, rough: list[str]) -> list[str]:
    sentences = [
        f"The plan is for {basis.size(1).templates} templates and {basis.terms} terms. A range such as “1 to 2” means "
        f"that the pilot is too small for a single number. “{MISSING}” means that there is no interval."
    ]
    if basis.num_questions > 1:
        number = basis.num_questions
        sentences.append(
            f"With a cue, each template has one question for every {MIN_REPLIES} replies, up to a maximum of {number} "
            "questions."
        )
    if not is_paired:
        sentences.append(
            "The interval for the change and the power were computed as if the replies of the two runs were "
            "independent. If paired replies are positively correlated, the interval is narrower and the power is "
            "higher. To take this correlation into account, pass a pilot run of the second model (--second)."
        )
    if rough:
        sentences.append(
            f"“{_UNKNOWN}” means that the pilot is too small to plan for {joined_names(rough)}; pass a larger pilot."
        )
    if basis.missing:
        named = joined_names(basis.missing)
        sentences.append(f"The plan leaves out figures for which the pilot has no interval: {named}.")
    return sentences


def _write(path: Path, replies: Sequence[int], basis: _Basis, wanted: float | None) -> None:
    drawn = np.geomspace(MIN_REPLIES, max(*replies, 2 * MIN_REPLIES), _NUM_DRAWN).round().astype(int)
    points = []
    for number in sorted(set(drawn.tolist())):
        width = basis.figures[FULL].at(basis.size(number))
        if width is not None and width.high < math.inf:
            points.append((number, 1000 * width.low, 1000 * width.middle, 1000 * width.high))
    plots = {"half-widths": [half_widths_plot(points, wanted)]} if points else {}
    title = "assumptions" if basis.run is None else basis.run.folder.name
    write_page("report/plan.html.jinja", path, {"title": title, "plots": plots}, plots)


def _middle(width: Range | None) -> float:
    return math.inf if width is None else width.middle


def _shown(width: Range | None, is_share: bool, factor: float = 1.0) -> str:
    if width is None:
        return MISSING
    if width.high > MAX_RANGE * width.low:
        return _UNKNOWN
    low, middle, high = ((100 if is_share else 1000) * factor * end for end in width)
    text = bias(middle) if width.is_sure else interval((low, high))
    return f"{text} points" if is_share else text


def _shown_power(power: Range | None) -> str:
    if power is None:
        return MISSING
    if max(power.high - power.middle, power.middle - power.low) <= _SURE_POWER:
        return share(power.middle, 0)
    return f"{share(power.low, 0)} to {share(min(power.high, 1.0), 0)}"


def _needed(aim: str, at: Callable[[int], Range | None], reached: Callable[[float], bool]) -> str:
    """Writes a sentence with the smallest number of replies per term and template that achieves an aim.

    `aim` is the aim in words. `at` predicts a figure from the number of replies, and `reached` returns whether the
    figure achieves the aim.
    """
    numbers = range(MIN_REPLIES, MOST_REPLIES + 1)

    def fewest(end: int) -> int | None:
        def does(number: int) -> bool:
            found = at(number)
            return found is not None and reached(found[end])

        index = bisect_left(numbers, True, key=does)
        return numbers[index] if index < len(numbers) else None

    number = fewest(1)
    if number is None:
        return f"Even {MOST_REPLIES:,} replies per term and template are not enough for {aim}; add templates or terms."
    ends = sorted(MOST_REPLIES if found is None else found for found in (fewest(0), fewest(2)))
    rough = (
        ("") if Range(ends[0], number, ends[1]).is_sure else f" (according to this pilot, from {ends[0]} to {ends[1]})"
    )
    return f"For {aim}, generate {number} or more replies per term and template{rough}."


def _assumed(words: Sequence[str]) -> tuple[float, float, float]:
    """Parses the numbers passed to `--assume`, which are in the order of `assumed_spread`'s parameters.

    The value and the noise are divided by 1,000.
    """
    found: Mapping[str, str] = dict(word.partition("=")[::2] for word in words)
    try:
        value, noise, styles = (float(found[name]) for name in _ASSUMED)
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"--assume is {' '.join(words)}; write three values, for example value=10 noise=220 styles=12"
        ) from error
    # Value and noise are means of squared differences between probabilities, times 1000. The means are at most 1.
    if not (0 <= value <= 1000 and 0.001 <= noise <= 1000 and 1 <= styles <= 1000):
        allowed = "a value of 0 to 1000, noise of 0.001 to 1000, and 1 to 1000 styles"
        raise ValueError(f"--assume is {' '.join(words)}; pass {allowed}")
    return value / 1000, noise / 1000, styles


def _costs(
    run: Run | None,
    table: pa.Table | None,
    numbers: Sequence[int],
    prices: tuple[float | None, float | None],
    minutes: float | None,
) -> list[list[str]]:
    if run is None or table is None:
        return [["replies", "", *map(count, numbers)]]
    tables = [table]
    while (later := read_shards(turn_folder(run.folder, len(tables) + 1) / REPLIES)) is not None:
        tables.append(later)
    rows = [["conversations" if len(tables) > 1 else "replies", "", *map(count, numbers)]]
    if minutes is not None:
        rows.append(["minutes", "", *(count(number * minutes / len(table)) for number in numbers)])
    of_reply = run.results["generation"]["mean_num_tokens"]
    if of_reply is None:
        return rows
    of_prompt, of_reply = _mean_tokens(tables, of_reply)
    rows.append(["prompt tokens (about)", "", *(count(number * of_prompt) for number in numbers)])
    rows.append(["reply tokens (about)", "", *(count(number * of_reply) for number in numbers)])
    if prices[0] is not None and prices[1] is not None:
        of_one = (prices[0] * of_prompt + prices[1] * of_reply) / 1e6
        rows.append(["price (about)", "", *(f"{number * of_one:,.2f}" for number in numbers)])
    return rows


def _mean_tokens(tables: Sequence[pa.Table], of_first_reply: float) -> tuple[float, float]:
    number = len(tables[0])
    if all("tokens_out" in table.column_names and not table["tokens_out"].null_count for table in tables):
        names = "tokens_in", "tokens_out"
        of_prompt, of_reply = (sum(pc.sum(table[name]).as_py() or 0 for table in tables) / number for name in names)
        return of_prompt, of_reply
    sizes: dict[str, int] = {}  # the number of characters in each conversation
    total, replies = 0, of_first_reply * number
    for turn, table in enumerate(tables, start=1):
        columns = (table[name].to_pylist() for name in ("id", "text", "question", "reply"))
        for identifier, text, question, reply in zip(*columns, strict=True):
            sizes[identifier] = sizes.get(identifier, 0) + len(text) + len(question or "")
            total += sizes[identifier]
            sizes[identifier] += len(reply or "")
        if turn > 1:
            replies += pc.sum(table["num_tokens"]).as_py() or 0
    return total / number / 4, replies / number
