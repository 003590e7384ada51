"""The configs of the dataset: each table that is made from a version of the vocabulary, by its name.

A version has its prompts (`v1.0`), a sample of them (`v1.0-small`) and so on. `descriptors`, `nouns`, `templates` are
those of the default version; in what is published of a version, those of that version. `robust-fixed` and
`robust-structured` are made from no vocabulary but from a grammar, so they belong to no version and are not published
with one: what is published of a version never changes, and the grammar may.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from hb_dataset.combinations import ADJECTIVE_ORDER_FILE
from hb_dataset.hints import did_you_mean
from hb_dataset.intersections import all_intersections, sample_intersections
from hb_dataset.prompt_groups import PromptGroup
from hb_dataset.prompt_table import INTERSECTION_SCHEMA, PROMPT_SCHEMA, content_digest, intersection_table, prompt_table
from hb_dataset.sifting import taken
from hb_dataset.structured_prompts import STRUCTURED_SCHEMA, structured_prompt_table
from hb_dataset.versions import NEXT, frozen_versions, read_version, version_folder
from hb_dataset.vocabulary import (
    AFTER_THE_NOUN,
    SEAT_TEMPLATES_FILE,
    Descriptor,
    PersonNoun,
    Template,
    Vocabulary,
    read_vocabulary,
)

DEFAULT_VERSION = "v1.0"
DEFAULT_CONFIG = DEFAULT_VERSION
SMALL_TERMS_PER_AXIS = 6
INTERSECTIONS_PER_BATCH = 64

_ALL, _SMALL, _BASELINE, _SEAT, _INTERSECTIONS = "", "small", "baseline", "seat", "intersections"
_PROMPTS = {
    _ALL: "Every prompt: each term with each noun it agrees with, in each of the templates.",
    _SMALL: "A stratified sample for a quick look: six terms an axis, all nouns, four templates.",
    _BASELINE: "The nouns without a term, in every template.",
    _SEAT: "The terms in the SEAT sentences that the paper measures masked language models with.",
    _INTERSECTIONS: "Pairs of terms of two axes: 16 pairs of each two axes, all nouns they take, four templates.",
}
_TABLES = {"descriptors": "The demographic terms.", "nouns": "The person nouns.", "templates": "The templates."}
FIXED_CONFIG, STRUCTURED_CONFIG = "robust-fixed", "robust-structured"
ROBUST_CONFIGS = {
    FIXED_CONFIG: "The fixed prompts that regard is measured on: six groups with ten verb phrases each.",
    STRUCTURED_CONFIG: "The same prompts in 101 syntactic structures each, the fixed one among them.",
}

NO_VOCABULARY_ERROR = (
    "config '{config}' is made from no vocabulary; leave the folder '{folder}' out, and make prompts about your own "
    "groups with hb_dataset.structured_prompt_table"
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
    FIXED_CONFIG: STRUCTURED_SCHEMA,
    STRUCTURED_CONFIG: STRUCTURED_SCHEMA,
}


def version_configs(version: str, root: Path | None = None) -> dict[str, str]:
    """The configs of a version and what they are, its prompts first.

    Args:
        version: `"v1.0"`, …, or `"next"`.
        root: The folder that holds the versions; `None`: the package's own.
    """
    files = {_SEAT: SEAT_TEMPLATES_FILE, _INTERSECTIONS: ADJECTIVE_ORDER_FILE}
    folder = version_folder(version, root)
    made = [kind for kind in _PROMPTS if kind not in files or (folder / files[kind]).is_file()]
    return {**{_config_name(version, kind): _PROMPTS[kind] for kind in made}, **_TABLES}


def _config_name(version: str, kind: str) -> str:
    return f"{version}-{kind}" if kind else version


CONFIGS = {
    name: description
    for configs in (*map(version_configs, (*frozen_versions(), NEXT)), ROBUST_CONFIGS)
    for name, description in configs.items()
}


def config_schema(config: str) -> pa.Schema:
    """The columns of a config.

    Raises:
        ValueError: There is no such config.
    """
    _, kind = split_config(config)
    return SCHEMAS.get(kind, INTERSECTION_SCHEMA if kind == _INTERSECTIONS else PROMPT_SCHEMA)


def split_config(config: str) -> tuple[str, str]:
    """A config's version and what it has of it: `("v1.0", "small")`, `("v1.0", "")`, `("v1.0", "descriptors")`.

    Those that belong to no version count as the default's: `("v1.0", "robust-fixed")`.

    Raises:
        ValueError: There is no such config.
    """
    if config not in CONFIGS:
        hint = did_you_mean(config, CONFIGS)
        raise ValueError(f"dataset config '{config}' does not exist; {hint}allowed: {', '.join(CONFIGS)}")
    if config in (*_TABLES, *ROBUST_CONFIGS):
        return DEFAULT_VERSION, config
    version, _, kind = config.partition("-")
    return version, kind


def measured_configs() -> list[str]:
    """The configs that hold prompts about people with a descriptor."""
    return [config for config in CONFIGS if split_config(config)[1] not in (_BASELINE, *_TABLES, *ROBUST_CONFIGS)]


def config_vocabulary(config: str, vocabulary_dir: str | Path | None = None) -> Vocabulary:
    """The vocabulary a config is made from: one of your own where given, else that of its version.

    Raises:
        ValueError: There is no such config, it takes no vocabulary, or (`VocabularyError`) the vocabulary has faults.
    """
    version, _ = split_config(config)
    if config in ROBUST_CONFIGS and vocabulary_dir is not None:
        raise ValueError(NO_VOCABULARY_ERROR.format(config=config, folder=vocabulary_dir))
    return read_version(version) if vocabulary_dir is None else read_vocabulary(vocabulary_dir)


def load_table(config: str = DEFAULT_CONFIG, vocabulary_dir: str | Path | None = None) -> pa.Table:
    """Builds a config straight from a vocabulary.

    Args:
        config: A name in `CONFIGS`.
        vocabulary_dir: A vocabulary folder of your own; `None`: that of the config's version.

    Returns:
        Prompts with the columns of `PROMPT_SCHEMA`, of intersections of `INTERSECTION_SCHEMA`, of `robust-…` of
        `STRUCTURED_SCHEMA`, or one of the vocabulary's own tables. Missing is null.

    Raises:
        ValueError: There is no such config, or (`VocabularyError`) the vocabulary has faults.
    """
    return build_table(config, config_vocabulary(config, vocabulary_dir))


def version_table(version: str, config: str, root: Path | None = None) -> pa.Table:
    """Builds a config of `version_configs(version)`; `descriptors`, `nouns` and `templates` are that version's.

    Raises:
        ValueError: The version has no such config, or was changed after it was frozen.
    """
    configs = version_configs(version, root)
    vocabulary = read_version(version, root)
    if config not in configs:
        hint = did_you_mean(config, configs)
        raise ValueError(f"{version} has no dataset config '{config}'; {hint}allowed: {', '.join(configs)}")
    return _table(config.removeprefix(version).removeprefix("-"), vocabulary)


def build_table(config: str, vocabulary: Vocabulary) -> pa.Table:
    """Builds a config from a vocabulary that was read. See `load_table`."""
    _, kind = split_config(config)
    return _table(kind, vocabulary)


def robust_table(config: str, groups: Sequence[PromptGroup] | None = None) -> pa.Table:
    """Builds a config of structured prompts.

    Args:
        config: A name in `ROBUST_CONFIGS`.
        groups: Whom the prompts are about; `None`: the paper's six groups.
    """
    return structured_prompt_table(groups, "original" if config == FIXED_CONFIG else "all")


def intersection_batches(
    vocabulary: Vocabulary | None = None, *, full: bool = False, seed: int = 0
) -> Iterator[pa.Table]:
    """The prompts of intersections, table by table, so that all of them need not fit in memory.

    Args:
        vocabulary: The vocabulary; `None`: `next`.
        full: Every pair with every noun in every template, instead of a sample of pairs in the small templates.
        seed: Chooses the sample; see `sample_intersections`.

    Yields:
        Tables with the columns of `INTERSECTION_SCHEMA`, of 64 pairs each.

    Raises:
        ValueError: The vocabulary has no order of adjectives.
    """
    vocabulary = read_version(NEXT) if vocabulary is None else vocabulary
    pairs = all_intersections(vocabulary) if full else sample_intersections(vocabulary, seed=seed)
    templates = vocabulary.templates if full else small_templates(vocabulary.templates)
    remaining = iter(pairs)
    while batch := tuple(itertools.islice(remaining, INTERSECTIONS_PER_BATCH)):
        yield intersection_table(batch, vocabulary.nouns, templates, vocabulary.left_out_nouns)


def _table(kind: str, vocabulary: Vocabulary) -> pa.Table:
    descriptors, nouns, templates = vocabulary.descriptors, vocabulary.nouns, vocabulary.templates
    rules = vocabulary.left_out_nouns
    if kind == "descriptors":
        return pa.Table.from_pylist([_descriptor_row(descriptor) for descriptor in descriptors], SCHEMAS[kind])
    if kind == "nouns":
        return pa.Table.from_pylist([_noun_row(noun) for noun in nouns], SCHEMAS[kind])
    if kind == "templates":
        return pa.Table.from_pylist([_template_row(template) for template in templates], SCHEMAS[kind])
    if kind in ROBUST_CONFIGS:
        return robust_table(kind)
    if kind == _SMALL:
        chosen = small_descriptors(_of_most_nouns(vocabulary))
        return prompt_table(chosen, nouns, small_templates(templates), rules)
    if kind == _BASELINE:
        return prompt_table([None], nouns, templates, rules)
    if kind == _SEAT:
        if not vocabulary.seat_templates:
            raise ValueError(f"the vocabulary has no {SEAT_TEMPLATES_FILE}, which a config '…-seat' is made from")
        return prompt_table(descriptors, nouns, vocabulary.seat_templates, rules)
    if kind == _INTERSECTIONS:
        return pa.concat_tables(intersection_batches(vocabulary)).combine_chunks()
    return prompt_table(descriptors, nouns, templates, rules)


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
        queues = [sorted(bucket, key=lambda descriptor: content_digest(axis, descriptor.term)) for bucket in turns]
        rounds = [queue[turn] for turn in range(SMALL_TERMS_PER_AXIS) for queue in queues if turn < len(queue)]
        chosen |= {(axis, descriptor.term) for descriptor in rounds[:SMALL_TERMS_PER_AXIS]}
    return [descriptor for descriptor in descriptors if (descriptor.axis, descriptor.term) in chosen]


def _of_most_nouns(vocabulary: Vocabulary) -> list[Descriptor]:
    """The terms that are said of half of the nouns or more."""
    cells = taken(vocabulary.descriptors, vocabulary.nouns, vocabulary.templates, vocabulary.left_out_nouns)
    return [
        descriptor
        for descriptor, takes in zip(vocabulary.descriptors, cells, strict=True)
        if takes.any(axis=1).sum() >= len(vocabulary.nouns) / 2
    ]


def _turn(bucket: str | None, size: int) -> tuple[bool, int, str]:
    return bucket != AFTER_THE_NOUN, -size, bucket or ""


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
