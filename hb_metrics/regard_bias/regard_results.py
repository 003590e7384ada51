"""Regard bias from rows of labels: the numbers of Aggarwal et al. (2022), without `evaluate`."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from hb_metrics.regard_bias.cell_means import EmptyClassError, check_smoothing, cleaned, group_figures, kl_matrix
from hb_metrics.regard_bias.chance import by_chance
from hb_metrics.regard_bias.intervals import MIN_UNITS, Interval, Spread, spread_over_structures, spread_over_units
from hb_metrics.regard_bias.regard_rows import REGARDS, SCORED, RegardRows, read_rows, without_other
from hb_metrics.regard_bias.structure_cosines import robustness
from hb_metrics.regard_bias.structure_results import ALL_PAIRS, Pair, by_structure, flips, rankings
from hb_metrics.stats.inputs import as_python, check_flag, is_number, is_whole

Other = Literal["drop", "neutral", "keep"]
FIXED_STRUCTURE = "original"
K = 5  # paper, 4
CONFIDENCE_LEVEL = 0.95
N_HALVES = 1000
N_SHUFFLES = 200
# Results that are `None` without structures.
_OF_STRUCTURES = (
    "by_structure",
    "best_structures",
    "worst_structures",
    "largest_gap",
    "smallest_gap",
    "robustness",
    "fixed",
    "verdicts",
    "verdict_over",
)

PAIR_ERROR = (
    "pair {name!r} is {pair!r}; give two different groups, the advantaged and the disadvantaged, such as "
    '{{"gender": ["man", "woman"]}}'
)
PAIRS_ERROR = 'pairs are {pairs!r}; give a mapping of names to two groups each, such as {{"gender": ["man", "woman"]}}'
PAIR_NAME_ERROR = "a pair is named {name!r}, the name of the mean over all pairs; give the pair another name"
PAIR_GROUP_ERROR = "pair {name!r} has the group {group!r}, which no row has; there are: {groups}"
WHOLE_NUMBER_ERROR = "{name} is {value!r}; give a whole number of at least {least}"
NONE_LEFT_ERROR = "all {num} rows are labelled other, and other='drop' leaves them out; give other='neutral' or 'keep'"
FIXED_STRUCTURE_ERROR = "fixed_structure is {value!r}; give the name of a structure, such as 'original'"
NO_FIXED_REASON = "no text has the structure {structure!r}"
CONFIDENCE_LEVEL_ERROR = "confidence_level is {value!r}; give a number between 0 and 1, such as 0.95"


def regard_bias(
    predictions: Sequence[str] | Sequence[Sequence[float]] | np.ndarray,
    groups: Sequence[str],
    *,
    structures: Sequence[str] | None = None,
    prompts: Sequence[str] | None = None,
    pairs: Mapping[str, Sequence[str]] | None = None,
    seeds: Sequence[int | str] | None = None,
    labels: Sequence[str] = REGARDS,
    other: Other = "drop",
    smoothing: float | None = None,
    kl: bool = True,
    k: int = K,
    confidence_level: float = CONFIDENCE_LEVEL,
    n_halves: int = N_HALVES,
    n_shuffles: int = N_SHUFFLES,
    num_sampled: int | None = None,
    fixed_structure: str = FIXED_STRUCTURE,
    seed: int = 0,
) -> dict[str, Any]:
    """Compares the regard of texts about groups, over all syntactic structures of their prompts and in one fixed one.

    Regard is -1 (negative), 0 (neutral) or 1 (positive). A group's mean is the paper's equation (1): every structure
    has the same weight. If each has the same number of rows, as in a full design, that is the mean over the rows; if
    rows labelled other are left out, it differs a little. Distribution and standard deviation have the same weights.
    A gap is the mean of the advantaged group − that of the disadvantaged one. A verdict is decided if an interval does
    not contain 0.

    Args:
        predictions: [rows] labels, each one of `labels`; or [rows, labels] probabilities, of which the highest decides
            (the first, if several are equal).
        groups: [rows] the group that the prompt is about.
        structures: [rows] syntactic structure of the prompt; `None`: not known, and only groups are compared.
        prompts: [rows] the prompt, or its verb phrase, for intervals of the fixed structure if there are no seeds;
            `None`: not known.
        pairs: Name → advantaged and disadvantaged group; `None`: no gaps.
        seeds: [rows] the seed that the text was drawn with; `None`: not known.
        labels: Names of the columns of probabilities, in their order: negative, neutral, positive, and perhaps other.
        other: Handling of rows labelled other: drop: they are left out and counted; neutral: they count as neutral;
            keep: they are a fourth class of distributions and divergences, which means and gaps do not include.
        smoothing: Added to the count of every label before divergences.
        kl: Whether to compute divergences.
        k: The number of best and of worst structures.
        confidence_level: Confidence level of the intervals, which are by Student's t.
        n_halves: Number of random splits of the structures into two halves.
        n_shuffles: Number of times that the rows of each group are shuffled among the structures, for the figures that
            single structures would have if structures made no difference; 0: these figures are left out.
        num_sampled: Number of structures that are drawn for the cosine of single structures (the paper: 10); `None`:
            all.
        fixed_structure: The structure whose figures are compared with those of all structures.
        seed: Seed of all draws; intervals use none. Draws depend neither on the order of the rows nor on the names of
            structures and seeds.

    Returns:
        The results that the module's card lists; plain Python values, `None` for what is not defined.

    Raises:
        ValueError: There are no rows, lengths differ, a label is unknown, a value is not a probability, a pair is not
            two of the groups, or an option has a value that is not allowed.
        EmptyClassError: (A `ValueError`.) A group has no row with a label that another group has, and neither
            `smoothing` nor `kl=False` is given.
    """
    _check_options(kl, k, confidence_level, n_halves, n_shuffles, fixed_structure, seed, smoothing)
    smoothing, num_sampled = as_python(smoothing), as_python(num_sampled)
    k, n_halves, n_shuffles, seed = map(as_python, (k, n_halves, n_shuffles, seed))
    rows = read_rows(predictions, groups, structures, prompts, seeds, labels)
    named = _read_pairs(pairs, rows.group.names)
    counted, num_other = without_other(rows, other)
    if not len(counted.label):
        raise ValueError(NONE_LEFT_ERROR.format(num=len(rows.label)))
    counts = counted.counts()
    over_structures = Spread("structures", [], confidence_level)
    if rows.structure is not None:
        over_structures = spread_over_structures(counts, confidence_level)
    spreads = [over_structures, spread_over_units(counted, counted.seed, "seeds", confidence_level)]
    figures = _figures(counted, counts, named, other, spreads)
    kl_divergence = kl_matrix(_weighted_counts(figures["by_group"]), smoothing) if kl else None
    of_structures: dict[str, Any] = dict.fromkeys(_OF_STRUCTURES)
    if rows.structure is not None:
        chance = by_chance(counts, named, n_shuffles=n_shuffles, seed=seed)
        singles = by_structure(counts, rows.group.names, rows.structure.names, named)
        for name, gap in figures["gaps"].items():
            gaps = {structure: single["gap"][name] for structure, single in singles.items()}
            gap.update(flips(gaps, gap["gap"]), num_flipped_by_chance=chance["num_flipped"][name])
        fixed = _fixed(rows, fixed_structure, named, other, smoothing, kl, confidence_level)
        over = {"fixed": "seeds" if _enough_seeds(counted, fixed_structure) else "prompts", "structured": "structures"}
        of_structures = {
            "by_structure": singles,
            **rankings(singles, list(named), k),
            "robustness": {
                **robustness(counts, named, n_halves=n_halves, num_sampled=num_sampled, seed=seed),
                "by_chance": {name: value for name, value in chance.items() if name != "num_flipped"},
            },
            "fixed": fixed,
            "verdicts": _verdicts(figures["gaps"], None if fixed is None else fixed["gaps"], over, fixed_structure),
            "verdict_over": over,
        }
    return {
        **figures,
        "kl_divergence": kl_divergence,
        **of_structures,
        "labels": list(REGARDS if other == "keep" else SCORED),
        "num_rows": len(rows.label),
        "num_other": num_other,
        "num_counted": len(counted.label),
        "num_structures": None if rows.structure is None else len(rows.structure.names),
        "num_prompts": None if rows.prompt is None else len(rows.prompt.names),
        "num_seeds": None if rows.seed is None else len(rows.seed.names),
        "other": other,
        "smoothing": smoothing,
        "k": k,
        "confidence_level": float(confidence_level),
        "n_halves": n_halves,
        "n_shuffles": n_shuffles,
        "num_sampled": num_sampled,
        "fixed_structure": fixed_structure,
        "seed": seed,
        "pairs": {name: [rows.group.names[group] for group in pair] for name, pair in named.items()},
    }


def _figures(
    rows: RegardRows,
    counts: np.ndarray,
    pairs: Mapping[str, Pair],
    other: str,
    spreads: Sequence[Spread],
) -> dict[str, Any]:
    """Figures of groups and gaps, with intervals over each kind of units."""
    by_group: dict[str, dict[str, Any]] = {}
    for index, group in enumerate(rows.group.names):
        figures = group_figures(counts[index], keep_other=other == "keep")
        by_group[group] = figures | _intervals(
            {spread.name: spread.of_mean(figures["mean"], index) for spread in spreads}
        )
    gaps: dict[str, dict[str, Any]] = {}
    for name, pair in pairs.items():
        advantaged, disadvantaged = (rows.group.names[group] for group in pair)
        means = by_group[advantaged]["mean"], by_group[disadvantaged]["mean"]
        gaps[name] = {
            "advantaged": advantaged,
            "disadvantaged": disadvantaged,
            "gap": None if None in means else cleaned(means[0] - means[1]),
        }
        gaps[name] |= _intervals({spread.name: spread.of_gap(gaps[name]["gap"], pair) for spread in spreads})
    return {"gaps": gaps, "by_group": by_group}


def _intervals(intervals: Mapping[str, Interval]) -> dict[str, Any]:
    """The intervals by kind of units as interval_structures and so on, and no_interval: kind → why there is none."""
    return {
        **{f"interval_{over}": interval.bounds for over, interval in intervals.items()},
        "no_interval": {over: interval.reason for over, interval in intervals.items() if interval.bounds is None},
    }


def _fixed(
    rows: RegardRows,
    structure: str,
    pairs: Mapping[str, Pair],
    other: str,
    smoothing: float | None,
    kl: bool,
    confidence_level: float,
) -> dict[str, Any] | None:
    """The figures of one structure alone; `None` if no row has it.

    It has few rows, so that an empty class is not an error here: divergences are then `None`, and kl_error says why.
    """
    if rows.structure is None or structure not in rows.structure.names:
        return None
    chosen = rows.where(rows.structure.codes == rows.structure.names.index(structure))
    counted, num_other = without_other(chosen, other)
    spreads = [
        spread_over_structures(counted.counts(), confidence_level),
        spread_over_units(counted, counted.seed, "seeds", confidence_level),
        spread_over_units(counted, counted.prompt, "prompts", confidence_level),
    ]
    figures = _figures(counted, counted.counts(), pairs, other, spreads)
    kl_divergence, kl_error = None, None
    if kl:
        try:
            kl_divergence = kl_matrix(_weighted_counts(figures["by_group"]), smoothing)
        except EmptyClassError as error:
            kl_error = str(error)
    return {
        **figures,
        "kl_divergence": kl_divergence,
        "kl_error": kl_error,
        "num_rows": len(chosen.label),
        "num_other": num_other,
        "num_counted": len(counted.label),
    }


def _enough_seeds(rows: RegardRows, structure: str) -> bool:
    """Whether the verdict of the fixed structure uses intervals over seeds: it has enough, or prompts are not given."""
    if rows.seed is None or rows.structure is None or structure not in rows.structure.names:
        return rows.prompt is None
    number = len(np.unique(rows.seed.codes[rows.structure.codes == rows.structure.names.index(structure)]))
    return number >= MIN_UNITS or rows.prompt is None


def _verdicts(
    gaps: Mapping[str, Any], fixed: Mapping[str, Any] | None, over: Mapping[str, str], fixed_structure: str
) -> dict[str, dict[str, Any]]:
    """For each pair the verdict of the fixed structure and of all, whether both agree, and why there is no verdict."""
    by_pair = {}
    for name, figures in gaps.items():
        verdicts: dict[str, str | None] = {}
        reasons: dict[str, str] = {}
        for side, gap in {"fixed": None if fixed is None else fixed[name], "structured": figures}.items():
            if gap is None:
                verdicts[side], reasons[side] = None, NO_FIXED_REASON.format(structure=fixed_structure)
                continue
            verdicts[side] = _verdict(gap[f"interval_{over[side]}"])
            if verdicts[side] is None:
                reasons[side] = gap["no_interval"][over[side]]
        survives = None if reasons else verdicts["fixed"] == verdicts["structured"]
        by_pair[name] = {**verdicts, "survives": survives, "no_verdict": reasons}
    return by_pair


def _verdict(interval: list[float] | None) -> str | None:
    if interval is None:
        return None
    lowest, highest = interval
    return "advantaged" if lowest > 0 else "disadvantaged" if highest < 0 else "undecided"


def _weighted_counts(by_group: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Counts with the weights of the distributions: shares times rows, which in a full design are the counts."""
    counts = {}
    for group, figures in by_group.items():
        num = sum(figures["counts"].values())
        counts[group] = {label: (share or 0.0) * num for label, share in figures["distribution"].items()}
    return counts


def _read_pairs(pairs: Any, groups: Sequence[str]) -> dict[str, Pair]:
    if pairs is None:
        return {}
    if not isinstance(pairs, Mapping) or not all(isinstance(name, str) for name in pairs):
        raise ValueError(PAIRS_ERROR.format(pairs=pairs))
    indices = {}
    for name, pair in pairs.items():
        if name == ALL_PAIRS:
            raise ValueError(PAIR_NAME_ERROR.format(name=name))
        is_pair = not isinstance(pair, str) and isinstance(pair, Sequence) and len(pair) == 2 and pair[0] != pair[1]
        if not is_pair:
            raise ValueError(PAIR_ERROR.format(name=name, pair=pair))
        for group in pair:
            if group not in groups:
                raise ValueError(PAIR_GROUP_ERROR.format(name=name, group=group, groups=", ".join(groups)))
        indices[name] = Pair(groups.index(pair[0]), groups.index(pair[1]))
    return indices


def _check_options(
    kl: bool,
    k: int,
    confidence_level: float,
    n_halves: int,
    n_shuffles: int,
    fixed_structure: str,
    seed: int,
    smoothing: float | None,
) -> None:
    check_flag("kl", kl)
    if not isinstance(fixed_structure, str) or not fixed_structure:
        raise ValueError(FIXED_STRUCTURE_ERROR.format(value=fixed_structure))
    least = {
        "k": (k, 1),
        "n_halves": (n_halves, 0),
        "n_shuffles": (n_shuffles, 0),
        "seed": (seed, 0),
    }
    for name, (value, lowest) in least.items():
        if not is_whole(value) or value < lowest:
            raise ValueError(WHOLE_NUMBER_ERROR.format(name=name, value=value, least=lowest))
    if not (is_number(confidence_level) and 0 < confidence_level < 1):
        raise ValueError(CONFIDENCE_LEVEL_ERROR.format(value=confidence_level))
    check_smoothing(smoothing)
