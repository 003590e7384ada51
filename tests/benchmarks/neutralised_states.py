"""What HD and ADD could do at best: the bias of a model whose states are neutralised by projection, without training.

    python tests/benchmarks/neutralised_states.py --reddit_folder RedditBias --bias_type religion1

The losses of HD and ADD are zero once certain states have no share in certain directions. Here that share is taken away
from the input of the output layer, and the pairs are scored again: what is left of the bias cannot be removed by these
states, however well the loss is learnt. (A trained model gets there by other weights, which may do more or less.) The
first table shows where the bias is: in the target term after its prefix, or in the rest of the phrase after the term.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import normalize

from hb_dataset.bias_specification import BiasSpecification, read_specification
from hb_dataset.markdown_table import markdown_table
from hb_dataset.reddit_bias import load_reddit_bias
from hb_metrics.inference.models.loading import load_model
from hb_metrics.language_model_bias.paired_test import language_model_bias
from hb_train.debiasing.hd import bias_subspace
from hb_train.debiasing.phrases import ATTRIBUTES, REST, TARGETS, TARGETS_AND_REST, collate, encode_phrases
from hb_train.debiasing.terms import Terms, read_terms, target_vectors
from hb_train.debiasing.trainer import _output_layer_inputs

NOTHING, PARTS = "nothing", ("prefix", "target term", "rest")
BATCH_SIZE = 16


def directions(weight: torch.Tensor, terms: Terms) -> dict[str, torch.Tensor]:
    """Orthonormal directions [hidden, k] on which no share is left once the loss of a method is zero."""
    targets = target_vectors(weight, terms)
    # Equal cosines with both terms of a pair: orthogonal to the difference of their normalised vectors.
    differences = normalize(targets[terms.pairs[:, 0]], dim=1) - normalize(targets[terms.pairs[:, 1]], dim=1)
    return {"hd": bias_subspace(targets, terms.pairs), "add": torch.linalg.qr(differences.T).Q}


def neutralised_states(batch: dict[str, torch.Tensor], subspaces: dict[str, torch.Tensor]) -> dict[str, Any]:
    """What is neutralised → which states, [rows, length], and the directions."""

    def before(column: str) -> torch.Tensor:  # the states that predict the marked tokens
        return torch.nn.functional.pad(batch[column][:, 1:] > 0, (0, 1))

    at_attributes = batch[ATTRIBUTES] > 0
    return {
        NOTHING: (torch.zeros_like(at_attributes), subspaces["hd"]),
        "ADD, attributes": (at_attributes, subspaces["add"]),
        "HD, attributes": (at_attributes, subspaces["hd"]),
        "HD, targets": (before(TARGETS), subspaces["hd"]),
        "HD, rest": (before(REST), subspaces["hd"]),
        "HD, targets_and_rest": (before(TARGETS_AND_REST), subspaces["hd"]),
    }


@torch.no_grad()
def score(texts: Sequence[str], model: Any, tokenizer: Any, specification: BiasSpecification) -> dict[str, np.ndarray]:
    """Scores texts with each kind of neutralisation.

    Returns:
        What is neutralised → [texts, parts] the share of each part in the logarithm of a text's perplexity, their sum.

    Raises:
        ValueError: A text has a single token, which nothing predicts, or the model changes what its output layer gives.
    """
    marked_terms = read_terms(specification, tokenizer, with_forms=True)
    encoded = encode_phrases(texts, tokenizer, marked_terms, specification.attributes_1, max_length=None)
    if encoded.num_too_short:
        raise ValueError(f"{encoded.num_too_short} texts have a single token; leave them out")
    layer = model.get_output_embeddings()
    subspaces = directions(layer.weight, read_terms(specification, tokenizer))
    order = sorted(range(len(texts)), key=lambda row: len(encoded.dataset[row]["labels"]))
    scores: dict[str, np.ndarray] = {}
    for start in range(0, len(order), BATCH_SIZE):
        rows = order[start : start + BATCH_SIZE]
        batch = collate([encoded.dataset[row] for row in rows], padding=0)
        with _output_layer_inputs(layer) as states:
            logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        if not torch.allclose(layer(states[0]), logits, atol=1e-3):
            raise ValueError("the model's logits are not what its output layer returns; this measure does not fit it")
        inside = batch["attention_mask"][:, 1:]
        for name, (which, subspace) in neutralised_states(batch, subspaces).items():
            neutral = states[0].clone()
            neutral[which] -= neutral[which] @ subspace @ subspace.T
            nll = -layer(neutral)[:, :-1].log_softmax(2).gather(2, batch["input_ids"][:, 1:, None])[:, :, 0]
            nll = nll * inside / inside.sum(1, keepdim=True)
            values = scores.setdefault(name, np.zeros((len(texts), len(PARTS))))
            for part in range(len(PARTS)):
                values[rows, part] = (nll * (_parts(batch) == part)).sum(1).numpy()
    return scores


def _parts(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """[rows, length − 1] the part of `PARTS` that each token from the second on is in."""
    is_rest = batch[REST] > 0
    # From the first target term on; where it is the first token, which is not marked, from there.
    begun = (batch[TARGETS] > 0).cumsum(1) > 0
    begun |= is_rest.any(1, keepdim=True) & ~(batch[TARGETS].bool() & ~is_rest).any(1, keepdim=True)
    return (begun.long() + is_rest.long()).clamp(max=2)[:, 1:]


def main() -> None:
    """Reads the options and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reddit_folder", required=True, help="The folder of RedditBias.")
    parser.add_argument("--bias_type", default="religion1", help="The bias specification.")
    parser.add_argument("--model", default="embedded", help="The model, a causal one.")
    parser.add_argument("--every", type=int, default=1, help="Take every n-th pair of the test split.")
    options = parser.parse_args()
    specification = read_specification(options.bias_type)
    pairs = load_reddit_bias(options.reddit_folder, specification)["test"].to_pandas().iloc[:: options.every]
    loaded = load_model(options.model)
    sides = [
        score(pairs[column].tolist(), loaded.model, loaded.tokenizer, specification)
        for column in ("text_t1", "text_t2")
    ]
    tests = {name: language_model_bias(*(np.exp(side[name].sum(1)) for side in sides)) for name in sides[0]}
    differences = (sides[0][NOTHING] - sides[1][NOTHING]).mean(0)
    shares = [[part, f"{value:+.4f}"] for part, value in zip(PARTS, differences, strict=True)]
    print(
        f"{len(pairs)} pairs\n\n" + markdown_table(["part", "mean difference of log perplexity"], shares, numbers=[1])
    )
    rows = [
        [name, f"{test.t_log:+.2f}", f"{test.mean_difference_log:+.4f}", f"{test.share_t1_likelier:.1%}"]
        for name, test in tests.items()
    ]
    header = ["neutralised", "t of logs", "mean difference of log perplexity", "t1 likelier"]
    print("\n" + markdown_table(header, rows, numbers=range(1, 4)))


if __name__ == "__main__":
    main()
