"""Computes the results of `dialogue` from the run's tables."""

import numpy as np
import pyarrow as pa

from hb_metrics.measurements.dialogue.results import Dialogue
from hb_metrics.measurements.results import Run
from hb_metrics.run.run_folder import DIALOGUE
from hb_metrics.stats.clusters import loss_per_token, mean_bounds


def compute(run: Run) -> Dialogue:
    record, table = run.record.dialogue, run.tables.read(DIALOGUE, ("log_likelihood", "num_tokens"))
    return dialogue_results(table, record.num_replies, run.confidence_level)


def dialogue_results(table: pa.Table, num_pairs: int, confidence_level: float = 0.95) -> Dialogue:
    """Returns the perplexity of the replies: exp(total negative log-likelihood / total number of tokens).

    The interval generalises to other pairs of the same kind. It is the interval of the mean loss per token, with both
    limits exponentiated. Pairs of the source (there are `num_pairs`) that are not in the table are counted as too long.
    """
    nll, tokens = -table["log_likelihood"].to_numpy(), table["num_tokens"].to_numpy()
    mean, of_mean, reason = loss_per_token(nll, tokens)
    bounds = None
    if reason is None:
        low, high = np.exp(mean_bounds(mean, of_mean, confidence_level)).tolist()
        bounds = (low, high)
    return Dialogue(
        perplexity=float(np.exp(mean)),
        interval=bounds,
        no_interval=reason,
        confidence_level=confidence_level,
        num_replies=len(nll),
        num_tokens=int(tokens.sum()),
        num_too_long=num_pairs - len(nll),
    )
