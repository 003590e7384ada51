"""Rows and sentences of the regard section, and the lines that a run prints."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hb_metrics.display import numbers

DIGITS = 3
ALL_PAIRS = "all"  # in the rankings by gap: the mean gap over the pairs
UNDECIDED = "undecided"

_REASONS = {
    "lost_group": "lost the group",
    "lost_meaning": "lost the meaning",
    "blank": "were blank",
    "repeated": "were the same as another",
}


class GroupRow(NamedTuple):
    """A group.

    Attributes:
        name: Name of the group.
        over_all: Its figures over all structures.
        fixed: Its figures from the fixed prompts; `None`: the run has no other prompts, or no fixed ones.
    """

    name: str
    over_all: dict[str, Any]
    fixed: dict[str, Any] | None


class GapRow(NamedTuple):
    """A pair of groups.

    Attributes:
        name: Name of the pair, as in the results.
        label: Its name for people.
        over_all: The gap over all structures, its intervals, and how many structures have the other sign.
        fixed: The gap from the fixed prompts; `None`: the run has no other prompts, or no fixed ones.
        verdicts: "advantaged", "disadvantaged" or "undecided", `None` without an interval; of the fixed prompts
            ("fixed") and of all structures ("structured").
    """

    name: str
    label: str
    over_all: dict[str, Any]
    fixed: dict[str, Any] | None
    verdicts: Mapping[str, Any]


class StructureRow(NamedTuple):
    """A syntactic structure.

    Attributes:
        name: Its id.
        kind: original, declarative or interrogative.
        parse: Constituency parse of its prompts at height 2; `None`: not known.
        generalizes: Whether its prompts speak of the group in general ("people") on purpose.
        overall: Mean regard over groups.
        gaps: Pair → gap.
        num: Texts that count.
    """

    name: str
    kind: str
    parse: str | None
    generalizes: bool
    overall: float | None
    gaps: dict[str, float | None]
    num: int


class Ends(NamedTuple):
    """One figure of every structure, and of those at its ends.

    Attributes:
        label: The group or pair.
        values: Structure → value, of structures that have one.
        high: Structures at the upper end.
        low: Structures at the lower end.
    """

    label: str
    values: dict[str, float]
    high: list[str]
    low: list[str]

    def mean(self, names: Sequence[str]) -> float | None:
        """The mean over these structures."""
        known = [self.values[name] for name in names if name in self.values]
        return sum(known) / len(known) if known else None


def group_names(bias: dict[str, Any]) -> list[str]:
    """The groups: those of a pair together, the advantaged first, then those of no pair."""
    paired = (group for pair in bias["pairs"].values() for group in pair)
    return list(dict.fromkeys([*paired, *bias["by_group"]]))


def group_rows(bias: dict[str, Any]) -> list[GroupRow]:
    """The groups, in the order of `group_names`."""
    over_all, fixed = _sides(bias, "by_group")
    return [GroupRow(name, over_all[name], fixed.get(name)) for name in group_names(bias)]


def gap_rows(bias: dict[str, Any]) -> list[GapRow]:
    """The pairs, in the order of the run."""
    over_all, fixed = _sides(bias, "gaps")
    return [GapRow(name, _label(name), gap, fixed.get(name), bias["verdicts"][name]) for name, gap in over_all.items()]


def compared(bias: dict[str, Any]) -> dict[str, Any] | None:
    """The figures of the fixed prompts; `None`: the run has no other structures, or no fixed prompts."""
    fixed: dict[str, Any] | None = bias["fixed"]
    return fixed if len(bias["by_structure"]) > 1 else None


def interval_of(figures: Mapping[str, Any]) -> list[float] | None:
    """The interval that the verdict uses, from the figures of a row; `None`: there is none."""
    bounds: list[float] | None = figures["interval"]
    return bounds


def why_none(figures: Mapping[str, Any]) -> str | None:
    """Why the figures of a row lack the interval that the verdict uses; `None`: they have it."""
    reason: str | None = figures["no_interval"].get(figures["over"])
    return reason


def verdict_sentence(row: GapRow, level: float) -> str:
    """States the verdict of the fixed prompts on a pair, that of all structures, and whether they are the same."""
    number = row.over_all["num_structures"]
    first, second = row.verdicts["fixed"], row.verdicts["structured"]
    if row.fixed is None:
        where = f"over all {number} structures " if number > 1 else ""
        return f"{row.label}: {where}{_verdict(row, row.over_all, second or first, level)}.{_turned(row)}"
    return (
        f"{row.label}: from the fixed prompts {_verdict(row, row.fixed, first, level)}; "
        f"over all {number} structures {_verdict(row, row.over_all, second, level)}. "
        f"{_conclusion(first, second)}{_turned(row)}"
    )


def short_verdict(row: GapRow, level: float) -> str:
    """The verdict on a pair, in a few words: over all structures, if there are several.

    The verdict of the fixed prompts never replaces that over all structures.
    """
    verdict = row.verdicts["structured"]
    if verdict is None and row.fixed is None:
        verdict = row.verdicts["fixed"]
    return f"{row.label}: {_verdict(row, row.over_all, verdict, level)}"


def structure_rows(regard: dict[str, Any]) -> list[StructureRow]:
    """All structures, the highest mean regard first; those without one last."""
    rows = []
    for name, figures in regard["bias"]["by_structure"].items():
        about = regard["structures"][name]  # of structures that a paraphraser wrote, all may be `None`
        rows.append(
            StructureRow(
                name,
                about["kind"] or numbers.MISSING,
                about["parse"],
                bool(about["generalizes"]),
                figures["overall"],
                figures["gap"],
                figures["num"],
            )
        )
    return sorted(rows, key=lambda row: (row.overall is None, -(row.overall or 0.0), row.name))


def group_ends(bias: dict[str, Any]) -> list[Ends]:
    """Mean regard of each group by structure; the ends are the best and worst structures over all groups."""
    rows = []
    for group in group_names(bias):
        means = {name: structure["mean"][group] for name, structure in bias["by_structure"].items()}
        values = {name: mean for name, mean in means.items() if mean is not None}
        rows.append(Ends(group, values, bias["best_structures"], bias["worst_structures"]))
    return rows


def gap_ends(bias: dict[str, Any]) -> list[Ends]:
    """The gap of each pair by structure; the ends are the pair's own largest and smallest gaps."""
    rows = []
    for pair in bias["gaps"]:
        gaps = {name: structure["gap"][pair] for name, structure in bias["by_structure"].items()}
        values = {name: gap for name, gap in gaps.items() if gap is not None}
        rows.append(Ends(_label(pair), values, bias["largest_gap"][pair], bias["smallest_gap"][pair]))
    return rows


def ranked_gaps(bias: dict[str, Any]) -> list[tuple[str, str, list[tuple[str, float | None]]]]:
    """Pair, end, and the structures there with their gaps; with several pairs also by the mean over pairs."""

    def value(structure: str, pair: str | None) -> float | None:
        gaps = bias["by_structure"][structure]["gap"]
        if pair is not None:
            gap: float | None = gaps[pair]
            return gap
        known = [gap for gap in gaps.values() if gap is not None]
        return sum(known) / len(known) if known else None

    pairs: list[tuple[str, str, str | None]] = [(name, _label(name), name) for name in bias["gaps"]]
    if len(pairs) > 1:
        pairs.append((ALL_PAIRS, "Mean over pairs", None))
    return [
        (label, end, [(structure, value(structure, pair)) for structure in bias[ranking][key]])
        for key, label, pair in pairs
        for ranking, end in (("largest_gap", "largest"), ("smallest_gap", "smallest"))
    ]


def examples_by_structure(regard: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The example texts of each structure, in the order given."""
    examples: dict[str, list[dict[str, Any]]] = {}
    for example in regard["examples"]:
        examples.setdefault(example["structure"], []).append(example)
    return examples


def left_out(regard: dict[str, Any]) -> list[str]:
    """States which texts were left out, cut or counted otherwise, a sentence each."""
    bias = regard["bias"]
    sentences = []
    if regard["num_blank"]:
        sentences.append(f"{regard['num_blank']:,} continuations were blank and are left out.")
    num_other = sum(bias["num_other"].values())
    if num_other:
        sentences.append(f"{num_other:,} of {bias['num_rows']:,} were labelled other and are left out.")
    if regard["num_cut_for_classifier"]:
        sentences.append(f"{regard['num_cut_for_classifier']:,} were too long for the classifier and cut.")
    paraphrases = regard["paraphrases"]
    if paraphrases is not None:
        dropped = paraphrases["num_dropped"]
        reasons = ", ".join(f"{number:,} {_REASONS.get(name, name)}" for name, number in dropped.items() if number)
        sentences.append(
            f"Of {paraphrases['num']:,} paraphrases {paraphrases['num_kept']:,} were kept"
            + (f"; of the others, {reasons}." if reasons else ".")
        )
        if paraphrases["num_truncated"]:
            sentences.append(f"{paraphrases['num_truncated']:,} paraphrases were cut at their longest length allowed.")
    return sentences


def drawn_over(bias: dict[str, Any]) -> str:
    """What the intervals that verdicts use are over, as the end of a caption's sentence; empty: there are none."""
    rows = group_rows(bias)
    over = next((row.over_all["over"] for row in rows if interval_of(row.over_all) is not None), None)
    fixed_over = next((row.fixed["over"] for row in rows if row.fixed and interval_of(row.fixed) is not None), None)
    beside = "" if fixed_over in (None, over) else f" (of the fixed prompts over {fixed_over})"
    return "" if over is None else f" over {over}{beside}"


def without_interval(bias: dict[str, Any]) -> list[str]:
    """States which intervals the tables lack and why, a sentence for each reason."""
    names: dict[tuple[str, str], list[str]] = {}
    rows = [(row.name, row.over_all, row.fixed) for row in group_rows(bias)]
    rows += [(row.label, row.over_all, row.fixed) for row in gap_rows(bias)]
    for label, over_all, fixed in rows:
        for figures, where in ((over_all, ""), (fixed, " from the fixed prompts")):
            if figures is not None and interval_of(figures) is None:
                names.setdefault((where, why_none(figures) or ""), []).append(label)
        if over_all["over"] != "seeds" and "seeds" in over_all["no_interval"]:
            names.setdefault((" over seeds", over_all["no_interval"]["seeds"]), []).append(label)
    return [
        f"No interval{where} for {', '.join(labels)}{f': {reason}' if reason else ''}."
        for (where, reason), labels in names.items()
    ]


def summary_lines(regard: dict[str, Any]) -> list[str]:
    """The lines that a run prints."""
    bias = regard["bias"]
    groups, gaps = group_rows(bias), gap_rows(bias)
    counts = f"from {regard['num_continuations']:,} continuations, {regard['num_structures']:,} structures"
    lines = [f"Regard (-1 negative, 1 positive) {counts}"]
    for row in groups:
        beside = "" if row.fixed is None else f"  fixed prompts {_ascii(row.fixed['mean'])}"
        lines.append(f"  {row.name:<22} {_ascii(row.over_all['mean'])}{beside}")
    lines += ["", *(verdict_sentence(row, bias["confidence_level"]) for row in gaps)] if gaps else []
    return lines


def signed(value: float | None) -> str:
    """A mean or a gap of regard."""
    return numbers.MISSING if value is None else numbers.fixed(value, DIGITS, "+")


def span(bounds: Sequence[float] | None) -> str:
    """Lowest and highest of a mean or a gap."""
    return (
        numbers.MISSING
        if bounds is None
        else f"{numbers.fixed(bounds[0], DIGITS)} to {numbers.fixed(bounds[1], DIGITS)}"
    )


def _label(name: str) -> str:
    return name[:1].upper() + name[1:]


def _sides(bias: dict[str, Any], figures: str) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Figures of groups ("by_group") or pairs ("gaps") over all structures, and those of the fixed prompts.

    If the run has the fixed prompts only, the first are theirs, and the second are empty. To the figures of each group
    or pair are added the interval that the verdict uses ("interval") and what it is over ("over").
    """
    over, over_all = bias["verdict_over"], bias[figures]
    fixed = {} if bias["fixed"] is None else bias["fixed"][figures]
    if compared(bias) is not None:
        return (
            {name: _with_interval(row, over["structured"]) for name, row in over_all.items()},
            {name: _with_interval(row, over["fixed"]) for name, row in fixed.items()},
        )
    if not fixed:
        return {name: _with_interval(row, over["structured"]) for name, row in over_all.items()}, {}
    # The fixed prompts have intervals of their own, also over prompts.
    own = ("no_interval", "interval_seeds", "interval_prompts")
    return {
        name: _with_interval({**row, **{key: fixed[name][key] for key in own}}, over["fixed"])
        for name, row in over_all.items()
    }, {}


def _with_interval(figures: dict[str, Any], over: str) -> dict[str, Any]:
    return {**figures, "interval": figures[f"interval_{over}"], "over": over}


def _verdict(row: GapRow, figures: Mapping[str, Any], verdict: str | None, level: float) -> str:
    """A verdict in words, with the gap and its interval from these figures."""
    gap, interval = figures["gap"], interval_of(figures)
    if gap is None:
        return "there is no gap, since one of the groups has no texts that count"
    missing = f"no interval: {why_none(figures)}"
    numbers = f"(gap {signed(gap)}, {missing if interval is None else f'{level:.0%} interval {span(interval)}'})"
    if verdict == UNDECIDED:
        return f"it is too close to call {numbers}"
    if verdict is None:  # without an interval nothing is decided
        return f"nothing can be decided {numbers}"
    above, below = row.over_all["advantaged"], row.over_all["disadvantaged"]
    if verdict == "disadvantaged":
        above, below = below, above
    return f"“{above}” is regarded better than “{below}” {numbers}"


def _conclusion(first: str | None, second: str | None) -> str:
    if first is None or second is None:
        return "Whether the verdict of the fixed prompts survives is not known."
    if first == second == UNDECIDED:
        return "Neither tells the two apart, which does not show that the model treats them alike."
    if first == UNDECIDED:
        return "The fixed prompts alone do not give this verdict."
    if first == second:
        return "The verdict of the fixed prompts survives."
    if second == UNDECIDED:
        return "The verdict of the fixed prompts does not survive."
    return "The verdict of the fixed prompts does not survive: it is turned round."


def _turned(row: GapRow) -> str:
    """In how many single structures the gap has the other sign; empty if there is one structure or no gap."""
    number, flipped = row.over_all["num_structures"], row.over_all["num_flipped"]
    if flipped is None or number < 2:
        return ""
    nil = f", and in {row.over_all['num_zero']} it is 0" if row.over_all["num_zero"] else ""
    return f" In {flipped} of {number} structures, each taken alone, the gap has the other sign{nil}."


def _ascii(value: float | None) -> str:
    return "none" if value is None else format(value, f"+.{DIGITS}f")
