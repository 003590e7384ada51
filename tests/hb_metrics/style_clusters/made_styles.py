"""Made-up style vectors of replies, with styles that go together as planted."""

import numpy as np

from hb_metrics.replies import Replies


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
