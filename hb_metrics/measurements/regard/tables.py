"""Rows and sentences of the regard section, and the lines that a run prints."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hb_metrics.display.numbers import MISSING, fixed

DIGITS = 3
ALL_PAIRS = "all"  # in the rankings by gap: the mean gap over the pairs
UNDECIDED = "undecided"
_OVER = ("structures", "seeds", "prompts")  # what intervals are over, the one that decides first

_OTHER = {
    "drop": "texts labelled other are left out",
    "neutral": "texts labelled other count as neutral",
    "keep": "texts labelled other are a class of their own in distributions, with no part in means and gaps",
}
_REASONS = {
    "lost_group": "lost the group",
    "lost_meaning": "lost the meaning",
    "blank": "were blank",
    "repeated": "said the same as another",
}


class GroupRow(NamedTuple):
    """A group.

    Attributes:
        name: Of the group.
        found: Its figures over all structures.
        fixed: Likewise from the fixed prompts; `None`: there is nothing to compare.
    """

    name: str
    found: dict[str, Any]
    fixed: dict[str, Any] | None


class GapRow(NamedTuple):
    """A pair of groups.

    Attributes:
        name: Of the pair, as in the results.
        label: As people read it.
        found: The gap over all structures, its intervals, and how many structures turn its sign.
        fixed: Likewise from the fixed prompts; `None`: there is nothing to compare.
        verdicts: "advantaged", "disadvantaged" or "undecided", `None` where nothing is known: by "fixed" and
            "structured".
    """

    name: str
    label: str
    found: dict[str, Any]
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
        label: Whose figure.
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
    found, beside = _sides(bias, "by_group")
    return [GroupRow(name, found[name], beside.get(name)) for name in group_names(bias)]


def gap_rows(bias: dict[str, Any]) -> list[GapRow]:
    """The pairs, in the order of the run."""
    (every, beside), verdicts = _sides(bias, "gaps"), bias["verdicts"] or {}
    return [
        GapRow(name, _label(name), found, beside.get(name), verdicts.get(name) or {}) for name, found in every.items()
    ]


def compared(bias: dict[str, Any]) -> dict[str, Any] | None:
    """The figures of the fixed prompts, where there are other structures than theirs."""
    fixed_alone: dict[str, Any] | None = bias["fixed"]
    return fixed_alone if len(bias["by_structure"] or {}) > 1 else None


def interval_of(found: Mapping[str, Any]) -> list[float] | None:
    """The interval that decides, of the figures of a row."""
    bounds: list[float] | None = found["interval"]
    return bounds


def why_none(found: Mapping[str, Any]) -> str | None:
    """Why figures of a row have no interval that decides; `None`: not known."""
    reason: str | None = found["no_interval"].get(found["over"])
    return reason


def _decided_over(bias: Mapping[str, Any]) -> dict[str, str]:
    """What the intervals that decide are over, of the fixed prompts and of all structures ("fixed", "structured")."""
    if bias.get("verdict_over"):
        return bias["verdict_over"]
    # Results of older versions do not say.
    sides = {"structured": bias, "fixed": bias["fixed"] or {}}
    overs = {}
    for side, figures in sides.items():
        rows = [found for kind in ("by_group", "gaps") for found in (figures.get(kind) or {}).values()]
        overs[side] = next((over for over in _OVER if any(row.get(f"interval_{over}") for row in rows)), _OVER[0])
    return overs


def verdict_sentence(row: GapRow, level: float) -> str:
    """In words: what the fixed prompts say of a pair, what all structures say, and whether that is the same."""
    number = row.found.get("num_structures")
    first, second = (row.verdicts.get(side) for side in ("fixed", "structured"))
    if row.fixed is None:
        where = f"over all {number} structures " if number and number > 1 else ""
        return f"{row.label}: {where}{_told(row, row.found, second or first, level)}.{_turned(row)}"
    return (
        f"{row.label}: from the fixed prompts {_told(row, row.fixed, first, level)}; "
        f"over all {number} structures {_told(row, row.found, second, level)}. "
        f"{_conclusion(first, second)}{_turned(row)}"
    )


def short_verdict(row: GapRow, level: float) -> str:
    """What can be said of a pair, in a few words: over all structures, if there are several.

    The verdict of the fixed prompts alone never stands for that over all structures.
    """
    verdict = row.verdicts.get("structured")
    if verdict is None and row.fixed is None:
        verdict = row.verdicts.get("fixed")
    return f"{row.label}: {_told(row, row.found, verdict, level)}"


def structure_rows(regard: dict[str, Any]) -> list[StructureRow]:
    """All structures, the highest mean regard first; those without one last."""
    about = regard["structures"]
    rows = []
    for name, found in (regard["bias"]["by_structure"] or {}).items():
        known = about.get(name, {})
        rows.append(
            StructureRow(
                name,
                known.get("kind") or MISSING,
                known.get("parse"),
                bool(known.get("generalizes")),
                found["overall"],
                found["gap"],
                found["num"],
            )
        )
    return sorted(rows, key=lambda row: (row.overall is None, -(row.overall or 0.0), row.name))


def group_ends(bias: dict[str, Any]) -> list[Ends]:
    """Of each group, mean regard by structure; the ends are the best and worst structures over all groups."""
    singles = bias["by_structure"]
    if not singles:
        return []
    found = []
    for group in group_names(bias):
        values = {name: each["mean"][group] for name, each in singles.items() if each["mean"].get(group) is not None}
        found.append(Ends(group, values, bias["best_structures"], bias["worst_structures"]))
    return found


def gap_ends(bias: dict[str, Any]) -> list[Ends]:
    """Of each pair, the gap by structure; the ends are the pair's own largest and smallest gaps."""
    singles = bias["by_structure"]
    if not singles:
        return []
    found = []
    for pair in bias["gaps"] or {}:
        values = {name: each["gap"][pair] for name, each in singles.items() if each["gap"].get(pair) is not None}
        found.append(Ends(_label(pair), values, bias["largest_gap"][pair], bias["smallest_gap"][pair]))
    return found


def ranked_gaps(bias: dict[str, Any]) -> list[tuple[str, str, list[tuple[str, float | None]]]]:
    """Pair, end, and the structures there with their gaps; with several pairs also by the mean over pairs."""
    singles = bias["by_structure"]
    if not singles or not bias["gaps"]:
        return []

    def value(structure: str, pair: str | None) -> float | None:
        gaps = singles[structure]["gap"]
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
    found: dict[str, list[dict[str, Any]]] = {}
    for example in regard["examples"]:
        found.setdefault(example["structure"], []).append(example)
    return found


def left_out(regard: dict[str, Any]) -> list[str]:
    """In words: what was dropped, cut or counted otherwise, and the choices that move the result."""
    bias = regard["bias"]
    told = []
    if regard["num_blank"]:
        told.append(f"{regard['num_blank']:,} continuations were blank and are left out.")
    num_other = sum((bias["num_other"] or {}).values())
    if num_other:
        told.append(f"{num_other:,} of {bias['num_rows']:,} were labelled other: {_OTHER[bias['other']]}.")
    if regard["num_cut_for_classifier"]:
        told.append(f"{regard['num_cut_for_classifier']:,} were too long for the classifier and cut.")
    paraphrases = regard["paraphrases"]
    if paraphrases is not None:
        dropped = paraphrases["num_dropped"]
        reasons = ", ".join(f"{number:,} {_REASONS.get(name, name)}" for name, number in dropped.items() if number)
        told.append(
            f"Of {paraphrases['num']:,} paraphrases {paraphrases['num_kept']:,} were kept"
            + (f"; of the others, {reasons}." if reasons else ".")
        )
        if paraphrases["num_truncated"]:
            told.append(f"{paraphrases['num_truncated']:,} paraphrases were cut at their longest length allowed.")
    return told


def drawn_over(bias: dict[str, Any]) -> str:
    """What the intervals that decide are over, as the end of a caption's sentence; empty where there are none."""
    rows = group_rows(bias)
    over = next((row.found["over"] for row in rows if interval_of(row.found) is not None), None)
    fixed_over = next((row.fixed["over"] for row in rows if row.fixed and interval_of(row.fixed) is not None), None)
    beside = "" if fixed_over in (None, over) else f" (of the fixed prompts over {fixed_over})"
    return "" if over is None else f" over {over}{beside}"


def without_interval(bias: dict[str, Any]) -> list[str]:
    """In words: which intervals of the tables there are not, and why."""
    names: dict[tuple[str, str], list[str]] = {}
    rows = [(row.name, row.found, row.fixed) for row in group_rows(bias)]
    rows += [(row.label, row.found, row.fixed) for row in gap_rows(bias)]
    for label, found, beside in rows:
        for figures, where in ((found, ""), (beside, " from the fixed prompts")):
            if figures is not None and interval_of(figures) is None:
                names.setdefault((where, why_none(figures) or ""), []).append(label)
        if found["over"] != "seeds" and "seeds" in found["no_interval"]:
            names.setdefault((" over seeds", found["no_interval"]["seeds"]), []).append(label)
    return [
        f"No interval{where} for {', '.join(labels)}{f': {reason}' if reason else ''}."
        for (where, reason), labels in names.items()
    ]


def choices(regard: dict[str, Any]) -> str:
    """In words: the two choices of the run that move the result."""
    masked = (
        "mentions of the group were replaced by XYZ before a text was classified"
        if regard["mask"]
        else "the classifier saw the group's name"
    )
    return f"{masked[:1].upper()}{masked[1:]}; {_OTHER[regard['bias']['other']]}. Both choices move the result."


def summary_lines(regard: dict[str, Any]) -> list[str]:
    """What a run prints of it."""
    bias = regard["bias"]
    groups, gaps = group_rows(bias), gap_rows(bias)
    told = f"from {regard['num_continuations']:,} continuations, {regard['num_structures']:,} structures"
    lines = [f"Regard (-1 negative, 1 positive) {told}"]
    for row in groups:
        beside = "" if row.fixed is None else f"  fixed prompts {_ascii(row.fixed['mean'])}"
        lines.append(f"  {row.name:<22} {_ascii(row.found['mean'])}{beside}")
    lines += ["", *(verdict_sentence(row, bias["confidence_level"]) for row in gaps)] if gaps else []
    return lines


def signed(value: float | None) -> str:
    """A mean or a gap of regard."""
    return MISSING if value is None else fixed(value, DIGITS, "+")


def span(bounds: Sequence[float] | None) -> str:
    """Lowest and highest of a mean or a gap."""
    return MISSING if bounds is None else f"{fixed(bounds[0], DIGITS)} to {fixed(bounds[1], DIGITS)}"


def _label(name: str) -> str:
    return name[:1].upper() + name[1:]


def _sides(bias: dict[str, Any], figures: str) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Figures of groups or gaps over all structures, and beside them those of the fixed prompts.

    Where there are only the fixed prompts, these are all, and nothing stands beside them. Each says which interval
    decides ("interval"), what it is over ("over"), and why there is none ("no_interval").
    """
    over, only = _decided_over(bias), compared(bias) is None
    every, fixed_alone = bias[figures] or {}, (bias["fixed"] or {}).get(figures) or {}
    if only and fixed_alone:
        told = ("no_interval", "interval_seeds", "interval_prompts")
        fixed_own = {name: {key: found[key] for key in told if key in found} for name, found in fixed_alone.items()}
        return {name: _deciding({**found, **fixed_own[name]}, over["fixed"]) for name, found in every.items()}, {}
    beside = {} if only else {name: _deciding(found, over["fixed"]) for name, found in fixed_alone.items()}
    return {name: _deciding(found, over["structured"]) for name, found in every.items()}, beside


def _deciding(found: dict[str, Any], over: str) -> dict[str, Any]:
    why = found.get("no_interval") or {}
    return {**found, "interval": found.get(f"interval_{over}"), "over": over, "no_interval": why}


def _told(row: GapRow, found: Mapping[str, Any], verdict: str | None, level: float) -> str:
    gap, interval = found["gap"], interval_of(found)
    if gap is None:
        return "there is no gap to tell, since one of the groups has no texts that count"
    reason = why_none(found)
    missing = f"no interval: {reason}" if reason else "no interval"
    numbers = f"(gap {signed(gap)}, {missing if interval is None else f'{level:.0%} interval {span(interval)}'})"
    if verdict == UNDECIDED:
        return f"it is too close to call {numbers}"
    if verdict is None:  # without an interval nothing is decided
        return f"nothing can be decided {numbers}"
    above, below = row.found["advantaged"], row.found["disadvantaged"]
    if verdict == "disadvantaged":
        above, below = below, above
    return f"“{above}” is regarded better than “{below}” {numbers}"


def _conclusion(first: str | None, second: str | None) -> str:
    if first is None or second is None:
        return "Whether the verdict of the fixed prompts survives cannot be told."
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
    """How many structures alone say the opposite; empty where there is nothing to turn."""
    number, flipped = row.found.get("num_structures"), row.found.get("num_flipped")
    if flipped is None or not number or number < 2:
        return ""
    nil = f", and in {row.found['num_zero']} it is 0" if row.found["num_zero"] else ""
    by_chance = row.found.get("num_flipped_by_chance")
    chance = "" if by_chance is None else f"; if structures made no difference, chance alone would turn {by_chance:.0f}"
    return f" In {flipped} of {number} structures, each taken alone, the gap has the other sign{nil}{chance}."


def _ascii(value: float | None) -> str:
    return "none" if value is None else format(value, f"+.{DIGITS}f")
