"""What the rows about perplexity share: their sentences, their models, and the sides.

All sides feed the model the same tokens, a start token and the sentence, and find the summed log-likelihood of each
sentence.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow.compute as pc
import torch

from hb_dataset import load_table
from hb_metrics.collect.scoring.perplexity import score_perplexity
from hb_metrics.models.loading import LoadedModel, load_model
from tests.benchmarks.row import OURS, Row, Side

CONFIG = "v1.0"
SENTENCES = 2_000
SEED = 0
RELATIVE_TOLERANCE = 1e-4
EVALUATE_BATCH_SIZE = 16  # its default
# With the embedded model on one core lm-eval took 7.7, 7.4 and 7.7 s of CPU time at 16, 32 and 64. `auto` is the
# largest that fits, 64 at most by default, and takes five runs of it to find that out.
LM_EVAL_BATCH_SIZE = 32


def peers_row(what: str, sample: Callable[[float], list[str]]) -> Row:
    """2,000 sentences, by us, by the algorithm of evaluate's measurement and by lm-eval."""
    return Row(
        title=f"perplexity of {SENTENCES:,} {what}",
        inputs=sample,
        work=len,
        unit="sentences",
        sides={
            OURS: Side(run=score_ours, load=load_embedded),
            # Shares: the peers' time is in proportion to the sentences.
            "evaluate's algorithm": Side(run=score_globally_padded, load=load_embedded, share=0.125, repeats=2),
            "lm-eval": Side(run=score_lm_eval, load=load_embedded, share=0.25, repeats=2),
        },
        relative_tolerance=RELATIVE_TOLERANCE,
        notes=tell_positions,
    )


def tell_positions(found: Mapping[str, np.ndarray]) -> str:
    """How much of the work of scoring was shared."""
    tokens, positions = int(found["num_tokens"].sum()), int(found["positions"])
    return f"computes {positions:,} positions for {tokens:,} tokens, {positions / tokens:.2f} per token"


# --- sentences --------------------------------------------------------------------------------------------------------


def random_sentences(fraction: float) -> list[str]:
    """A random sample of distinct sentences, always the same; a smaller one is the beginning of a larger one.

    Of all axes it shares little, because a term is rarely drawn twice in a template.
    """
    sentences = pc.unique(load_table(CONFIG)["text"])
    order = np.random.default_rng(SEED).permutation(len(sentences))
    return sentences.take(order[: _number(fraction)]).to_pylist()


def random_groups(fraction: float) -> list[str]:
    """As `random_sentences`, but what is drawn is a term and a template, and they come with all their nouns.

    This is how little can be measured: Likelihood Bias compares terms by their sentences in a template.
    """
    table = load_table(CONFIG)
    groups = pc.binary_join_element_wise(table["descriptor"], table["template"], "|").combine_chunks()
    groups = groups.dictionary_encode()
    places = np.random.default_rng(SEED).permutation(len(groups.dictionary))[groups.indices.to_numpy()]
    sentences = pc.unique(table["text"].take(np.argsort(places, kind="stable")))
    return sentences[: _number(fraction)].to_pylist()


def _number(fraction: float) -> int:
    return max(1, round(fraction * SENTENCES))


# --- models -----------------------------------------------------------------------------------------------------------


def load_embedded(sentences: Sequence[str]) -> LoadedModel:
    """SmolLM2-135M-Instruct in float32."""
    return load_model("embedded")


# --- sides ------------------------------------------------------------------------------------------------------------


def score_ours(sentences: Sequence[str], loaded: LoadedModel) -> dict[str, np.ndarray]:
    """`score_perplexity`, from the texts on: tokenised, tried, planned and scored."""
    scores = score_perplexity(sentences, loaded.model, loaded.tokenizer)
    return {
        "log_likelihoods": scores.log_likelihoods,
        "num_tokens": scores.num_tokens,
        "positions": np.array(scores.plan.positions),
    }


def score_globally_padded(sentences: Sequence[str], loaded: LoadedModel) -> dict[str, np.ndarray]:
    """The algorithm of evaluate's `perplexity` measurement with its defaults.

    After https://github.com/huggingface/evaluate, measurements/perplexity (Apache-2.0, The HuggingFace Datasets
    Authors): all texts are padded to the longest of them, a start token is put before each, batches of 16 go through
    the model in their order, and the cross-entropy of all positions is weighted with the mask.
    """
    model, tokenizer = loaded.model, loaded.tokenizer
    padded = tokenizer(list(sentences), add_special_tokens=False, padding=True, return_tensors="pt")
    loss = torch.nn.CrossEntropyLoss(reduction="none")
    nll: list[float] = []
    for start in range(0, len(sentences), EVALUATE_BATCH_SIZE):
        rows = slice(start, start + EVALUATE_BATCH_SIZE)
        tokens, mask = padded["input_ids"][rows], padded["attention_mask"][rows]
        tokens = torch.cat([torch.full((len(tokens), 1), tokenizer.bos_token_id), tokens], dim=1)
        mask = torch.cat([torch.ones(len(mask), 1, dtype=mask.dtype), mask], dim=1)
        with torch.no_grad():
            logits = model(tokens, attention_mask=mask).logits
        predicted = logits[:, :-1].contiguous()
        nll += (loss(predicted.transpose(1, 2), tokens[:, 1:].contiguous()) * mask[:, 1:]).sum(1).tolist()
    return {"log_likelihoods": -np.array(nll)}


def score_lm_eval(sentences: Sequence[str], loaded: LoadedModel) -> dict[str, np.ndarray]:
    """lm-eval's `HFLM.loglikelihood` after an empty context, for which it puts the start token.

    It sorts by length, which `loglikelihood_rolling` does not, and takes about four fifths of the time.
    """
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    requests = [Instance("loglikelihood", {}, ("", sentence), index) for index, sentence in enumerate(sentences)]
    harness = HFLM(pretrained=loaded.model, tokenizer=loaded.tokenizer, batch_size=LM_EVAL_BATCH_SIZE)
    found = harness.loglikelihood(requests, disable_tqdm=True)
    return {"log_likelihoods": np.array([log_likelihood for log_likelihood, _ in found])}
