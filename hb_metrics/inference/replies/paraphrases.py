"""Paraphrases of prompts by a sequence-to-sequence model, which writes in a given syntactic structure.

Aggarwal et al. (2022), section 3, have AESOP (Sun et al., 2021) write their prompts. Such a model gets

    sentence <sep> parse of the sentence <sep> parse to write in

with constituency parses in Penn notation, and writes the parse, `<sep>` and the paraphrase. The paraphrase is the text
after the last `<sep>`, or all of it without one. Decoding is beam search, which draws nothing.

Paraphrases are checked (`paraphrase_checks.py`). A paraphrase that is dropped stays in the table with its reason, and
is counted.
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import torch
from transformers import PreTrainedTokenizerBase

from hb_dataset.prompt_groups import PromptGroup
from hb_dataset.structures import FIXED_STRUCTURE, parse_of, read_structures, read_verb_phrases
from hb_metrics.inference.models.contexts import EndTokens, check_lengths, encode_rendered, end_tokens
from hb_metrics.inference.models.loading import LoadedModel, load_model
from hb_metrics.inference.models.quantization import is_exact
from hb_metrics.inference.replies.decoding_settings import Decoded, Decoding
from hb_metrics.inference.replies.decoding_shards import DecodingPlan
from hb_metrics.inference.replies.paraphrase_checks import REASONS, check_paraphrase
from hb_metrics.inference.replies.trials import takes_cache

SEPARATOR = "<sep>"
NUM_BEAMS = 4
MAX_NEW_TOKENS = 60
_WRITTEN_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "prompt_id", "structure", "parse", "paraphrase")),
        ("truncated", pa.bool_()),
    ]
)
PARAPHRASE_SCHEMA = pa.schema([*_WRITTEN_SCHEMA, ("kept", pa.bool_()), ("reason", pa.string())])


class Target(NamedTuple):
    """A syntactic structure, and its parse with a verb phrase."""

    structure: str
    parse: str


@dataclass(frozen=True, kw_only=True)
class ParaphrasePlan(DecodingPlan):
    """Prompts to paraphrase, and how; a row is a prompt and a structure.

    `ids` are `"<prompt id>|<structure>"`; the other attributes are those of `DecodingPlan`.

    Attributes:
        prompt_ids: [rows] the prompt's id.
        texts: [rows] the prompt.
        mentions: [rows] the names of the prompt's group.
        verb_phrases: [rows] the prompt's verb phrase.
        targets: [rows] the structure to write in.
        model: The paraphraser's name.
        digest: The digest of its weights.
    """

    schema = _WRITTEN_SCHEMA
    label = "paraphrases"
    purpose = "paraphrase"
    prompt_ids: list[str]
    texts: list[str]
    mentions: list[tuple[str, ...]]
    verb_phrases: list[str]
    targets: list[Target]
    model: str
    digest: str

    def columns(self, loaded: LoadedModel, rows: Sequence[int], decoded: Sequence[Decoded]) -> dict[str, Any]:
        """The columns of a shard, without `id`; `paraphrase` is null where the model wrote nothing."""
        paraphrases = [paraphrase_text(paraphrase.tokens, loaded.tokenizer) for paraphrase in decoded]
        return {
            "prompt_id": [self.prompt_ids[row] for row in rows],
            "structure": [self.targets[row].structure for row in rows],
            "parse": [self.targets[row].parse for row in rows],
            "paraphrase": [paraphrase or None for paraphrase in paraphrases],
            "truncated": [paraphrase.truncated for paraphrase in decoded],
        }

    def description(self) -> dict[str, Any]:
        """The record of the plan, for run.json."""
        return {
            "model": self.model,
            "digest": self.digest,
            "num_paraphrases": len(self.ids),
            "contexts_digest": hashlib.sha256(repr(self.contexts).encode()).hexdigest(),
            "num_structures": len({target.structure for target in self.targets}),
            "num_beams": self.decoding.num_beams,
            "max_new_tokens": self.decoding.max_new_tokens,
            "same_in_any_batch": self.invariant,
        }


def load_paraphraser(name: str, *, device: str | torch.device, trust_remote_code: bool = False) -> LoadedModel:
    """Loads a sequence-to-sequence model and its tokenizer; arguments as of `load_model`.

    Raises:
        ValueError: It is another kind of model.
        OSError: The model or its tokenizer does not exist.
    """
    loaded = load_model(name, device=device, trust_remote_code=trust_remote_code)
    if loaded.kind != "encoder-decoder":
        raise ValueError(
            f"paraphraser '{name}' is a {loaded.kind} model; set a sequence-to-sequence one that takes 'sentence <sep> "
            "source parse <sep> target parse', such as AESOP"
        )
    return loaded


def plan_paraphrases(prompts: pa.Table, groups: Sequence[PromptGroup], loaded: LoadedModel) -> ParaphrasePlan:
    """Encodes each prompt with each structure of the grammar, except that of the fixed prompts.

    Args:
        prompts: Prompts of the grammar with the columns `id`, `text`, `group`, `verb_phrase` and `parse`.
        groups: Their groups.
        loaded: The paraphraser.

    Returns:
        The plan; rows are in the order of the prompts, and of the structures within each.

    Raises:
        ValueError: The model cannot take these prompts.
    """
    mentions = {group.name: group.mentions for group in groups}
    verb_phrases = {forms.verb_phrase: forms for forms in read_verb_phrases()}
    structures = [structure for structure in read_structures() if structure.id != FIXED_STRUCTURE]
    rows = []
    for prompt in prompts.to_pylist():
        for structure in structures:
            target = Target(structure.id, parse_of(structure, verb_phrases[prompt["verb_phrase"]]))
            rows.append((prompt, target))
    rendered = [f"{prompt['text']} {SEPARATOR} {prompt['parse']} {SEPARATOR} {target.parse}" for prompt, target in rows]
    ids = [f"{prompt['id']}|{target.structure}" for prompt, target in rows]
    contexts = encode_rendered(rendered, loaded.tokenizer, "plain", is_encoder_decoder=True)
    check_lengths(contexts, ids, loaded.model, MAX_NEW_TOKENS)
    return ParaphrasePlan(
        ids=ids,
        prompt_ids=[prompt["id"] for prompt, _ in rows],
        texts=[prompt["text"] for prompt, _ in rows],
        mentions=[mentions[prompt["group"]] for prompt, _ in rows],
        verb_phrases=[prompt["verb_phrase"] for prompt, _ in rows],
        targets=[target for _, target in rows],
        contexts=contexts,
        decoding=Decoding(num_beams=NUM_BEAMS, min_new_tokens=1, max_new_tokens=MAX_NEW_TOKENS),
        ends=_ends(loaded),
        invariant=is_exact(loaded.model),
        cached=takes_cache(loaded.model, contexts, MAX_NEW_TOKENS),
        model=loaded.name,
        digest=loaded.digest,
    )


def paraphrase_text(tokens: Sequence[int], tokenizer: PreTrainedTokenizerBase) -> str:
    """The paraphrase in the model's tokens: the text after the last `<sep>`, or all of it without one."""
    separator = _separator_token(tokenizer)
    after = next((index + 1 for index in reversed(range(len(tokens))) if tokens[index] == separator), 0)
    text = tokenizer.decode(tokens[after:], skip_special_tokens=True)
    return text.rpartition(SEPARATOR)[2].strip().split("\n", 1)[0].strip()


def checked_paraphrases(plan: ParaphrasePlan, written: pa.Table) -> pa.Table:
    """Checks the paraphrases of a plan, in its order.

    Returns:
        A table with the columns of `PARAPHRASE_SCHEMA`: `kept` is whether a paraphrase passed the checks, and `reason`
        (one of `REASONS`) why it did not.
    """
    kept: defaultdict[str, list[str]] = defaultdict(list)
    reasons = []
    for row, paraphrase in enumerate(written["paraphrase"].to_pylist()):
        others = kept[plan.prompt_ids[row]]
        reason = check_paraphrase(paraphrase, plan.texts[row], plan.mentions[row], plan.verb_phrases[row], others)
        reasons.append(reason)
        if reason is None:
            others.append(paraphrase)
    columns = [*written.columns, [reason is None for reason in reasons], reasons]
    return pa.table(columns, schema=PARAPHRASE_SCHEMA)


def kept_prompts(paraphrases: pa.Table, prompts: pa.Table) -> pa.Table:
    """The paraphrases that were kept, as prompts.

    Args:
        paraphrases: A table with the columns of `PARAPHRASE_SCHEMA`.
        prompts: Their prompts, with the columns of `structured_prompts.STRUCTURED_SCHEMA`.

    Returns:
        A table with the columns of `prompts`. `kind` is that of the target structure, whatever the model wrote in.
    """
    of_prompt = {row["id"]: row for row in prompts.to_pylist()}
    kinds = {structure.id: structure.kind for structure in read_structures()}
    rows = [
        of_prompt[row["prompt_id"]]
        | {"id": row["id"], "text": row["paraphrase"], "structure": row["structure"], "parse": row["parse"]}
        | {"kind": kinds[row["structure"]]}
        for row in paraphrases.filter(paraphrases["kept"]).to_pylist()
    ]
    return pa.Table.from_pylist(rows, prompts.schema)


def summary(paraphrases: pa.Table) -> dict[str, Any]:
    """Counts of a table with the columns of `PARAPHRASE_SCHEMA`: all, kept, dropped by reason, and cut."""
    reasons = paraphrases["reason"].to_pylist()
    return {
        "num": len(reasons),
        "num_kept": sum(paraphrases["kept"].to_pylist()),
        "num_dropped": {reason: reasons.count(reason) for reason in REASONS},
        "num_truncated": sum(paraphrases["truncated"].to_pylist()),
    }


def _ends(loaded: LoadedModel) -> EndTokens:
    """What ends a paraphrase: special tokens but the one between parse and paraphrase, and a line break."""
    ends = end_tokens(loaded.model, loaded.tokenizer, "plain")
    separator = _separator_token(loaded.tokenizer)
    dropped = sorted({*ends.dropped, *ends.marks} - {separator})
    return EndTokens(dropped=tuple(dropped), kept=ends.kept)


def _separator_token(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The token of `<sep>`; `None` where it is text like any other."""
    return tokenizer.get_vocab().get(SEPARATOR)
