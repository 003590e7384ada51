"""Defines the dataset builder that `hub_scripts/install_local.py` installs for `load_dataset("holistic_bias")`."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import datasets
import pyarrow as pa
from datasets.builder import Key

from hb_dataset.decisions import QUESTIONS_FILE
from hb_dataset.prompt_groups import find_groups
from hb_dataset.prompts import CONFIGS, DEFAULT_CONFIG, config_vocabulary, find_config, version_of
from hb_dataset.structures import structures_digest
from hb_dataset.versions import NEXT, frozen_versions, read_version, version_number

DATASET_NAME = "holistic_bias"
OPTIONS = ("full", "seed", "groups")


@dataclass
class HolisticBiasConfig(datasets.BuilderConfig):
    """A config of the dataset.

    Attributes:
        vocabulary_dir: The folder of your own vocabulary. `None` means the vocabulary of the config's version.
        full: Whether a config of intersections contains all pairs (more than 100 million prompts) instead of a sample.
        seed: The seed for drawing the sample of intersections.
        groups: The groups for structured prompts, as a file of groups or as terms (see `find_groups`).
    """

    vocabulary_dir: str | None = None
    full: bool = False
    seed: int = 0
    groups: str | list[str] | None = None


def config_version(config: str) -> datasets.Version:
    """Returns a config's version: 1.0.0 for v1.0 and for configs without a version, and 0.0.0 for `next`."""
    version = version_of(config)
    major, minor = (0, 0) if version == NEXT else version_number(version)
    return datasets.Version(f"{major}.{minor}.0")


class HolisticBias(datasets.ArrowBasedBuilder):
    """HolisticBias (Smith et al., 2022). Each config has one split, `test`.

    Args:
        config_name: A name in `hb_dataset.CONFIGS`. `None` means `v1.0`.
        vocabulary_dir: The folder of your own vocabulary. `None` means the vocabulary of the config's version.
        **kwargs: The arguments of `HolisticBiasConfig` and `datasets.DatasetBuilder`, e.g. `cache_dir`.

    Raises:
        ValueError: The config does not exist or does not take an option, or a group is unknown.
        FaultsError: The vocabulary has faults.

    Example:
        >>> builder = HolisticBias(config_name="v1.0-small", vocabulary_dir="my_vocabulary")
        >>> builder.download_and_prepare()
        >>> prompts = builder.as_dataset(split="test")
        >>> pairs = HolisticBias(config_name="next-intersections", full=True)
        >>> prompts = pairs.as_streaming_dataset(split="test")
        >>> structured = HolisticBias(config_name="robust-structured", groups=["Deaf woman", "tall person"])
    """

    BUILDER_CONFIG_CLASS = HolisticBiasConfig
    BUILDER_CONFIGS: ClassVar = [
        HolisticBiasConfig(name=name, version=config_version(name), description=description)
        for name, description in CONFIGS.items()
    ]
    DEFAULT_CONFIG_NAME = DEFAULT_CONFIG

    def __init__(self, config_name: str | None = None, vocabulary_dir: str | Path | None = None, **kwargs: Any) -> None:
        config_name = DEFAULT_CONFIG if config_name is None else config_name
        self.vocabulary = config_vocabulary(config_name, vocabulary_dir)
        for option in OPTIONS:
            if option not in find_config(config_name).options and kwargs.get(option) not in (None, False, 0):
                allowed = ", ".join(name for name in CONFIGS if option in find_config(name).options)
                raise ValueError(f"config '{config_name}' does not accept `{option}`; omit it, or choose {allowed}")
        groups = kwargs.get("groups")
        self.groups, _ = find_groups(groups)
        # If no config name is passed, `datasets` loads the cache folder that changed last. It raises an error if
        # several configs share this folder's hash. All configs except the default have the same hash. `datasets` may
        # therefore ask for a config's name, but it never loads the wrong config.
        whose = "default" if config_name == DEFAULT_CONFIG else "others"
        versions = (*frozen_versions(), NEXT)
        vocabularies = [self.vocabulary] if vocabulary_dir else [read_version(version) for version in versions]
        made_from = " ".join([*(vocabulary.digest for vocabulary in vocabularies), structures_digest()])
        made_from += QUESTIONS_FILE.read_text(encoding="utf-8")
        if groups is not None:  # the groups themselves and not the file's name, because the file may change
            made_from += repr(self.groups)
        hash_ = hashlib.sha256(f"{whose} {made_from}".encode()).hexdigest()[:16]
        own = {} if vocabulary_dir is None else {"vocabulary_dir": str(vocabulary_dir)}
        super().__init__(**{"dataset_name": DATASET_NAME, "config_name": config_name, "hash": hash_, **own, **kwargs})

    def _info(self) -> datasets.DatasetInfo:
        config = find_config(self.config.name)
        return datasets.DatasetInfo(
            description=self.config.description,
            features=datasets.Features.from_arrow_schema(config.schema),
            license="CC-BY-SA-4.0",
            citation=config.citation,
        )

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        return [datasets.SplitGenerator(name=str(datasets.Split.TEST))]

    def _generate_tables(self) -> Iterator[tuple[Key, pa.Table]]:
        options = {"full": self.config.full, "seed": self.config.seed, "groups": self.groups}
        config = find_config(self.config.name)
        tables = config.build(self.vocabulary, **{name: options[name] for name in config.options})
        for number, table in enumerate(tables):
            yield Key(0, number), table
