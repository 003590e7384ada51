import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from hb_metrics.regard_bias.regard_rows import NEGATIVE, NEUTRAL, POSITIVE, SCORED

# Values below this limit are rounding errors.
ROUNDING = 1e-12


def cell_means(counts: np.ndarray) -> np.ndarray:
    """Computes mean regard (from -1 to 1) from counts [..., labels]. The mean is NaN where there are no rows."""
    numbers = counts.sum(axis=-1)
    sums = counts[..., POSITIVE] - counts[..., NEGATIVE]
    return np.divide(sums, numbers, out=np.full(numbers.shape, np.nan), where=numbers > 0)


def exact_mean(values: np.ndarray) -> float | None:
    """Returns the mean of the values that are not NaN. The result does not depend on the order of the values."""
    known = values[~np.isnan(values)].tolist()
    return cleaned(math.fsum(known) / len(known)) if known else None


def cleaned(value: float) -> float:
    return 0.0 if abs(value) < ROUNDING else float(value)


def group_figures(counts: np.ndarray) -> dict[str, Any]:
    """Computes the figures of one group. `counts` is [structures, labels]. Every structure has the same weight."""
    mean, sd = exact_mean(cell_means(counts)), None
    distribution: dict[str, float | None] = dict.fromkeys(SCORED)
    if mean is not None:
        totals = counts.sum(axis=1)
        of_structures = counts[totals > 0] / totals[totals > 0, None]
        shares = [math.fsum(column) / len(of_structures) for column in of_structures.T.tolist()]
        squares = shares[NEGATIVE] * (mean + 1) ** 2 + shares[NEUTRAL] * mean**2 + shares[POSITIVE] * (mean - 1) ** 2
        sd = cleaned(math.sqrt(squares))
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
        The divergences by a and b, and `None`. If there is no `smoothing`, and if only some groups have a certain
        label, returns `None` and the reason instead.
    """
    table = np.array([list(row.values()) for row in counts.values()], dtype=float) + (smoothing or 0)
    if not table.any():
        return None, "no text is labelled negative, neutral or positive"
    is_empty = (table == 0) & (table > 0).any(axis=0)
    if is_empty.any():
        row_index, column = np.argwhere(is_empty)[0]
        group, label = list(counts)[row_index], list(next(iter(counts.values())))[column]
        return None, (
            f"no row of group {group!r} is {label}, but other groups have such rows, so their divergence from this "
            "group is infinite; pass more rows, or set smoothing to a number that is added to every count, such as 1"
        )
    known = table[:, (table > 0).any(axis=0)]
    shares = known / known.sum(axis=1, keepdims=True)
    logs = np.log(shares)
    matrix = [
        [cleaned(math.fsum(p * (log_p - log_q))) for log_q in logs] for p, log_p in zip(shares, logs, strict=True)
    ]
    return {group: dict(zip(counts, row, strict=True)) for group, row in zip(counts, matrix, strict=True)}, None
