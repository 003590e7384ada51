"""Made-up style vectors of replies, with styles that go together as planted."""

import json

import numpy as np
import pyarrow.parquet as pq

from hb_metrics.measurements.generation.styles import style_results
from tests.hb_metrics.made_results import (
    as_stored,
    full_run,
    replies_to,
    some_prompts,
    write_replies,
    write_results,
    write_vectors,
)


def planted(replies, groups, *, strength=0.8, of_terms=0.0, seed=0):
    """[replies, styles] style vectors; the styles of a group share a part of each reply's logits, and of each term's.

    Args:
        replies: The replies.
        groups: [styles] the group of each style.
        strength: Standard deviation of the shared part of a reply's; that of a style's own makes up for the rest.
        of_terms: Standard deviation of the shared part of a term's.
        seed: Chooses the numbers.
    """
    rng, groups = np.random.default_rng(seed), np.asarray(groups)
    terms = np.unique(replies.descriptors, return_inverse=True)[1]
    num_groups = groups.max() + 1
    own = rng.normal(size=(len(terms), len(groups))) * np.sqrt(1 - strength**2)
    shared = rng.normal(size=(len(terms), num_groups)) * strength
    shared += (rng.normal(size=(terms.max() + 1, num_groups)) * of_terms)[terms]
    weights = np.exp(own + shared[:, groups])
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def write_run(folder, labels, groups, *, clusters=None, **of_styles):
    """A finished run of made-up replies with planted style vectors.

    Returns:
        Its replies and their style vectors.
    """
    replies = replies_to(some_prompts(), 4)
    styles = planted(replies, groups, **of_styles)
    results = full_run()
    computed, _ = style_results(replies, styles, labels, clusters=clusters)
    results["generation"] = results["generation"] | as_stored(computed)
    results["run"]["style_classifier"] |= {"clusters": clusters, "num_styles": len(labels)}
    write_results(folder, results)
    (folder / "run.json").write_text(json.dumps(results["run"]), encoding="utf-8")
    pq.write_table(some_prompts(), folder / "prompts.parquet")
    write_replies(folder, replies.ids, replies.prompts, replies.texts)
    rows = np.random.default_rng(0).permutation(len(styles))  # shards may have replies in another order
    write_vectors(folder / "style_probabilities", [replies.ids[row] for row in rows], styles[rows])
    return replies, styles
