"""Style vectors of replies that are all distinct: sentence embeddings, then the embedded classifier's discriminant.

The classifier takes the token states of four depths. The peer is given the same to do in its own way: a
`SentenceTransformer` of the same weights whose pooling module pools those depths, `encode`, and numpy. Replies that
repeat, which ours embeds once, are counted apart: see `style_vectors_repeated.py`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tests.benchmarks.row import OURS, Row, Side

NUM_REPLIES = 1500
SEED = 0
# sentence-transformers' best of 8, 16, 32 (its default), 64, 128 and 256; it sorts by length itself.
PEER_BATCH_SIZE = 128
# Float32 sums in another order.
ABSOLUTE_TOLERANCE = 1e-5


class Loaded(NamedTuple):
    """The classifier; for the peer, of which only the discriminant is used, and its model."""

    embedded: Any
    sentences: Any = None


def replies(fraction: float) -> list[str]:
    """So many distinct replies as long as a model's: two of the written exemplars, one after the other."""
    from hb_metrics.inference.classifiers.exemplars import read_labelled
    from hb_metrics.inference.classifiers.styles import STYLE_EXEMPLARS

    written = read_labelled(STYLE_EXEMPLARS.exemplars).texts
    pairs = np.random.default_rng(SEED).permutation(len(written) ** 2)[: round(fraction * NUM_REPLIES)]
    return [f"{written[pair // len(written)]} {written[pair % len(written)]}" for pair in pairs]


def load(inputs: list[str]) -> Loaded:
    """Our classifier."""
    from hb_metrics.inference.classifiers.exemplars import ExemplarClassifier
    from hb_metrics.inference.classifiers.styles import STYLE_EXEMPLARS

    return Loaded(ExemplarClassifier(STYLE_EXEMPLARS))


def load_sentence_transformer(inputs: list[str]) -> Loaded:
    """The same weights as a SentenceTransformer that pools several depths."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Transformer

    from hb_metrics.inference.classifiers.exemplars import DEPTHS, _model_folder

    class DepthPooling(torch.nn.Module):
        """Mean-pooled token states at each depth, each of length 1."""

        def forward(self, features: dict[str, Any]) -> dict[str, Any]:
            mask = features["attention_mask"][..., None]
            states = (features["all_layer_embeddings"][depth] for depth in DEPTHS)
            pooled = [(each * mask).sum(1) / mask.sum(1) for each in states]
            features["sentence_embedding"] = torch.cat(
                [torch.nn.functional.normalize(each, dim=1) for each in pooled], 1
            )
            return features

    transformer = Transformer(str(_model_folder()), max_seq_length=512, config_kwargs={"output_hidden_states": True})
    return load(inputs)._replace(sentences=SentenceTransformer(modules=[transformer, DepthPooling()], device="cpu"))


def by_us(inputs: list[str], loaded: Loaded) -> dict[str, np.ndarray]:
    """Our classifier."""
    probabilities, _ = loaded.embedded.classify(inputs)
    return {"style_probabilities": probabilities}


def by_sentence_transformer(inputs: list[str], loaded: Loaded) -> dict[str, np.ndarray]:
    """Embeddings, scores, softmax."""
    features = loaded.sentences.encode(inputs, batch_size=PEER_BATCH_SIZE, show_progress_bar=False)
    weights, offsets, temperature = loaded.embedded.discriminant
    scores = (features.astype(np.float64) @ weights + offsets) / temperature
    exponentials = np.exp(scores - scores.max(1, keepdims=True))
    return {"style_probabilities": exponentials / exponentials.sum(1, keepdims=True)}


def told(found: Mapping[str, np.ndarray]) -> str:
    """What the replies are."""
    return f"{len(found['style_probabilities']):,} replies, none of them twice"


ROW = Row(
    title="style vectors of distinct replies, embedded classifier",
    inputs=replies,
    work=len,
    unit="replies",
    sides={
        OURS: Side(run=by_us, load=load),
        "sentence-transformers": Side(run=by_sentence_transformer, load=load_sentence_transformer, bar=1.0),
    },
    relative_tolerance=0,
    absolute_tolerance=ABSOLUTE_TOLERANCE,
    notes=told,
)
