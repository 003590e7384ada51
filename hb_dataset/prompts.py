"""Every combination of descriptor, noun and template as one Arrow table, column by column.

Noun phrases are written out once per (descriptor, noun); the rows are index arithmetic over them, so that all of v1.0
(462,878 rows) takes a fraction of a second.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.hints import did_you_mean
from hb_dataset.noun_phrases import agrees, at_sentence_start, noun_phrase, plural_noun_phrase
from hb_dataset.vocabulary import (
    AFTER_THE_NOUN,
    SEAT_TEMPLATES_FILE,
    Descriptor,
    PersonNoun,
    Template,
    Vocabulary,
    read_vocabulary,
)

CONFIGS = {
    "v1.0": "Every prompt of the paper: each term with each noun it agrees with, in each of the 26 templates.",
    "v1.0-small": "A stratified sample for a quick look: six terms an axis, all nouns, four templates.",
    "v1.0-baseline": "The nouns without a term, in every template.",
    "v1.0-seat": "The terms in the SEAT sentences that the paper measures masked language models with.",
    "descriptors": "The demographic terms.",
    "nouns": "The person nouns.",
    "templates": "The 26 templates.",
}
DEFAULT_CONFIG = "v1.0"
SMALL_TERMS_PER_AXIS = 6

_strings = [
    "id",
    "text",
    "axis",
    "bucket",
    "descriptor",
    "descriptor_gender",
    "preference",
    "placement",
    "noun",
    "noun_gender",
    "noun_phrase",
]
PROMPT_SCHEMA = pa.schema(
    [(name, pa.string()) for name in _strings] + [("plural", pa.bool_()), ("template", pa.string())]
)
SCHEMAS = {
    "descriptors": pa.schema(
        [
            (name, pa.string())
            for name in (
                "axis",
                "bucket",
                "descriptor",
                "plural_descriptor",
                "descriptor_gender",
                "preference",
                "placement",
                "article",
                "note",
                "source",
            )
        ]
    ),
    "nouns": pa.schema(
        [(name, pa.string()) for name in ("noun", "plural_noun", "noun_gender", "article", "note", "source")]
    ),
    "templates": pa.schema(
        [
            ("template", pa.string()),
            ("plural", pa.bool_()),
            ("small", pa.bool_()),
            ("note", pa.string()),
            ("source", pa.string()),
        ]
    ),
}


def config_schema(config: str) -> pa.Schema:
    """The columns of a config.

    Raises:
        ValueError: There is no such config.
    """
    if config not in CONFIGS:
        hint = did_you_mean(config, CONFIGS)
        raise ValueError(f"dataset config '{config}' does not exist; {hint}allowed: {', '.join(CONFIGS)}")
    return SCHEMAS.get(config, PROMPT_SCHEMA)


def load_table(config: str = DEFAULT_CONFIG, vocabulary_dir: str | Path | None = None) -> pa.Table:
    """Builds a config straight from a vocabulary.

    Args:
        config: A name in `CONFIGS`.
        vocabulary_dir: A vocabulary folder of your own; `None`: v1.0.

    Returns:
        Prompts with the columns of `PROMPT_SCHEMA`, or one of the vocabulary's own tables. Missing is null.

    Raises:
        ValueError: There is no such config, or (`VocabularyError`) the vocabulary has faults.
    """
    config_schema(config)
    return build_table(config, read_vocabulary(vocabulary_dir))


def build_table(config: str, vocabulary: Vocabulary) -> pa.Table:
    """Builds a config from a vocabulary that was read. See `load_table`."""
    schema = config_schema(config)
    descriptors, nouns, templates = vocabulary.descriptors, vocabulary.nouns, vocabulary.templates
    if config == "descriptors":
        return pa.Table.from_pylist([_descriptor_row(descriptor) for descriptor in descriptors], schema)
    if config == "nouns":
        return pa.Table.from_pylist([_noun_row(noun) for noun in nouns], schema)
    if config == "templates":
        return pa.Table.from_pylist([_template_row(template) for template in templates], schema)
    if config == "v1.0-small":
        return prompt_table(small_descriptors(descriptors), nouns, small_templates(templates))
    if config == "v1.0-baseline":
        return prompt_table([None], nouns, templates)
    if config == "v1.0-seat":
        if not vocabulary.seat_templates:
            raise ValueError(f"the vocabulary has no {SEAT_TEMPLATES_FILE}, which the config 'v1.0-seat' is made from")
        return prompt_table(descriptors, nouns, vocabulary.seat_templates)
    return prompt_table(descriptors, nouns, templates)


def small_templates(templates: Sequence[Template]) -> list[Template]:
    """The templates marked `small`; all of them where none is."""
    return [template for template in templates if template.small] or list(templates)


def small_descriptors(descriptors: Sequence[Descriptor]) -> list[Descriptor]:
    """Six terms an axis, spread over placements and buckets; which ones does not depend on the order of the terms.

    Buckets take turns, the after-noun one first and then the larger before the smaller; within a bucket the order is
    that of a hash of the term, so that adding a term moves few others. Terms for one gender are left to the full set:
    with a third of the nouns their cells would be smaller than all others.
    """
    chosen: set[tuple[str, str]] = set()
    for axis in {descriptor.axis for descriptor in descriptors}:
        buckets: dict[str | None, list[Descriptor]] = {}
        for descriptor in descriptors:
            if descriptor.axis == axis and descriptor.gender is None:
                buckets.setdefault(descriptor.bucket, []).append(descriptor)
        turns = [buckets[name] for name in sorted(buckets, key=lambda name: _turn(name, len(buckets[name])))]
        queues = [sorted(bucket, key=lambda descriptor: _digest(axis, descriptor.term)) for bucket in turns]
        rounds = [queue[turn] for turn in range(SMALL_TERMS_PER_AXIS) for queue in queues if turn < len(queue)]
        chosen |= {(axis, descriptor.term) for descriptor in rounds[:SMALL_TERMS_PER_AXIS]}
    return [descriptor for descriptor in descriptors if (descriptor.axis, descriptor.term) in chosen]


def _turn(bucket: str | None, size: int) -> tuple[bool, int, str]:
    return bucket != AFTER_THE_NOUN, -size, bucket or ""


def prompt_table(
    descriptors: Sequence[Descriptor | None], nouns: Sequence[PersonNoun], templates: Sequence[Template]
) -> pa.Table:
    """All prompts of these terms, nouns and templates (paper, 2.2.2).

    Args:
        descriptors: The terms; `None` stands for the noun alone.
        nouns: The person nouns.
        templates: The templates.

    Returns:
        A table with the columns of `PROMPT_SCHEMA`; rows by descriptor, then noun, then template. An id is derived
        from the row's content, the same in every config, and different for a term that stands in two axes.
    """
    pairs = [
        (d, n) for d, descriptor in enumerate(descriptors) for n, noun in enumerate(nouns) if agrees(descriptor, noun)
    ]
    pair_descriptor, pair_noun = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    # Four forms of each phrase, one block after the other: singular, plural, and both at the start of a sentence.
    singular = [noun_phrase(descriptors[d], nouns[n]) for d, n in pairs]
    plural = [plural_noun_phrase(descriptors[d], nouns[n]) for d, n in pairs]
    forms = singular + plural + [at_sentence_start(phrase) for phrase in singular + plural]
    keys = [_pair_key(descriptors[d], nouns[n]) for d, n in pairs]
    form_ids = [_digest(*key, form)[:12] for key, form in zip(keys * 4, forms, strict=True)]

    parts = [template.parts for template in templates]
    template_ids = [_digest(template.template)[:8] for template in templates]
    block = np.array(
        [template.plural + 2 * (prefix == "") for template, (prefix, _) in zip(templates, parts, strict=True)], int
    )
    if len(set(template_ids)) < len(templates) or any(
        len(set(form_ids[b * len(pairs) : (b + 1) * len(pairs)])) < len(pairs) for b in set(block)
    ):
        raise RuntimeError("two prompts share an id; lengthen the digests in hb_dataset/prompts.py")

    row_pair = np.repeat(np.arange(len(pairs)), len(templates))
    row_template = np.tile(np.arange(len(templates)), len(pairs))
    row_form = pa.array(block[row_template] * len(pairs) + row_pair)
    row_descriptor = pa.array(pair_descriptor[row_pair])
    row_noun = pa.array(pair_noun[row_pair])
    row_template = pa.array(row_template)

    def spread(values: Sequence[str | None], indices: pa.Array) -> pa.Array:
        return pa.array(values, pa.string()).take(indices)

    def of_descriptor(attribute: str) -> pa.Array:
        values = [None if descriptor is None else getattr(descriptor, attribute) for descriptor in descriptors]
        return spread(values, row_descriptor)

    noun_phrases = spread(forms, row_form)
    prefixes = spread([prefix for prefix, _ in parts], row_template)
    suffixes = spread([suffix for _, suffix in parts], row_template)
    columns = {
        "id": pc.binary_join_element_wise(spread(form_ids, row_form), spread(template_ids, row_template), ""),
        "text": pc.binary_join_element_wise(prefixes, noun_phrases, suffixes, ""),
        "axis": of_descriptor("axis"),
        "bucket": of_descriptor("bucket"),
        "descriptor": of_descriptor("term"),
        "descriptor_gender": of_descriptor("gender"),
        "preference": of_descriptor("preference"),
        "placement": of_descriptor("placement"),
        "noun": spread([noun.noun for noun in nouns], row_noun),
        "noun_gender": spread([noun.gender for noun in nouns], row_noun),
        "noun_phrase": noun_phrases,
        "plural": pa.array([template.plural for template in templates], pa.bool_()).take(row_template),
        "template": spread([template.template for template in templates], row_template),
    }
    return pa.table(columns, PROMPT_SCHEMA)


def descriptor_noun_spans(prompts: pa.Table) -> np.ndarray:
    """Where the descriptor and noun stand in each text: "tall guy" in "This is a tall guy." (paper, B.1).

    Args:
        prompts: A table with the columns `noun_phrase`, `plural` and `template`.

    Returns:
        [rows, 2] start and end in characters, end not included; the article is not part of the span.
    """
    template = prompts["template"].combine_chunks().cast(pa.string()).dictionary_encode()
    slot_starts = np.array([text.index("{") for text in template.dictionary.to_pylist()])
    slot_start = slot_starts[template.indices.to_numpy()]
    phrase = prompts["noun_phrase"].combine_chunks().cast(pa.string())
    end = slot_start + pc.utf8_length(phrase).to_numpy()
    article = pc.add(pc.find_substring(phrase, " "), 1).to_numpy()
    start = slot_start + np.where(prompts["plural"].to_numpy(), 0, article)
    return np.stack([start, end], axis=1)


def _pair_key(descriptor: Descriptor | None, noun: PersonNoun) -> tuple[str, str, str]:
    return ("", "", noun.noun) if descriptor is None else (descriptor.axis, descriptor.term, noun.noun)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()


def _descriptor_row(descriptor: Descriptor) -> dict[str, str | None]:
    return {
        "axis": descriptor.axis,
        "bucket": descriptor.bucket,
        "descriptor": descriptor.term,
        "plural_descriptor": descriptor.plural or descriptor.term,
        "descriptor_gender": descriptor.gender,
        "preference": descriptor.preference,
        "placement": descriptor.placement,
        "article": descriptor.article,
        "note": descriptor.note,
        "source": descriptor.source,
    }


def _noun_row(noun: PersonNoun) -> dict[str, str | None]:
    return {
        "noun": noun.noun,
        "plural_noun": noun.plural,
        "noun_gender": noun.gender,
        "article": noun.article,
        "note": noun.note,
        "source": noun.source,
    }


def _template_row(template: Template) -> dict[str, str | bool | None]:
    return {
        "template": template.template,
        "plural": template.plural,
        "small": template.small,
        "note": template.note,
        "source": template.source,
    }
