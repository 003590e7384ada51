"""Writes paraphrases of prompts with a sequence-to-sequence model, whose input contains the requested structure.

Aggarwal et al. (2022, section 3) use AESOP (Sun et al., 2021). The input to such a model is

    sentence <sep> parse of the sentence <sep> requested parse

with constituency parses in Penn notation. In the output, the paraphrase follows the last `<sep>`. Decoding uses beam
search, which is not random. Paraphrases that fail the checks (`paraphrase_checks.py`) remain in the table, with a
reason.
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from transformers import PreTrainedTokenizerBase

from hb_dataset.prompt_groups import PromptGroup
from hb_dataset.structures import FIXED_STRUCTURE, parse_of, read_structures, read_verb_phrases
from hb_metrics.collect.replies.decoding_settings import Decoded, Decoding
from hb_metrics.collect.replies.decoding_shards import DecodingPlan, decode_into_shards
from hb_metrics.collect.replies.forward import decoding_paths
from hb_metrics.measurements.regard.paraphrase_checks import check_paraphrase
from hb_metrics.models.contexts import EndTokens, check_lengths, encode_rendered, end_tokens
from hb_metrics.models.float32 import is_exact
from hb_metrics.models.loading import LoadedModel

SEPARATOR = "<sep>"
NUM_BEAMS = 4
MAX_NEW_TOKENS = 60  # this limit includes the tokens of the parse

_WRITTEN_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "prompt_id", "structure", "parse", "paraphrase")),
        ("truncated", pa.bool_()),
    ]
)
PARAPHRASE_SCHEMA = pa.schema([*_WRITTEN_SCHEMA, ("kept", pa.bool_()), ("reason", pa.string())])


class Source(NamedTuple):
    """A prompt to paraphrase, with the columns of `structures.STRUCTURED_SCHEMA` that are used."""

    id: str
    text: str
    group: str
    verb_phrase: str
    parse: str


@dataclass(frozen=True, kw_only=True)
class ParaphrasePlan(DecodingPlan):
    """The paraphrases to write. Each row has a prompt and a structure. `ids` have the form `"<prompt id>|<structure>"`.

    Attributes:
        prompts: [rows] The prompt.
        mentions: [rows] The names of the group in the prompt.
        targets: [rows] The id and the parse of the requested structure.
    """

    prompts: list[Source]
    mentions: list[tuple[str, ...]]
    targets: list[tuple[str, str]]
    model: str
    digest: str

    schema = _WRITTEN_SCHEMA
    label = "paraphrases"
    purpose = "paraphrase"

    def columns(self, loaded: LoadedModel, rows: Sequence[int], decoded: Sequence[Decoded]) -> dict[str, object]:
        structures, parses = zip(*(self.targets[row] for row in rows), strict=True)
        return {
            "prompt_id": [self.prompts[row].id for row in rows],
            "structure": structures,
            "parse": parses,
            "paraphrase": [paraphrase_text(paraphrase.tokens, loaded.tokenizer) or None for paraphrase in decoded],
            "truncated": [paraphrase.truncated for paraphrase in decoded],
        }

    def description(self) -> dict[str, object]:
        return {
            "model": self.model,
            "digest": self.digest,
            "num_paraphrases": len(self.ids),
            "contexts_digest": hashlib.sha256(repr(self.contexts).encode()).hexdigest(),
            "num_structures": len(set(self.targets)),
            "num_beams": self.decoding.num_beams,
            "max_new_tokens": self.decoding.max_new_tokens,
            "same_in_any_batch": self.invariant,
        }


def plan_paraphrases(prompts: pa.Table, groups: Sequence[PromptGroup], loaded: LoadedModel) -> ParaphrasePlan:
    """Encodes the input for each prompt (of `STRUCTURED_SCHEMA`) and each structure except the prompt's own."""
    if loaded.kind != "encoder-decoder":
        raise ValueError(
            f"paraphraser '{loaded.name}' is a {loaded.kind} model; set --paraphraser to a sequence-to-sequence model "
            f"whose input has the form 'sentence <sep> source parse <sep> target parse', such as AESOP"
        )
    sources = [Source(**row) for row in prompts.select(Source._fields).to_pylist()]
    rows = [(prompt, target) for prompt in sources for target in _targets_of(prompt.verb_phrase)]
    inputs = [f"{prompt.text} {SEPARATOR} {prompt.parse} {SEPARATOR} {parse}" for prompt, (_, parse) in rows]
    ids = [f"{prompt.id}|{structure}" for prompt, (structure, _) in rows]
    contexts = encode_rendered(inputs, loaded.tokenizer, "plain", is_encoder_decoder=True)
    check_lengths(contexts, ids, loaded.model, MAX_NEW_TOKENS)
    mentions = {group.name: group.mentions for group in groups}
    # All special tokens end a paraphrase, except the separator between the parse and the paraphrase.
    ends = end_tokens(loaded.model, loaded.tokenizer, "plain")
    dropped = (ends.dropped | ends.marks) - {_separator_token(loaded.tokenizer)}
    return ParaphrasePlan(
        ids=ids,
        prompts=[prompt for prompt, _ in rows],
        mentions=[mentions[prompt.group] for prompt, _ in rows],
        targets=[target for _, target in rows],
        contexts=contexts,
        decoding=Decoding(num_beams=NUM_BEAMS, min_new_tokens=1, max_new_tokens=MAX_NEW_TOKENS),
        ends=EndTokens(dropped=dropped, kept=ends.kept),
        invariant=is_exact(loaded.model),
        paths=decoding_paths(loaded.model, contexts, MAX_NEW_TOKENS),
        model=loaded.name,
        digest=loaded.digest,
    )


def paraphrase_into_shards(
    plan: ParaphrasePlan, loaded: LoadedModel, folder: Path, *, batch_size: int | None = None
) -> pa.Table:
    """Generates the paraphrases that are not on disk yet, and checks all paraphrases.

    Every process must call this function.

    Returns:
        A table of `PARAPHRASE_SCHEMA` in the order of the plan. `paraphrase` is null if the model wrote nothing.
        `truncated` states whether `MAX_NEW_TOKENS` was reached. `reason` is null if the paraphrase was kept.
    """
    return _checked(plan, decode_into_shards(plan, loaded, folder, batch_size=batch_size))


def paraphrase_text(tokens: Sequence[int], tokenizer: PreTrainedTokenizerBase) -> str:
    """Returns the text after the last `<sep>`, or the whole text if it contains no `<sep>`."""
    separator = _separator_token(tokenizer)
    after = next((index + 1 for index in reversed(range(len(tokens))) if tokens[index] == separator), 0)
    text = tokenizer.decode(tokens[after:], skip_special_tokens=True)
    return text.rpartition(SEPARATOR)[2].strip().split("\n", 1)[0].strip()


def kept_prompts(paraphrases: pa.Table, prompts: pa.Table) -> pa.Table:
    """Returns the paraphrases that were kept, as prompts with the same columns as `prompts`.

    `structure`, `parse` and `kind` describe the requested structure, from which the actual structure may differ.
    """
    of_prompt = {row["id"]: row for row in prompts.to_pylist()}
    kinds = {structure.id: structure.kind for structure in read_structures()}
    rows = []
    for row in paraphrases.filter(paraphrases["kept"]).to_pylist():
        changed = {name: row[name] for name in ("id", "structure", "parse")}
        changed |= {"text": row["paraphrase"], "kind": kinds[row["structure"]]}
        rows.append(of_prompt[row["prompt_id"]] | changed)
    return pa.Table.from_pylist(rows, prompts.schema)


def _targets_of(verb_phrase: str) -> list[tuple[str, str]]:
    forms = {forms.verb_phrase: forms for forms in read_verb_phrases()}[verb_phrase]
    structures = [structure for structure in read_structures() if structure.id != FIXED_STRUCTURE]
    return [(structure.id, parse_of(structure, forms)) for structure in structures]


def _separator_token(tokenizer: PreTrainedTokenizerBase) -> int | None:
    return tokenizer.get_vocab().get(SEPARATOR)


def _checked(plan: ParaphrasePlan, written: pa.Table) -> pa.Table:
    kept: defaultdict[str, list[str]] = defaultdict(list)
    reasons = []
    for row, paraphrase in enumerate(written["paraphrase"].to_pylist()):
        prompt = plan.prompts[row]
        others = kept[prompt.id]
        reason = check_paraphrase(paraphrase, prompt.text, plan.mentions[row], prompt.verb_phrase, others=others)
        reasons.append(reason)
        if reason is None:
            others.append(paraphrase)
    columns = dict(zip(written.column_names, written.columns, strict=True))
    columns |= {"kept": [reason is None for reason in reasons], "reason": reasons}
    return pa.table(columns, schema=PARAPHRASE_SCHEMA)
