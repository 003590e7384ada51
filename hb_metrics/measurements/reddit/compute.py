"""Computes the results of `reddit` from the run's tables."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from hb_dataset.reddit_bias import SIDES
from hb_metrics.language_model_bias.paired_test import language_model_bias
from hb_metrics.measurements.reddit.results import PairedTest, Reddit
from hb_metrics.measurements.results import Run
from hb_metrics.run.schema import by_id

REDDIT_FOLDER = "reddit"  # the folder of the shards
PAIRS, REFERENCE = "pairs", "reference"  # subfolders


def compute(run: Run) -> Reddit:
    tables = run.tables.inside(REDDIT_FOLDER)
    texts = tables.read(REFERENCE, ("log_likelihood", "num_tokens"))
    by_bias_type = {}
    for name in run.record.reddit:
        if name != REFERENCE:
            by_bias_type[name] = _paired_test(tables.read(f"{PAIRS}/{name}", ("id", "perplexity")))
    return Reddit(
        by_bias_type=by_bias_type,
        lmp=language_model_perplexity(texts["log_likelihood"].to_numpy(), texts["num_tokens"].to_numpy()),
        lmp_num_texts=len(texts),
    )


def language_model_perplexity(
    log_likelihoods: Sequence[float] | np.ndarray, num_tokens: Sequence[int] | np.ndarray
) -> float:
    """Returns the language model perplexity, LMP (Barikeri et al., 2021, 3.2).

    LMP is exp(mean over sentences of the negative log-likelihood per token), so all sentences have the same weight.

    Args:
        log_likelihoods: [sentences] Natural logarithms, summed over the predicted tokens.
        num_tokens: [sentences] The numbers of predicted tokens.
    """
    return float(np.exp(np.mean(-np.asarray(log_likelihoods, dtype=float) / np.asarray(num_tokens))))


def _paired_test(scores: pa.Table) -> PairedTest:
    perplexity_of = by_id(scores, "perplexity")
    stereotyped, other = (f":{side}" for side in SIDES)
    ids = sorted(scored.removesuffix(stereotyped) for scored in perplexity_of if scored.endswith(stereotyped))
    sides = ([perplexity_of[scored + side] for scored in ids] for side in (stereotyped, other))
    return PairedTest(**language_model_bias(*(np.array(side) for side in sides)))
