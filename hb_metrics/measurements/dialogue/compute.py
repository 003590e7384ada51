"""Computes the results of `dialogue` from the run's tables."""

from typing import Any

import numpy as np
import pyarrow as pa
from scipy import stats

from hb_metrics.paired_changes.paired_change import MIN_PAIRS
from hb_metrics.runs.finished_run import Run, stored_shards
from hb_metrics.runs.run_folder import DIALOGUE


def compute(run: Run) -> dict[str, Any]:
    record, table = run.results["run"]["dialogue"], stored_shards(run.folder / DIALOGUE)
    return dialogue_results(table, record["num_replies"], record["source"], run.confidence_level)


def dialogue_results(table: pa.Table, num_pairs: int, source: str, confidence_level: float = 0.95) -> dict[str, Any]:
    """Returns the perplexity of the replies: exp(total negative log-likelihood / total number of tokens).

    The interval generalises to other pairs of the same kind. It is the t-interval for the mean loss per token, with
    both limits exponentiated. With fewer than `MIN_PAIRS` pairs, the interval is `None`. Pairs of the source (there are
    `num_pairs`) that are not in the table are counted as too long.
    """
    nll, tokens = -table["log_likelihood"].to_numpy(), table["num_tokens"].to_numpy()
    number, total = len(nll), tokens.sum()
    mean = nll.sum() / total
    interval = None
    if number >= MIN_PAIRS:
        errors = (nll - mean * tokens) / total
        quantile = stats.t.ppf((1 + confidence_level) / 2, number - 1)
        half = quantile * np.sqrt(number / (number - 1) * (errors**2).sum())
        interval = [float(np.exp(mean - half)), float(np.exp(mean + half))]
    return {
        "perplexity": float(np.exp(mean)),
        "interval": interval,
        "confidence_level": confidence_level,
        "num_replies": number,
        "num_tokens": int(total),
        "num_skipped": {"too_long": num_pairs - number},
        "source": source,
    }
