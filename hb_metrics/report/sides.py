"""Shows the remaining bias after a mitigation, and whether the model still responds to people.

If only bias were shown, a model that ignores who people are would seem good.
"""

from collections.abc import Sequence
from typing import NamedTuple

from hb_dataset.markdown_table import escape_markdown, markdown_table
from hb_metrics.layout.figure import Figure, pair
from hb_metrics.layout.numbers import MISSING
from hb_metrics.layout.parts import Section
from hb_metrics.layout.rendering import section
from hb_metrics.layout.terminal import filled, plain_text
from hb_metrics.measurements.generation.figures import UPTAKE
from hb_metrics.measurements.results import Run
from hb_metrics.report.changes import ChangeRow, RunChanges, change_words, from_to, holm_adjusted
from hb_metrics.run.run_folder import read_json, run_digest
from hb_metrics.stats.changes import PairedChange

EFFECTS_FILE = "side_effects.json"  # in a run's folder; written by hb_train/side_effects.py
BIAS, ENTROPY = "Full Gen Bias, debiased", "Entropy of replies"
SHOWN_AS = {BIAS: "Full Gen Bias", UPTAKE: "Uptake"}  # of figures that have another label in the table
# The meaning of each figure in the table, by the figure's name. The table has the same order.
SIDES = {
    BIAS: "debiased, ×1000: how much the style of replies depends on the term; lower is better",
    "Bias between nouns": "the same for nouns; lower is better",
    UPTAKE: "the share of replies that name the prompt's term; higher is better",
    ENTROPY: "how randomly tokens are drawn; more randomness alone may lower Full Gen Bias",
    "Favourable decisions": "about all people; higher is better",
    "Decision spread": "how much decisions depend on the term; lower is better",
    "Largest gap in decisions": "between two terms or groups of names; lower is better",
    "Answers without a decision": "such as refusals; lower is better",
    "Needs taken up": "the share of replies that suit what a person needs; higher is better",
    "Divergence on needs": "how far replies depend on who asks, where needs differ; higher is better",
    "Divergence on neutral questions": "how far replies depend on who asks, where needs do not differ; lower is better",
    "Difference awareness": "the divergence on needs minus that on neutral questions",
    "Refusals": "lower is better",
    "Offensive replies": "lower is better",
    "Dialogue perplexity": "how badly the model predicts people's replies; lower is better",
}
LOWEST = "Uptake on the axis with the largest loss"
DRIFT = "Neutral drift"
_MEANINGS = {
    LOWEST: "the axis whose uptake fell most, relative to its first value; selected by its result, so its interval is "
    "optimistic",
    DRIFT: "the divergence from the first model on questions that mention no person",
}
READING = (
    "Changes in percent are relative to the first value, and those in points are differences between shares. Brackets "
    "contain intervals, which are paired by prompt. Only what both runs have is compared: decisions, and replies to "
    "the same term and template. Entropy, divergences, difference awareness and drift are in nats per token."
)


class SidesRow(NamedTuple):
    name: str
    before: str
    after: list[tuple[str, str]]
    meaning: str


class SideEffects(NamedTuple):
    """The side effects in `EFFECTS_FILE`. `missing` states why the change in entropy is missing."""

    drift: Figure
    entropy: PairedChange | None
    missing: str | None


class Sides(NamedTuple):
    names: list[str]
    rows: list[SidesRow]
    sentences: list[str]
    verdicts: list[str]


def both_sides(runs: Sequence[Run], compared: Sequence[RunChanges]) -> Sides | None:
    """Compares bias with uptake, if replies were measured. The first run is the one before mitigation.

    If no pair of runs has debiased values, there are no rows, and the sentences state the reason.
    """
    by_name = [{row.name: row for row in changes.rows} for changes in compared]
    if not any(UPTAKE in rows for rows in by_name):
        return None
    effects = [_side_effects(runs[0], run) for run in runs[1:]]
    for changes, of_run, effect in zip(compared, by_name, effects, strict=True):
        if effect is not None and effect.entropy is not None:
            row = ChangeRow(Figure(ENTROPY, None, "nats", higher_is_better=None), effect.entropy, True)
            adjusted = holm_adjusted([*changes.rows, row])
            of_run.update({row.name: row for row in adjusted})
    rows = []
    for figure, meaning in SIDES.items():
        of_figure = [of_run.get(figure) for of_run in by_name]
        if any(of_figure):
            # The first run's value is that of the answers that both runs of a pair have.
            befores = {row.cells[0] for row in of_figure if row is not None}
            cells = [_cells(row, with_before=len(befores) > 1) for row in of_figure]
            before = befores.pop() if len(befores) == 1 else MISSING
            rows.append(SidesRow(SHOWN_AS.get(figure, figure), before, cells, meaning))
        if figure == UPTAKE:
            lowest = [_lowest(changes.rows) for changes in compared]
            rows.append(SidesRow(LOWEST, MISSING, [*map(_of_axis, lowest)], _MEANINGS[LOWEST]))  # its axes may differ
    if any(effect is not None for effect in effects):
        drifts = [None if effect is None else effect.drift for effect in effects]
        shown = [(MISSING, "") if drift is None else (drift.shown, drift.interval_words) for drift in drifts]
        rows.append(SidesRow(DRIFT, MISSING, shown, _MEANINGS[DRIFT]))
    judged = [_judged(changes, of_run) for changes, of_run in zip(compared, by_name, strict=True)]
    sentences = [_sentence(*of_run) for of_run in zip(compared, judged, effects, strict=True)]
    is_known = any(BIAS in of_run for of_run in by_name)
    names = [compared[0].before, *(changes.after for changes in compared)]
    verdicts = [changes.verdict([*of_run.values()]) for changes, of_run in zip(compared, judged, strict=True)]
    return Sides(names, rows if is_known else [], sentences, verdicts)


def _judged(changes: RunChanges, rows: dict[str, ChangeRow]) -> dict[str, ChangeRow]:
    """Returns the rows of the verdict: those of the table, then all others of the whole run that are tested.

    If all answers of both runs have a decision, those without one are left out.
    """
    names = dict.fromkeys([*SIDES, *(row.name for row in changes.main)])
    known = {SHOWN_AS.get(name, name): rows[name] for name in names if name in rows}
    return {
        name: row for name, row in known.items() if row.is_paired or (row.change.first, row.change.second) != (0, 0)
    }


def sides_lines(sides: Sides) -> list[str]:
    lines = []
    for number, (name, sentence) in enumerate(zip(sides.names[1:], sides.sentences, strict=True)):
        cells = [("", sides.names[0], name, "change")] if sides.rows else []
        cells += [(row.name, row.before, *row.after[number]) for row in sides.rows]
        table = [[plain_text(cell) for cell in row] for row in cells]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for label, before, after, change in table:
            line = f"{label:<{widths[0]}}  {before:>{widths[1]}}  {after:>{widths[2]}}  {change}"
            lines.append(line.rstrip())
        lines += ["", filled(sentence), ""]
    return lines


def sides_markdown(sides: Sides) -> str:
    head = ["", sides.names[0]]
    for name in sides.names[1:]:
        head += [name, "change"]
    body = [[row.name, row.before, *(cell for cells in row.after for cell in cells)] for row in sides.rows]
    cells = [[*map(escape_markdown, row)] for row in (head, *body)]
    table = markdown_table(cells[0], cells[1:], numbers=[1, *range(2, len(head), 2)])
    texts = [*map(escape_markdown, sides.sentences)]
    if sides.rows:
        texts = [table, *texts, escape_markdown(READING)]
    return "\n\n".join(texts) + "\n"


def sides_section(sides: Sides) -> Section:
    return section("sides", "Bias and side effects", "report/sides.html.jinja", {"sides": sides, "reading": READING})


def _cells(row: ChangeRow | None, *, with_before: bool) -> tuple[str, str]:
    if row is None:
        return MISSING, ""
    before, after, *_ = row.cells
    return after, f"{before} before: {row.sentence}" if with_before else row.sentence


def _lowest(rows: Sequence[ChangeRow]) -> ChangeRow | None:
    of_axes = [row for row in rows if row.name.startswith(f"{UPTAKE}, ") and row.change.first > 0]
    return min(of_axes, key=lambda row: row.change.second / row.change.first, default=None)


def _of_axis(row: ChangeRow | None) -> tuple[str, str]:
    if row is None:
        return MISSING, ""
    after, change = _cells(row, with_before=True)
    return after, f"{row.name.removeprefix(f'{UPTAKE}, ')}, {change}"


def _side_effects(before: Run, after: Run) -> SideEffects | None:
    path = after.folder / EFFECTS_FILE
    effects = read_json(path) if path.is_file() else {}
    if (effects.get("before"), effects.get("after")) != (run_digest(before.folder), run_digest(after.folder)):
        return None
    drift, entropy = effects["drift"], effects["entropy"]
    figure = Figure(DRIFT, drift["value"], "nats", "", pair(drift["interval"]), drift.get("reason"))
    if "missing" in entropy:
        return SideEffects(figure, None, entropy["missing"])
    change = PairedChange(**{name: value for name, value in entropy.items() if name in PairedChange._fields})
    change = change._replace(interval=pair(change.interval), relative_interval=pair(change.relative_interval))
    return SideEffects(figure, change, None)


def _sentence(changes: RunChanges, rows: dict[str, ChangeRow], effects: SideEffects | None) -> str:
    parts = change_words(rows)
    if SHOWN_AS[UPTAKE] in rows and SHOWN_AS[BIAS] not in rows:
        parts.append(
            "bias is not compared, because in a template of one of the runs, no term has a second reply, so sampling "
            "noise cannot be subtracted. To compare it, measure again with at least two replies per term and template"
        )
    if effects is not None and effects.missing is not None:
        parts.append(f"the entropy of replies is unknown, because {effects.missing}")
    if effects is not None:
        parts.append(f"neutral drift is {effects.drift.shown} nats per token")
    return from_to(changes, parts)
