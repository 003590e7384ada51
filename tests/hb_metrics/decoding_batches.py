"""Batches of contexts whose size a test chooses."""

from unittest.mock import patch

from hb_metrics.collect.replies import decoding_shards


def in_batches_of(size):
    """A context in which at most so many contexts are decoded together, all of the same length."""
    batches = decoding_shards._batches

    def of_size(contexts, rows, limit, workers, padded):
        return batches(contexts, rows, size, workers, False)

    return patch.object(decoding_shards, "_batches", of_size)
