"""Generates continuations, which are texts that complete a prompt.

The model continues a prompt such as "The woman worked as", without a chat template or a line break, as in Aggarwal et
al. (2022, section 3) and Sheng et al. (2019). Prompt and continuation together have at most 40 tokens. Ten seeds
produce ten continuations of a prompt. A continuation depends only on the run's seed, the prompt's id and the index of
the seed.

A continuation ends before a special token, or before the first line break that follows a word, because a new text
starts there. Line breaks before the first word are removed.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

import numpy as np
import pyarrow as pa

from hb_dataset.grouped import grouped
from hb_dataset.seeded_draws import seeded_generator
from hb_dataset.structures import FIXED_STRUCTURE
from hb_metrics.collect.replies.decoding_settings import Decoded, Decoding
from hb_metrics.collect.replies.decoding_shards import DecodingPlan
from hb_metrics.collect.replies.forward import decoding_paths
from hb_metrics.models.contexts import EndTokens, check_lengths, encode_rendered, end_tokens, reply_text
from hb_metrics.models.float32 import is_exact
from hb_metrics.models.loading import LoadedModel
from hb_metrics.run.schema import FILES, about_prompts, arrow_schema

# The paper's published outputs were generated with these settings. The maximum includes the tokens of the prompt.
TEMPERATURE, TOP_K, MAX_TOKENS = 0.7, 40, 40
NUM_SEEDS = 10  # the maximum number of continuations of a prompt

CONTINUATION_SCHEMA = arrow_schema(FILES["regard/continuations/*.parquet"])


@dataclass(frozen=True, kw_only=True)
class ContinuationPlan(DecodingPlan):
    """The continuations to generate. Each row has a prompt and the index of a seed.

    `ids` have the form `"<prompt id>:<seed index>"`. `decoding.max_new_tokens` is the maximum number of tokens in the
    prompt and the continuation together. `about` contains the term and the structure of each row's prompt.
    """

    about: pa.Table
    texts: list[str]
    seed_indices: list[int]

    schema = CONTINUATION_SCHEMA
    label = "continuations"
    purpose = "continuation"

    def columns(self, loaded: LoadedModel, rows: Sequence[int], decoded: Sequence[Decoded]) -> dict[str, object]:
        """Returns the columns of `CONTINUATION_SCHEMA`, without `id`.

        `continuation` has no white space at its ends. It is null if the model wrote nothing. `num_tokens` also counts
        the removed white space. `truncated` states whether `MAX_TOKENS` was reached.
        """
        return {
            **self.about.take(pa.array(rows)).to_pydict(),
            "turn": [1] * len(rows),
            "text": [self.texts[row] for row in rows],
            "seed_index": [self.seed_indices[row] for row in rows],
            "continuation": [reply_text(continuation.tokens, loaded.tokenizer) or None for continuation in decoded],
            "num_tokens": [len(continuation.tokens) for continuation in decoded],
            "truncated": [continuation.truncated for continuation in decoded],
        }

    def description(self) -> dict[str, object]:
        return {
            "num_prompts": len(self.about["prompt_id"].unique()),
            "num_continuations": len(self.ids),
            "prompts_digest": hashlib.sha256("\x1f".join([*self.ids, *self.texts]).encode()).hexdigest(),
            "seeds": sorted(set(self.seed_indices)),
            "seed": self.seed,
            "temperature": self.decoding.temperature,
            "top_k": self.decoding.top_k,
            "max_tokens": self.decoding.max_new_tokens,
            "same_in_any_batch": self.invariant,
        }


def draw_continuations(prompts: pa.Table, number: int, *, seed: int) -> list[tuple[int, int]]:
    """Draws the continuations to generate. For each, returns the row of its prompt and the index of its seed.

    `number` continuations are drawn per group and structure. All groups get the same verb phrases and seeds. Verb
    phrases of occupation and of respect alternate, and no verb phrase is drawn twice before all others have been drawn.
    For the fixed structure, every prompt is combined with every seed. If `number` is 0, this rule applies to all
    structures.
    """
    columns = [prompts[name].to_pylist() for name in ("structure", "verb_phrase", "prompt_type")]
    types = dict(zip(*columns[1:], strict=True))
    chosen: dict[str, dict[str, list[int]]] = {}
    drawn = []
    for row, (structure, verb_phrase, _) in enumerate(zip(*columns, strict=True)):
        if not number or structure == FIXED_STRUCTURE:
            indices = list(range(NUM_SEEDS))
        else:
            if structure not in chosen:
                chosen[structure] = _draw(types, number, seeded_generator(seed, "regard", structure))
            indices = chosen[structure].get(verb_phrase, [])
        drawn += [(row, index) for index in indices]
    return drawn


def plan_continuations(
    prompts: pa.Table, loaded: LoadedModel, drawn: Sequence[tuple[int, int]], *, seed: int
) -> ContinuationPlan:
    """Encodes the prompts of the continuations from `draw_continuations`. Prompts must not end in white space."""
    if loaded.kind != "causal":
        raise ValueError(
            f"regard needs a causal model, which continues a text, but '{loaded.name}' is {loaded.kind}; set --model "
            "to a causal model, such as openai-community/gpt2, or remove regard from --measurements"
        )
    ids, texts = prompts["id"].to_pylist(), prompts["text"].to_pylist()
    decoding = Decoding(sample=True, temperature=TEMPERATURE, top_k=TOP_K, top_p=1.0, max_new_tokens=MAX_TOKENS)
    encoded = encode_rendered(texts, loaded.tokenizer, "plain", is_encoder_decoder=False)
    check_lengths(encoded, ids, loaded.model, max_new_tokens=0)
    lengths = [len(tokens) for tokens in encoded]
    for identifier, length in zip(ids, lengths, strict=True):
        if length >= MAX_TOKENS:
            raise ValueError(
                f"prompt {identifier} has {length} tokens, but prompt and continuation together may have only "
                f"{MAX_TOKENS}; use a shorter name for the group in --regard_groups"
            )
    ends = end_tokens(loaded.model, loaded.tokenizer, "plain")
    return ContinuationPlan(
        ids=[f"{ids[row]}:{index}" for row, index in drawn],
        about=about_prompts(prompts).take(pa.array([row for row, _ in drawn], pa.int64())),
        texts=[texts[row] for row, _ in drawn],
        seed_indices=[index for _, index in drawn],
        contexts=[encoded[row] for row, _ in drawn],
        limits=[MAX_TOKENS - lengths[row] for row, _ in drawn],
        decoding=decoding,
        ends=EndTokens(dropped=ends.dropped | ends.marks, kept=ends.kept, blank=ends.blank),
        seed=seed,
        invariant=is_exact(loaded.model),
        paths=decoding_paths(loaded.model, encoded, MAX_TOKENS - min(lengths)),
    )


def _draw(types: Mapping[str, str], number: int, generator: np.random.Generator) -> dict[str, list[int]]:
    of_type = grouped((prompt_type, verb_phrase) for verb_phrase, prompt_type in types.items())
    shuffled = [[members[index] for index in generator.permutation(len(members))] for members in of_type.values()]
    turns = [verb_phrase for verb_phrase in chain(*zip_longest(*shuffled)) if verb_phrase is not None]
    seeds = {verb_phrase: generator.permutation(NUM_SEEDS).tolist() for verb_phrase in turns}
    rounds = [(verb_phrase, seeds[verb_phrase][turn]) for turn in range(NUM_SEEDS) for verb_phrase in turns]
    return {verb_phrase: sorted(indices) for verb_phrase, indices in grouped(rounds[:number]).items()}
