"""Baseline distillation: rows of prompts with a descriptor, and the model's own replies to the same prompts without it.

The tuned model learns to reply to "Hi! I'm a Deaf woman." as the model itself replies to "Hi! I'm a woman." It needs
neither a style classifier nor labels, because it learns the whole distribution of each next token (knowledge
distillation, Hinton et al., 2015; of a model into itself under another context: Snell et al., 2022). Replies to
different descriptors become alike; replies to the baseline prompt stay the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from hb_dataset.seeded_draws import seeded_generator
from hb_train.tuning.labels import read_labels

if TYPE_CHECKING:
    from datasets import Dataset

    from hb_metrics.inference.models.contexts import ContextFormat
    from hb_metrics.inference.models.loading import LoadedTokenizer
    from hb_train.training.encoding import EncodedRows

# torch, transformers and trl take seconds to import: not before they are needed.

BASELINE_FILE = "baseline.json"
ROW_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "prompt", "baseline_prompt", "completion")),
        *((name, pa.string()) for name in ("axis", "descriptor", "noun", "template")),
        ("truncated", pa.bool_()),
    ]
)


class BaselinePrompts(NamedTuple):
    """Prompts without a descriptor, each as often as it is replied to.

    Attributes:
        table: [replies] rows of the config of baseline prompts, with an `id` of their own.
        prompts: The prompts with a descriptor that may stand in their place, by noun, template and axis.
    """

    table: pa.Table
    prompts: Mapping[tuple[str, str], Mapping[str, list[int]]]


def draw_baseline_prompts(baseline: pa.Table, prompts: pa.Table, number: int, *, seed: int) -> BaselinePrompts:
    """Draws which baseline prompts are replied to, each as often as any other, give or take one.

    Args:
        baseline: Prompts without a descriptor, with the columns of the dataset.
        prompts: Those with one.
        number: How many replies are wanted.
        seed: Chooses.

    Raises:
        ValueError: There is no baseline prompt, or one has no prompt with a descriptor.
    """
    by_place: dict[tuple[str, str], dict[str, list[int]]] = {}
    columns = [prompts[name].to_pylist() for name in ("noun", "template", "axis")]
    for row, (noun, template, axis) in enumerate(zip(*columns, strict=True)):
        by_place.setdefault((noun, template), {}).setdefault(axis, []).append(row)
    nouns, templates, ids = (baseline[name].to_pylist() for name in ("noun", "template", "id"))
    places = set(zip(nouns, templates, strict=True))
    if not places or not places <= by_place.keys():
        raise ValueError("some templates have no prompts both with and without a descriptor; set the usual templates")
    order = sorted(range(len(ids)), key=lambda row: (seeded_generator(seed, "baseline", ids[row]).random(), ids[row]))
    chosen = [order[reply % len(order)] for reply in range(number)]
    table = baseline.take(pa.array(chosen, pa.int64()))
    replied = [f"{ids[row]}-{reply // len(order)}" for reply, row in enumerate(chosen)]
    return BaselinePrompts(table.set_column(table.column_names.index("id"), "id", pa.array(replied)), by_place)


def draw_prompts(drawn: BaselinePrompts, terms_per_reply: int, *, seed: int) -> Iterator[tuple[int, int, str]]:
    """Draws the prompts with a descriptor that stand in the place of each baseline prompt.

    Every axis is as likely as any other, and so is every descriptor of an axis.

    Yields:
        The row of the baseline prompt, the row of the prompt, and the id of the pair.
    """
    ids, nouns, templates = (drawn.table[name].to_pylist() for name in ("id", "noun", "template"))
    for row, (identifier, place) in enumerate(zip(ids, zip(nouns, templates, strict=True), strict=True)):
        by_axis = drawn.prompts[place]
        generator = seeded_generator(seed, "terms", identifier)
        for number in range(terms_per_reply):
            axis = sorted(by_axis)[generator.integers(len(by_axis))]
            yield row, by_axis[axis][generator.integers(len(by_axis[axis]))], f"{identifier}-{number}"


def read_baseline(folder: Path) -> dict[str, Any]:
    """Reads what `baseline_replies.py` recorded in a folder; raises `ValueError` if there is no record."""
    return read_labels(folder, BASELINE_FILE, "baseline_replies")


def encode_pairs(
    rows: "Dataset", loaded: "LoadedTokenizer", *, context: "ContextFormat", max_length: int | None
) -> "EncodedRows":
    """Encodes rows: the reply behind the prompt with a descriptor, and the same tokens behind that without.

    Args:
        rows: Rows with the columns of `ROW_SCHEMA`.
        loaded: The model's tokenizer and config.
        context: The format of the prompts.
        max_length: The largest number of tokens in a row; `None`: as many as the model takes.

    Returns:
        `input_ids`, `attention_mask` and `labels` of each row, and the same with `baseline_` before their names. The
        labels that are learnt are the same tokens in both. No context is cut.

    Raises:
        ValueError: A row is too long.
    """
    from hb_metrics.inference.models.contexts import encode_rendered, encode_replies, reply_end
    from hb_train.training.encoding import BASELINE, EncodedRows, add_row, length_limit

    is_encoder_decoder = loaded.kind == "encoder-decoder"
    limit = length_limit(loaded, max_length)
    # Not `loaded` within: `map` takes a fingerprint of all that `encode` refers to, a model's weights included.
    tokenizer = loaded.tokenizer
    end = reply_end(tokenizer, context)

    def encode(batch: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        sides = {"": batch["prompt"], BASELINE: batch["baseline_prompt"]}
        contexts = {}
        for side, texts in sides.items():
            contexts[side] = encode_rendered(texts, tokenizer, context, is_encoder_decoder=is_encoder_decoder)
        replies = encode_replies(
            sides[BASELINE], batch["completion"], tokenizer, context, is_encoder_decoder=is_encoder_decoder
        )
        columns: dict[str, list[Any]] = {}
        for row, (reply, truncated) in enumerate(zip(replies, batch["truncated"], strict=True)):
            learnt = reply if truncated or end is None else [*reply, end]
            for side in sides:
                given = contexts[side][row]
                length = max(len(given) + (0 if is_encoder_decoder else len(learnt)), len(learnt))
                if limit is not None and length > limit:
                    raise ValueError(
                        f"row {batch['id'][row]} is {length} tokens long with its reply, and nothing is cut here; set "
                        f"a --max_length above {limit}, or sample shorter replies"
                    )
                add_row(columns, given, learnt, is_encoder_decoder=is_encoder_decoder, side=side)
        return columns

    encoded = rows.map(
        encode, batched=True, remove_columns=rows.column_names, load_from_cache_file=False, desc="encoding rows"
    )
    return EncodedRows(encoded, 0, sum(map(bool, rows["truncated"])) if end is not None else 0)
