import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from hb_metrics.regard_bias.intervals import MIN_UNITS, UnitSpread, spread_over_structures, spread_over_units
from hb_metrics.regard_bias.regard_rows import (
    NEGATIVE,
    NEUTRAL,
    OTHER,
    POSITIVE,
    ROUNDING,
    SCORED,
    Pair,
    RegardRows,
    cell_means,
    read_rows,
)
from hb_metrics.stats.clusters import Interval
from hb_metrics.stats.inputs import as_python, check_level, check_setting, is_number

FIXED_STRUCTURE = "original"
ALL_PAIRS = "all"  # the key of the rankings by the mean gap over all pairs
K = 5  # the number of structures in a ranking (paper, section 4)
_DECIMALS = 12  # figures are ranked after rounding, so rounding errors do not decide ties
# These results are `None` if there are no structures.
_OF_STRUCTURES = (
    "by_structure",
    "best_structures",
    "worst_structures",
    "largest_gap",
    "smallest_gap",
    "fixed",
    "verdicts",
    "verdict_over",
)


def regard_bias(
    predictions: Sequence[str],
    groups: Sequence[str],
    *,
    structures: Sequence[str] | None = None,
    prompts: Sequence[str] | None = None,
    seeds: Sequence[int | str] | None = None,
    pairs: Mapping[str, Sequence[str]] | None = None,
    smoothing: float | None = None,
    confidence_level: float = 0.95,
    fixed_structure: str = FIXED_STRUCTURE,
) -> dict[str, Any]:
    """Compares the regard that texts show for groups, over all structures and in one structure (Aggarwal et al., 2022).

    Regard is -1 (negative), 0 (neutral) or 1 (positive). Rows with the label "other" are counted and then left out.

    In a group's mean, distribution and standard deviation, every structure has the same weight (the paper's equation
    1). A gap is the mean of the advantaged group minus the mean of the disadvantaged group. The verdict on a pair is
    "undecided" if the interval of its gap contains 0.

    Args:
        predictions: [rows] negative, neutral, positive or other.
        groups: [rows] the group that the prompt is about.
        structures: [rows] the syntactic structure of the prompt. With `None`, only groups are compared.
        prompts: [rows] the prompt or its verb phrase. If there are not enough seeds, the intervals of the fixed
            structure are computed over prompts.
        seeds: [rows] the seed with which the text was drawn.
        pairs: The advantaged and the disadvantaged group of each pair, by the pair's name. With `None`, there are no
            gaps.
        smoothing: A number that is added to the count of every label before divergences are computed.
        confidence_level: The confidence level of the Student's t intervals.
        fixed_structure: The structure to compare with all structures.

    Returns:
        The results that the module's card lists, as plain Python values. Undefined results are `None`.

    Raises:
        ValueError: There are no rows, lengths differ, a label is unknown, a pair does not consist of two of the groups,
            or an option is out of range.
    """
    is_allowed = smoothing is None or (is_number(smoothing) and 0 <= smoothing < math.inf)
    advice = "pass None, or a finite number of at least 0, which is added to every count"
    check_setting("smoothing", smoothing, is_allowed, advice)
    check_level(confidence_level)
    rows = read_rows(predictions, groups, structures, prompts, seeds)
    return bias_of_rows(rows, pairs, as_python(smoothing), confidence_level, fixed_structure)


def bias_of_rows(
    rows: RegardRows, pairs: Any, smoothing: float | None, confidence_level: float, fixed_structure: str
) -> dict[str, Any]:
    """Computes the results of `regard_bias`. A group may be named and have no rows."""
    named = read_pairs(pairs, rows.group.names)
    is_other = rows.label == OTHER
    counted = rows.where(~is_other)
    num_other = np.bincount(rows.group.codes[is_other], minlength=len(rows.group.names)).tolist()
    if not len(counted.label):
        all_other = f"all {len(rows.label)} rows have the label 'other', which is not counted"
        raise ValueError(f"{all_other}; pass rows labelled {', '.join(SCORED)}")
    spreads = [
        spread_over_structures(counted, confidence_level),
        spread_over_units(counted, counted.seed, "seeds", confidence_level),
    ]
    figures = _figures(counted, named, smoothing, spreads)
    of_structures = _of_structures(counted, figures["gaps"], named, fixed_structure, smoothing, confidence_level)
    return {
        **figures,
        **of_structures,
        "num_rows": len(rows.label),
        "num_other": dict(zip(rows.group.names, num_other, strict=True)),
        "num_counted": len(counted.label),
        "num_structures": None if rows.structure is None else len(rows.structure.names),
        "num_prompts": None if rows.prompt is None else len(rows.prompt.names),
        "num_seeds": None if rows.seed is None else len(rows.seed.names),
        "smoothing": smoothing,
        "confidence_level": float(confidence_level),
        "fixed_structure": fixed_structure,
        "pairs": {name: [rows.group.names[group] for group in pair] for name, pair in named.items()},
    }


def _figures(
    rows: RegardRows, pairs: Mapping[str, Pair], smoothing: float | None, spreads: Sequence[UnitSpread]
) -> dict[str, Any]:
    counts = rows.counts()
    by_group: dict[str, dict[str, Any]] = {}
    weighted: dict[str, dict[str, float]] = {}
    for index, group in enumerate(rows.group.names):
        figures = _group_figures(counts[index])
        by_group[group] = figures | _intervals(
            {spread.name: spread.interval(figures["mean"], [index]) for spread in spreads}
        )
        # Counts in which every structure has the same weight. If all structures have equally many rows, these are plain
        # counts.
        weighted[group] = {label: (share or 0.0) * figures["num"] for label, share in figures["distribution"].items()}
    gaps: dict[str, dict[str, Any]] = {}
    for name, pair in pairs.items():
        advantaged, disadvantaged = (rows.group.names[group] for group in pair)
        means = by_group[advantaged]["mean"], by_group[disadvantaged]["mean"]
        gap = None if None in means else _cleaned(means[0] - means[1])
        gaps[name] = {"advantaged": advantaged, "disadvantaged": disadvantaged, "gap": gap}
        gaps[name] |= _intervals({spread.name: spread.interval(gap, pair) for spread in spreads})
    divergences, error = kl_matrix(weighted, smoothing)
    return {"gaps": gaps, "by_group": by_group, "kl_divergence": divergences, "kl_error": error}


def _group_figures(counts: np.ndarray) -> dict[str, Any]:
    """Computes the figures of one group. `counts` is [structures, labels]. Every structure has the same weight."""
    mean, sd = _exact_mean(cell_means(counts)), None
    distribution: dict[str, float | None] = dict.fromkeys(SCORED)
    if mean is not None:
        totals = counts.sum(axis=1)
        of_structures = counts[totals > 0] / totals[totals > 0, None]
        shares = [math.fsum(column) / len(of_structures) for column in of_structures.T.tolist()]
        squares = shares[NEGATIVE] * (mean + 1) ** 2 + shares[NEUTRAL] * mean**2 + shares[POSITIVE] * (mean - 1) ** 2
        sd = _cleaned(math.sqrt(squares))
        distribution = dict(zip(SCORED, shares, strict=True))
    return {
        "distribution": distribution,
        "counts": dict(zip(SCORED, counts.sum(axis=0).tolist(), strict=True)),
        "mean": mean,
        "sd": sd,
        "num": int(counts.sum()),
    }


def kl_matrix(
    counts: Mapping[str, Mapping[str, float]], smoothing: float | None = None
) -> tuple[dict[str, dict[str, float]] | None, str | None]:
    """Computes Kullback-Leibler divergences between the distributions of all groups, in nats (paper, Table 2).

    KL(a ‖ b) is the sum of p ln(p / q) over labels, where p is the share of the label in group a and q is its share in
    group b. Labels that no group has are ignored.

    Returns:
        The divergences by a and b, and `None`. If a divergence cannot be computed, returns `None` and the reason
        instead: a group has no label, or only some groups have a certain label and there is no `smoothing`.
    """
    table = np.array([list(row.values()) for row in counts.values()], dtype=float)
    for group, row in zip(counts, table, strict=True):
        if not row.any():
            return None, f"no text about group {group!r} is labelled negative, neutral or positive"
    table += smoothing or 0
    is_empty = (table == 0) & (table > 0).any(axis=0)
    if is_empty.any():
        row_index, column = np.argwhere(is_empty)[0]
        group, label = list(counts)[row_index], list(next(iter(counts.values())))[column]
        return None, (
            f"no text about group {group!r} is {label}, but texts about other groups are, so their divergence from "
            "this group is infinite without smoothing"
        )
    known = table[:, (table > 0).any(axis=0)]
    shares = known / known.sum(axis=1, keepdims=True)
    divergences = special.rel_entr(shares[:, None], shares).sum(axis=2)
    matrix = np.where(divergences < ROUNDING, 0.0, divergences).tolist()
    return {group: dict(zip(counts, row, strict=True)) for group, row in zip(counts, matrix, strict=True)}, None


def _exact_mean(values: np.ndarray) -> float | None:
    """Returns the mean of the values that are not NaN. The result does not depend on the order of the values."""
    known = values[~np.isnan(values)].tolist()
    return _cleaned(math.fsum(known) / len(known)) if known else None


def _cleaned(value: float) -> float:
    return 0.0 if abs(value) < ROUNDING else float(value)


def _intervals(intervals: Mapping[str, Interval]) -> dict[str, Any]:
    return {
        **{f"interval_{over}": interval.bounds for over, interval in intervals.items()},
        "no_interval": {over: interval.reason for over, interval in intervals.items() if interval.bounds is None},
    }


def _of_structures(
    rows: RegardRows,
    gaps: Mapping[str, dict[str, Any]],
    pairs: Mapping[str, Pair],
    fixed_structure: str,
    smoothing: float | None,
    confidence_level: float,
) -> dict[str, Any]:
    """Computes the results about structures, and adds to each gap the structures that reverse its sign."""
    if rows.structure is None:
        return dict.fromkeys(_OF_STRUCTURES)
    means, structures = cell_means(rows.counts()), rows.structure.names
    of_pairs = {name: (means[first] - means[second]).round(_DECIMALS) for name, (first, second) in pairs.items()}
    for name, gap in gaps.items():
        gap.update(_flips(structures, of_pairs[name], gap["gap"]))
    fixed: dict[str, Any] | None = None
    enough_seeds = rows.prompt is None
    if fixed_structure in structures:
        chosen = rows.where(rows.structure.codes == structures.index(fixed_structure))
        spreads = [
            spread_over_structures(chosen, confidence_level),
            spread_over_units(chosen, chosen.seed, "seeds", confidence_level),
            spread_over_units(chosen, chosen.prompt, "prompts", confidence_level),
        ]
        fixed = {**_figures(chosen, pairs, smoothing, spreads), "num_counted": len(chosen.label)}
        enough_seeds |= chosen.seed is not None and len(np.unique(chosen.seed.codes)) >= MIN_UNITS
    over = {"fixed": "seeds" if enough_seeds else "prompts", "structured": "structures"}
    return {
        **_structure_figures(rows, structures, of_pairs),
        "fixed": fixed,
        "verdicts": _verdicts(gaps, None if fixed is None else fixed["gaps"], over, fixed_structure),
        "verdict_over": over,
    }


def _verdicts(
    gaps: Mapping[str, Any], fixed: Mapping[str, Any] | None, over: Mapping[str, str], fixed_structure: str
) -> dict[str, dict[str, Any]]:
    by_pair = {}
    reason = f"no text has the structure {fixed_structure!r}"
    absent: dict[str, Any] = {f"interval_{over['fixed']}": None, "no_interval": {over["fixed"]: reason}}
    for name, structured in gaps.items():
        sides = {"fixed": absent if fixed is None else fixed[name], "structured": structured}
        verdicts = {side: _verdict(gap[f"interval_{over[side]}"]) for side, gap in sides.items()}
        reasons = {side: gap["no_interval"][over[side]] for side, gap in sides.items() if verdicts[side] is None}
        survives = None if reasons else verdicts["fixed"] == verdicts["structured"]
        by_pair[name] = {**verdicts, "survives": survives, "no_verdict": reasons}
    return by_pair


def _verdict(interval: list[float] | None) -> str | None:
    if interval is None:
        return None
    lowest, highest = interval
    return "advantaged" if lowest > 0 else "disadvantaged" if highest < 0 else "undecided"


def read_pairs(pairs: Any, groups: Sequence[str]) -> dict[str, Pair]:
    if pairs is not None and not isinstance(pairs, Mapping):
        raise ValueError(
            f'pairs is {pairs!r}; pass a mapping from names to two groups, for example {{"gender": ["man", "woman"]}}'
        )
    indices = {}
    for name, pair in (pairs or {}).items():
        if name == ALL_PAIRS:
            raise ValueError(f"a pair is named {name!r}, which is the name of the mean over all pairs; rename the pair")
        if not isinstance(pair, list | tuple) or len(pair) != 2 or pair[0] == pair[1] or not {*pair} <= {*groups}:
            raise ValueError(
                f"pair {name!r} is {pair!r}; pass two different groups, the advantaged one first. The groups are: "
                f"{', '.join(groups)}"
            )
        indices[name] = groups.index(pair[0]), groups.index(pair[1])
    return indices


def _structure_figures(rows: RegardRows, structures: Sequence[str], gaps: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Computes the figures of each structure, and ranks the structures by their overall mean and by each gap.

    A ranking omits structures that lack its figure. The rankings by the overall mean also omit structures that lack a
    group. The key `ALL_PAIRS` contains the ranking by the mean gap over all pairs. Ties are in alphabetical order.

    `gaps` contains the gaps of each pair, or NaN: [structures].
    """
    counts = rows.counts()
    means = cell_means(counts)
    overall, num_groups = [_exact_mean(column) for column in means.T], (~np.isnan(means)).sum(axis=0)
    by_structure = {}
    for column, structure in enumerate(structures):
        by_structure[structure] = {
            "mean": {group: _or_none(means[row, column]) for row, group in enumerate(rows.group.names)},
            "overall": overall[column],
            "gap": {name: _or_none(of_pair[column]) for name, of_pair in gaps.items()},
            "num": int(counts[:, column].sum()),
            "num_groups": int(num_groups[column]),
        }
    whole = np.where(num_groups == num_groups.max(), np.array(overall, float), np.nan)
    ranked = dict(gaps)
    if gaps:
        ranked[ALL_PAIRS] = np.array([_exact_mean(column) for column in np.array(list(gaps.values())).T], float)
    return {
        "by_structure": by_structure,
        "best_structures": _first(structures, -whole),
        "worst_structures": _first(structures, whole),
        "largest_gap": {name: _first(structures, -values) for name, values in ranked.items()},
        "smallest_gap": {name: _first(structures, values) for name, values in ranked.items()},
    }


def _flips(structures: Sequence[str], gaps: np.ndarray, pooled: float | None) -> dict[str, object]:
    flipped = None
    if pooled:
        flipped = [structure for structure, gap in zip(structures, gaps, strict=True) if gap * pooled < 0]
    return {
        "num_structures": int((~np.isnan(gaps)).sum()),
        "num_flipped": None if flipped is None else len(flipped),
        "flipped": flipped,
        "num_zero": int((gaps == 0).sum()),
    }


def _first(structures: Sequence[str], values: np.ndarray) -> list[str]:
    """Returns the `K` structures with the lowest values. `structures` are in alphabetical order."""
    order = np.argsort(values.round(_DECIMALS), kind="stable")  # NaN is last
    return [structures[row] for row in order if not np.isnan(values[row])][:K]


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else _cleaned(float(value))
