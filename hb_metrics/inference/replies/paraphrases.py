"""Paraphrases of prompts by a sequence-to-sequence model that is given the syntactic structure to write in.

Aggarwal et al. (2022), section 3, have AESOP (Sun et al., 2021) write their prompts. Such a model is given

    sentence <sep> parse of the sentence <sep> parse to write in

with constituency parses in Penn notation, and writes the parse, `<sep>` and the paraphrase: what comes after the last
`<sep>` is taken, or everything if there is none. Decoding is beam search, so that nothing is drawn.

What a paraphraser loses of a prompt is checked (`paraphrase_checks.py`); a paraphrase that is dropped stays in the
table with its reason, and is counted.
"""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import torch
from transformers import PreTrainedTokenizerBase

from hb_dataset.prompt_groups import PromptGroup
from hb_dataset.structures import FIXED_STRUCTURE, parse_of, read_structures, read_verb_phrases
from hb_metrics.inference.models.contexts import EndTokens, check_lengths, encode_rendered, end_tokens
from hb_metrics.inference.models.loading import LoadedModel, load_model
from hb_metrics.inference.replies.decoding import is_invariant
from hb_metrics.inference.replies.decoding_settings import Decoded, Decoding
from hb_metrics.inference.replies.decoding_shards import DecodingPlan, decode_into_shards, read_decoded
from hb_metrics.inference.replies.paraphrase_checks import REASONS, check_paraphrase
from hb_metrics.inference.replies.trials import takes_cache

SEPARATOR = "<sep>"
NUM_BEAMS = 4
MAX_NEW_TOKENS = 60
ROWS_PER_SHARD = 256

_WRITTEN_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "prompt_id", "structure", "parse", "paraphrase")),
        ("truncated", pa.bool_()),
    ]
)
PARAPHRASE_SCHEMA = pa.schema([*_WRITTEN_SCHEMA, ("kept", pa.bool_()), ("reason", pa.string())])


class Target(NamedTuple):
    """A structure to write in, and its parse."""

    structure: str
    parse: str


@dataclass(frozen=True, kw_only=True)
class ParaphrasePlan(DecodingPlan):
    """What is paraphrased, and how; a row is a prompt and a structure.

    `ids` are `"<prompt id>|<structure>"`; the other attributes are those of `DecodingPlan`.

    Attributes:
        prompt_ids: [rows] the prompt's id.
        texts: [rows] the prompt.
        mentions: [rows] what the group may be called.
        verb_phrases: [rows] what the prompt says of it.
        targets: [rows] the structure to write in.
        keep_number: Whether a prompt in the singular that became one in the plural lost its group.
        model: The paraphraser's name.
        digest: What identifies its weights.
    """

    prompt_ids: list[str]
    texts: list[str]
    mentions: list[tuple[str, ...]]
    verb_phrases: list[str]
    targets: list[Target]
    keep_number: bool
    model: str
    digest: str

    def description(self) -> dict[str, Any]:
        """What run.json records of the plan."""
        return {
            "model": self.model,
            "digest": self.digest,
            "num_paraphrases": len(self.ids),
            "contexts_digest": hashlib.sha256(repr(self.contexts).encode()).hexdigest(),
            "num_structures": len({target.structure for target in self.targets}),
            "num_beams": self.decoding.num_beams,
            "max_new_tokens": self.decoding.max_new_tokens,
            "keep_number": self.keep_number,
            "same_in_any_batch": self.invariant,
        }


def load_paraphraser(
    name: str,
    *,
    revision: str | None = None,
    dtype: str = "auto",
    device: str | torch.device = "cpu",
    trust_remote_code: bool = False,
) -> LoadedModel:
    """Loads a sequence-to-sequence model and its tokenizer; arguments as of `models.load_model`.

    Raises:
        ValueError: It is another kind of model.
        OSError: The model or its tokenizer is not there.
    """
    loaded = load_model(name, revision=revision, dtype=dtype, device=device, trust_remote_code=trust_remote_code)
    if loaded.kind != "encoder-decoder":
        raise ValueError(
            f"paraphraser '{name}' is a {loaded.kind} model; give a sequence-to-sequence one that takes 'sentence "
            "<sep> source parse <sep> target parse', such as AESOP"
        )
    return loaded


def plan_paraphrases(
    prompts: pa.Table,
    groups: Sequence[PromptGroup],
    loaded: LoadedModel,
    *,
    targets: Sequence[tuple[str, str]] | None = None,
    num_beams: int = NUM_BEAMS,
    max_new_tokens: int = MAX_NEW_TOKENS,
    keep_number: bool = True,
) -> ParaphrasePlan:
    """Encodes each prompt with each structure.

    Args:
        prompts: Prompts with the columns `id`, `text`, `group`, `verb_phrase` and `parse`.
        groups: Whom they are about.
        loaded: The paraphraser.
        targets: The structures' ids and parses; `None`: all of `hb_dataset.structures` but the fixed prompt's.
        num_beams: Of beam search; 1: greedy.
        max_new_tokens: At how many tokens, those of the parse included, a paraphrase is cut.
        keep_number: Whether a prompt in the singular that became one in the plural lost its group.

    Returns:
        The plan; rows are in the order of the prompts, and of the structures within each.

    Raises:
        ValueError: The model is of another kind or cannot take these prompts; a prompt's group is not given, or not
            mentioned in its text; its verb phrase is not known; or a structure is there twice.
    """
    mentions = {group.name: group.mentions for group in groups}
    rows = []
    for prompt in prompts.select(["id", "text", "group", "verb_phrase", "parse"]).to_pylist():
        mine = mentions[prompt["group"]]
        check_paraphrase(prompt["text"], prompt["text"], mine, prompt["verb_phrase"])  # that it can be checked at all
        rows += [(prompt, mine, target) for target in _targets_of(prompt, targets)]
    rendered = [paraphraser_input(prompt["text"], prompt["parse"], target.parse) for prompt, _, target in rows]
    ids = [f"{prompt['id']}|{target.structure}" for prompt, _, target in rows]
    contexts = encode_rendered(rendered, loaded.tokenizer, "plain", is_encoder_decoder=True)
    check_lengths(contexts, ids, loaded.model, max_new_tokens)
    return ParaphrasePlan(
        ids=ids,
        prompt_ids=[prompt["id"] for prompt, _, _ in rows],
        texts=[prompt["text"] for prompt, _, _ in rows],
        mentions=[mine for _, mine, _ in rows],
        verb_phrases=[prompt["verb_phrase"] for prompt, _, _ in rows],
        targets=[target for _, _, target in rows],
        contexts=contexts,
        decoding=Decoding(num_beams=num_beams, min_new_tokens=1, max_new_tokens=max_new_tokens),
        ends=_ends(loaded),
        keep_number=keep_number,
        invariant=is_invariant(loaded.model),
        cached=takes_cache(loaded.model, contexts, max_new_tokens),
        model=loaded.name,
        digest=loaded.digest,
    )


def paraphraser_input(sentence: str, source_parse: str, target_parse: str) -> str:
    """What a model with AESOP's form of input is given (Sun et al., 2021)."""
    return f"{sentence} {SEPARATOR} {source_parse} {SEPARATOR} {target_parse}"


def paraphrase_into_shards(
    plan: ParaphrasePlan,
    loaded: LoadedModel,
    folder: Path,
    *,
    batch_size: int | None = None,
    progress: bool = True,
) -> pa.Table | None:
    """Writes the paraphrases that are not on disk yet, and reads and checks all of them.

    Args:
        plan: What is to be paraphrased.
        loaded: The paraphraser it was planned for.
        folder: Where the shards are; made if it is not there.
        batch_size: As `decode_into_shards`.
        progress: Whether the main process shows a progress bar.

    Returns:
        A table with the columns of `PARAPHRASE_SCHEMA` in the order of the plan, on the main process; `None` on all
        others. `paraphrase` is null where the model wrote nothing; `truncated` says that it was cut at
        `max_new_tokens`; `kept` whether it passed the checks, and `reason` (one of `REASONS`) why not.
    """

    def make_columns(rows: Sequence[int], decoded: Sequence[Decoded]) -> dict[str, Any]:
        paraphrases = [paraphrase_text(paraphrase.tokens, loaded.tokenizer) for paraphrase in decoded]
        return {
            "prompt_id": [plan.prompt_ids[row] for row in rows],
            "structure": [plan.targets[row].structure for row in rows],
            "parse": [plan.targets[row].parse for row in rows],
            "paraphrase": [paraphrase or None for paraphrase in paraphrases],
            "truncated": [paraphrase.truncated for paraphrase in decoded],
        }

    written = decode_into_shards(
        plan,
        loaded,
        folder,
        schema=_WRITTEN_SCHEMA,
        make_columns=make_columns,
        name="paraphrases",
        purpose="paraphrase",
        rows_per_shard=ROWS_PER_SHARD,
        batch_size=batch_size,
        progress=progress,
    )
    return None if written is None else _checked(plan, written)


def read_paraphrases(plan: ParaphrasePlan, folder: Path) -> pa.Table:
    """Reads and checks the paraphrases that `paraphrase_into_shards` has written, on any process."""
    return _checked(plan, read_decoded(plan, folder, schema=_WRITTEN_SCHEMA, rows_per_shard=ROWS_PER_SHARD))


def paraphrase_text(tokens: Sequence[int], tokenizer: PreTrainedTokenizerBase) -> str:
    """The paraphrase in what the model wrote: what comes after the last `<sep>`, or everything if there is none."""
    separator = _separator_token(tokenizer)
    after = next((index + 1 for index in reversed(range(len(tokens))) if tokens[index] == separator), 0)
    text = tokenizer.decode(tokens[after:], skip_special_tokens=True)
    return text.rpartition(SEPARATOR)[2].strip().split("\n", 1)[0].strip()


def kept_prompts(paraphrases: pa.Table, prompts: pa.Table) -> pa.Table:
    """The paraphrases that were kept, as prompts.

    Args:
        paraphrases: A table with the columns of `PARAPHRASE_SCHEMA`.
        prompts: The prompts they are of, with the columns of `structured_prompts.STRUCTURED_SCHEMA`.

    Returns:
        A table with the columns of `prompts`. `kind` is that of the target structure (null for one that
        `hb_dataset.structures` does not have), which need not be what the model wrote in.
    """
    of_prompt = {row["id"]: row for row in prompts.to_pylist()}
    kinds = {structure.id: structure.kind for structure in read_structures()}
    rows = [
        of_prompt[row["prompt_id"]]
        | {"id": row["id"], "text": row["paraphrase"], "structure": row["structure"], "parse": row["parse"]}
        | {"kind": kinds.get(row["structure"])}
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


def _targets_of(prompt: Mapping[str, Any], targets: Sequence[tuple[str, str]] | None) -> list[Target]:
    """What a prompt is to be written in."""
    if targets is not None:
        return [Target(*target) for target in targets]
    verb_phrases = {forms.verb_phrase: forms for forms in read_verb_phrases()}
    if prompt["verb_phrase"] not in verb_phrases:
        raise ValueError(
            f"prompt {prompt['id']} has the verb phrase '{prompt['verb_phrase']}', for which the structures have no "
            "parses; give targets"
        )
    return [
        Target(structure.id, parse_of(structure, verb_phrases[prompt["verb_phrase"]]))
        for structure in read_structures()
        if structure.id != FIXED_STRUCTURE
    ]


def _ends(loaded: LoadedModel) -> EndTokens:
    """What ends a paraphrase: special tokens but the one between parse and paraphrase, and a line break."""
    ends = end_tokens(loaded.model, loaded.tokenizer, "plain")
    separator = _separator_token(loaded.tokenizer)
    dropped = sorted({*ends.dropped, *ends.marks} - {separator})
    return EndTokens(dropped=tuple(dropped), kept=ends.kept)


def _separator_token(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The token of `<sep>`; `None` where it is text like any other."""
    return tokenizer.get_vocab().get(SEPARATOR)


def _checked(plan: ParaphrasePlan, written: pa.Table) -> pa.Table:
    """Adds `kept` and `reason`; rows are in the order of the plan."""
    kept: defaultdict[str, list[str]] = defaultdict(list)
    reasons = []
    for row, paraphrase in enumerate(written["paraphrase"].to_pylist()):
        others = kept[plan.prompt_ids[row]]
        reason = check_paraphrase(
            paraphrase,
            plan.texts[row],
            plan.mentions[row],
            plan.verb_phrases[row],
            keep_number=plan.keep_number,
            others=others,
        )
        reasons.append(reason)
        if reason is None:
            others.append(paraphrase)
    columns = {
        **dict(zip(written.column_names, written.columns, strict=True)),
        "kept": [reason is None for reason in reasons],
    }
    return pa.table({**columns, "reason": reasons}, schema=PARAPHRASE_SCHEMA)
