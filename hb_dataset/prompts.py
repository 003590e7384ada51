"""Defines the configs of the dataset. `load_dataset("holistic_bias", …)` and `load_table` return their tables.

The configs `descriptors`, `nouns` and `templates` belong to the default version or, on the Hub, to the published
version. `robust-fixed`, `robust-structured` and `decisions` have no version, because they come from a grammar or a list
of questions, which may change.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from hb_dataset.command_line import check_known
from hb_dataset.decisions import DECISION_SCHEMA, decision_rows
from hb_dataset.intersections import all_intersections, sample_intersections
from hb_dataset.prompt_columns import INTERSECTION_SCHEMA, PROMPT_SCHEMA
from hb_dataset.prompt_table import (
    descriptors_of_most_nouns,
    prompt_table,
    small_descriptors,
    small_templates,
    standalone_table,
)
from hb_dataset.structures import STRUCTURED_SCHEMA, STRUCTURES_DIR, structured_prompt_table
from hb_dataset.versions import NEXT, VERSION_NAME, frozen_versions, read_version, version_folder
from hb_dataset.vocabulary import is_version, read_vocabulary, with_articles
from hb_dataset.vocabulary_entries import Descriptor, Template, Vocabulary

Entry = TypeVar("Entry")

DEFAULT_VERSION = "v1.0"
DEFAULT_CONFIG = DEFAULT_VERSION
INTERSECTIONS_PER_BATCH = 64

CITATION = (Path(__file__).parent / "citation.bib").read_text(encoding="utf-8")
ROBUST_CITATION = (STRUCTURES_DIR / "citation.bib").read_text(encoding="utf-8")

# The columns of the configs that list entries, and the attributes of the entries, if they have other names.
_COLUMNS = {
    "descriptors": "axis bucket descriptor plural_descriptor descriptor_gender preference placement article "
    "note source",
    "nouns": "noun plural_noun noun_gender article note source",
    "templates": "template plural small note source",
}
_ATTRIBUTES = {
    "descriptor": "term",
    "plural_descriptor": "plural_term",
    "descriptor_gender": "gender",
    "plural_noun": "plural",
    "noun_gender": "gender",
}


@dataclass(frozen=True)
class Config:
    """A config of the dataset.

    Attributes:
        name: The name, such as `"v1.0-small"`.
        build: A function that takes a vocabulary and the `options`, and returns the table in one or more parts.
        required_list: A list of the vocabulary. Versions without its file do not have the config.
        options: The arguments of `HolisticBias` that the config allows.
        measured: Whether `measure` offers the config. It offers only configs whose prompts describe people with a term.
        has_version: False if the table does not depend on the vocabulary.
    """

    name: str
    description: str
    schema: pa.Schema
    build: Callable[..., Iterable[pa.Table]]
    citation: str = CITATION
    required_list: str | None = None
    options: tuple[str, ...] = ()
    measured: bool = False
    has_version: bool = True


# --- How each config is made ------------------------------------------------------------------------------------------


def _prompts(
    vocabulary: Vocabulary, descriptors: Sequence[Descriptor | None], templates: Sequence[Template]
) -> list[pa.Table]:
    return [prompt_table(descriptors, vocabulary.nouns, templates, vocabulary.left_out_nouns)]


def _all_prompts(vocabulary: Vocabulary) -> list[pa.Table]:
    return _prompts(vocabulary, vocabulary.descriptors, vocabulary.templates)


def _small_prompts(vocabulary: Vocabulary) -> list[pa.Table]:
    descriptors = small_descriptors(descriptors_of_most_nouns(vocabulary))
    return _prompts(vocabulary, descriptors, small_templates(vocabulary.templates))


def _baseline_prompts(vocabulary: Vocabulary) -> list[pa.Table]:
    return _prompts(vocabulary, [None], vocabulary.templates)


def _standalone_prompts(vocabulary: Vocabulary) -> list[pa.Table]:
    phrases = _required(vocabulary.standalone_noun_phrases, "standalone_noun_phrases.yaml")
    return [standalone_table(phrases, vocabulary.templates)]


def _seat_prompts(vocabulary: Vocabulary) -> list[pa.Table]:
    templates = _required(vocabulary.seat_templates, "seat_templates.yaml")
    return _prompts(vocabulary, vocabulary.descriptors, templates)


def _required(entries: tuple[Entry, ...], file: str) -> tuple[Entry, ...]:
    if not entries:
        raise ValueError(f"the vocabulary has no {file}; add the file, or choose another config")
    return entries


def intersection_batches(
    vocabulary: Vocabulary | None = None, *, full: bool = False, seed: int = 0
) -> Iterator[pa.Table]:
    """Yields the prompts of intersections in tables of 64 pairs, because all prompts together may not fit in memory.

    Args:
        vocabulary: The vocabulary. `None` means `next`.
        full: If true, every pair is combined with every noun and template. If false, only a sample of pairs is combined
            with the templates of the small config.
        seed: The seed of the sample (see `sample_intersections`).

    Raises:
        ValueError: The vocabulary has no order of adjectives.
    """
    vocabulary = read_version(NEXT) if vocabulary is None else vocabulary
    pairs = all_intersections(vocabulary) if full else sample_intersections(vocabulary, seed=seed)
    templates = vocabulary.templates if full else small_templates(vocabulary.templates)
    remaining = iter(pairs)
    while batch := tuple(itertools.islice(remaining, INTERSECTIONS_PER_BATCH)):
        yield prompt_table(batch, vocabulary.nouns, templates, vocabulary.left_out_nouns)


def _list(name: str, description: str) -> Config:
    """Makes the config that lists a vocabulary's descriptors, nouns or templates, with one row for each entry."""
    columns = _COLUMNS[name].split()
    schema = pa.schema({column: pa.bool_() if column in ("plural", "small") else pa.string() for column in columns})

    def build(vocabulary: Vocabulary) -> list[pa.Table]:
        entries = getattr(vocabulary, name)
        rows = [{column: getattr(entry, _ATTRIBUTES.get(column, column)) for column in columns} for entry in entries]
        return [pa.Table.from_pylist(rows, schema)]

    return Config(name, description, schema, build)


# --- The configs ------------------------------------------------------------------------------------------------------


def _configs_of(version: str) -> tuple[Config, ...]:
    prompts = PROMPT_SCHEMA
    full = "Every prompt: each term with each agreeing noun, in each template."
    small = "A stratified sample: six terms per axis, all nouns, four templates."
    baseline = "The nouns without a term, in every template."
    seat = "The terms in the SEAT sentences, with which the paper measures masked language models."
    phrases = "Phrases that already include a noun (a wheelchair user), in every template; `noun` is null."
    pairs = "Pairs of terms from two axes: 16 pairs of terms for each pair of axes, with all nouns, in four templates."
    return (
        Config(version, full, prompts, _all_prompts, measured=True),
        Config(f"{version}-small", small, prompts, _small_prompts, measured=True),
        Config(f"{version}-baseline", baseline, prompts, _baseline_prompts),
        Config(f"{version}-seat", seat, prompts, _seat_prompts, required_list="seat_templates", measured=True),
        Config(
            f"{version}-noun-phrases", phrases, prompts, _standalone_prompts, required_list="standalone_noun_phrases"
        ),
        Config(
            f"{version}-intersections",
            pairs,
            INTERSECTION_SCHEMA,
            intersection_batches,
            required_list="adjective_order",
            options=("full", "seed"),
            measured=True,
        ),
        _list("descriptors", "The demographic terms."),
        _list("nouns", "The person nouns."),
        _list("templates", "The templates."),
    )


_CONFIGS_OF_NO_VERSION = (
    Config(
        "robust-fixed",
        "The fixed prompts for measuring regard: six groups with ten verb phrases each.",
        STRUCTURED_SCHEMA,
        lambda _, groups=None: [structured_prompt_table(groups, fixed_only=True)],
        citation=ROBUST_CITATION,
        options=("groups",),
        has_version=False,
    ),
    Config(
        "robust-structured",
        "The same prompts, each in 101 syntactic structures, which include the fixed structure.",
        STRUCTURED_SCHEMA,
        lambda _, groups=None: [structured_prompt_table(groups)],
        citation=ROBUST_CITATION,
        options=("groups",),
        has_version=False,
    ),
    Config(
        "decisions",
        "Questions about a person that are decided with yes or no, in two wordings each.",
        DECISION_SCHEMA,
        lambda _: [pa.Table.from_pylist(decision_rows(), DECISION_SCHEMA)],
        has_version=False,
    ),
)


def version_configs(version: str, root: Path | None = None) -> list[Config]:
    """Returns a version's configs, except those that require a list that the version lacks."""
    folder = version_folder(version, root)
    return [
        config
        for config in _configs_of(version)
        if config.required_list is None or (folder / f"{config.required_list}.yaml").is_file()
    ]


_CONFIGS = {
    config.name: config
    for configs in (*map(version_configs, (*frozen_versions(), NEXT)), _CONFIGS_OF_NO_VERSION)
    for config in configs
}
CONFIGS = {name: config.description for name, config in _CONFIGS.items()}


def find_config(name: str) -> Config:
    check_known(name, CONFIGS, f"dataset config '{name}' does not exist")
    return _CONFIGS[name]


def version_of(config: str) -> str:
    """Returns the version of a config: `"v1.0"` for `v1.0-small`, and the default version for `robust-fixed`."""
    version = find_config(config).name.partition("-")[0]
    return version if version == NEXT or VERSION_NAME.fullmatch(version) else DEFAULT_VERSION


def measured_configs() -> list[str]:
    return [name for name, config in _CONFIGS.items() if config.measured]


def config_vocabulary(config: str, vocabulary_dir: str | Path | None = None) -> Vocabulary:
    if vocabulary_dir is None:
        return read_version(version_of(config))
    if not find_config(config).has_version:
        raise ValueError(f"config '{config}' is not built from a vocabulary; omit the folder '{vocabulary_dir}'")
    vocabulary = read_vocabulary(vocabulary_dir)
    return vocabulary if is_version(vocabulary_dir) else with_articles(vocabulary)


def load_table(config: str = DEFAULT_CONFIG, vocabulary_dir: str | Path | None = None) -> pa.Table:
    """Builds the table of a config.

    Args:
        config: A name in `CONFIGS`.
        vocabulary_dir: The folder of your own vocabulary. `None` means the vocabulary of the config's version.

    Returns:
        A table with the columns of `PROMPT_SCHEMA`. Intersections have the columns of `INTERSECTION_SCHEMA`, and
        `robust-…` configs have the columns of `STRUCTURED_SCHEMA`. The configs `descriptors`, `nouns`, `templates` and
        `decisions` each have their own columns.

    Raises:
        ValueError: The config does not exist, or the vocabulary has faults (`FaultsError`).
    """
    return config_table(find_config(config), config_vocabulary(config, vocabulary_dir))


def config_table(config: Config, vocabulary: Vocabulary) -> pa.Table:
    tables = list(config.build(vocabulary))
    if not tables:
        raise ValueError("the vocabulary has no pairs of terms from two axes; add an axis, or choose another config")
    return pa.concat_tables(tables).combine_chunks()
