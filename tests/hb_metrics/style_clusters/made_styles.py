"""Made-up style vectors of replies, with styles that go together as planted."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hb_metrics.measurements.generation.results import generation_results
from hb_metrics.runs.replies import Replies
from tests.hb_metrics.made_results import as_stored, full_run, replies_to, some_prompts, write_results


def made_replies(num_descriptors=10, num_templates=3, sizes=8, seed=0):
    """Replies to each cell: `sizes` of them, or as many as `sizes(descriptor, template)` gives."""
    rows = [
        (f"term {descriptor}", f"template {template}")
        for descriptor in range(num_descriptors)
        for template in range(num_templates)
        for _ in range(sizes(descriptor, template) if callable(sizes) else sizes)
    ]
    ids = [f"{number:06d}" for number in np.random.default_rng(seed).permutation(len(rows))]
    descriptors, templates = zip(*rows, strict=True)
    texts = [f"reply {number}" for number in ids]
    return Replies(ids, ["axis"] * len(rows), list(descriptors), list(templates), texts, texts)


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


def write_run(folder, labels, groups, *, tag=None, clusters=None, replies_per_cell=4, **of_styles):
    """A finished run of made-up replies with planted style vectors.

    Returns:
        Its replies and their style vectors.
    """
    replies = replies_to(some_prompts(), replies_per_cell)
    styles = planted(replies, groups, **of_styles)
    results = full_run()
    computed, _ = generation_results(replies, styles, labels, clusters=clusters)
    results["generation"] = as_stored(results["generation"] | computed)
    results["run"]["generation"]["tag"] = tag
    results["run"]["style_classifier"] |= {"clusters": clusters, "num_styles": len(labels)}
    write_results(folder, results)
    (folder / "run.json").write_text(json.dumps(results["run"]), encoding="utf-8")
    pq.write_table(some_prompts(), folder / "prompts.parquet")
    for name in ("replies", "style_probabilities"):
        (folder / name).mkdir()
    columns = {"id": replies.ids, "text": replies.prompts, "reply": replies.texts}
    table = pa.table({**columns, "question": pa.nulls(len(replies.ids), pa.string())})
    pq.write_table(table, folder / "replies" / "00000-of-00001.parquet")
    rows = np.random.default_rng(0).permutation(len(styles))  # shards may have replies in another order
    for index, part in enumerate(np.array_split(rows, 2)):
        column = pa.FixedSizeListArray.from_arrays(pa.array(styles[part].ravel()), len(labels))
        shard = pa.table({"id": [replies.ids[row] for row in part], "probabilities": column})
        pq.write_table(shard, folder / "style_probabilities" / f"{index:05d}-of-00002.parquet")
    return replies, styles
