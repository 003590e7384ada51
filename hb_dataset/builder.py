"""The dataset builder: each table of the vocabulary as a config of `holistic_bias`.

`hub_scripts/install_local.py` prepares it so that `load_dataset("holistic_bias")` works in any folder.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import datasets
import pyarrow as pa
from datasets.builder import Key

from hb_dataset.prompt_groups import find_groups
from hb_dataset.prompts import (
    CONFIGS,
    DEFAULT_CONFIG,
    ROBUST_CONFIGS,
    build_table,
    config_schema,
    config_vocabulary,
    intersection_batches,
    robust_table,
    split_config,
)
from hb_dataset.structures import structures_digest
from hb_dataset.versions import NEXT, frozen_versions, read_version, version_number

DATASET_NAME = "holistic_bias"
NO_GROUPS_ERROR = "config '{config}' is not of structured prompts, and takes no `groups`; allowed: {allowed}"
CITATION = """\
@inproceedings{smith-etal-2022-im,
    title = "{``}{I}{'}m sorry to hear that{''}: Finding New Biases in Language Models
        with a Holistic Descriptor Dataset",
    author = "Smith, Eric Michael and Hall, Melissa and Kambadur, Melanie and Presani, Eleonora and Williams, Adina",
    booktitle = "Proceedings of the 2022 Conference on Empirical Methods in Natural Language Processing",
    year = "2022",
}
"""
ROBUST_CITATION = """\
@inproceedings{sheng-etal-2019-woman,
    title = "The Woman Worked as a Babysitter: On Biases in Language Generation",
    author = "Sheng, Emily and Chang, Kai-Wei and Natarajan, Premkumar and Peng, Nanyun",
    booktitle = "Proceedings of the 2019 Conference on Empirical Methods in Natural Language Processing and the 9th
        International Joint Conference on Natural Language Processing (EMNLP-IJCNLP)",
    year = "2019",
}
@inproceedings{aggarwal-etal-2022-towards,
    title = "Towards Robust {NLG} Bias Evaluation with Syntactically-diverse Prompts",
    author = "Aggarwal, Arshiya and Sun, Jiao and Peng, Nanyun",
    booktitle = "Findings of the Association for Computational Linguistics: EMNLP 2022",
    year = "2022",
}
"""


@dataclass
class HolisticBiasConfig(datasets.BuilderConfig):
    """A config of the dataset.

    Attributes:
        vocabulary_dir: A vocabulary folder of your own.
        full: Of intersections, all of them instead of a sample. There are more than a hundred million: stream them.
        seed: Of intersections, what chooses the sample.
        groups: Of structured prompts, whom they are about: a file of groups, or terms; see `find_groups`.
    """

    vocabulary_dir: str | None = None
    full: bool = False
    seed: int = 0
    groups: str | list[str] | None = None


def config_version(config: str) -> datasets.Version:
    """The version of a config as `datasets` writes it: 1.0.0 for v1.0 and what is of no version, 0.0.0 for `next`."""
    version, _ = split_config(config)
    major, minor = (0, 0) if version == NEXT else version_number(version)
    return datasets.Version(f"{major}.{minor}.0")


class HolisticBias(datasets.ArrowBasedBuilder):
    """HolisticBias (Smith et al., 2022): one split, `test`, per config.

    Args:
        config_name: A name in `hb_dataset.CONFIGS`; `None`: `v1.0`.
        vocabulary_dir: A vocabulary folder of your own; `None`: that of the config's version.
        **kwargs: Those of `HolisticBiasConfig` and `datasets.DatasetBuilder`, e.g. `cache_dir`.

    Raises:
        ValueError: `full` or `seed` for a config that is not of intersections, `groups` for one that is not of
            structured prompts, or a group is not known.
        VocabularyError: The vocabulary has faults.

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
        if not config_name.endswith("-intersections") and (kwargs.get("full") or kwargs.get("seed")):
            raise ValueError(f"config '{config_name}' is not of intersections, and takes neither `full` nor `seed`")
        groups = kwargs.get("groups")
        if groups is not None and config_name not in ROBUST_CONFIGS:
            raise ValueError(NO_GROUPS_ERROR.format(config=config_name, allowed=", ".join(ROBUST_CONFIGS)))
        self.groups, _ = find_groups(groups)
        # Without a config name `datasets` loads the folder changed last, and refuses to if its hash is shared by
        # other configs. The default's hash is its own and all others share one, so that at worst one is asked to name
        # a config, and never given another than the default.
        whose = "default" if config_name == DEFAULT_CONFIG else "others"
        read = [self.vocabulary] if vocabulary_dir else [read_version(name) for name in (*frozen_versions(), NEXT)]
        made_from = " ".join([*(vocabulary.digest for vocabulary in read), structures_digest()])
        if groups is not None:  # a file may have changed since
            made_from += repr(self.groups)
        hash_ = hashlib.sha256(f"{whose} {made_from}".encode()).hexdigest()[:16]
        own = {} if vocabulary_dir is None else {"vocabulary_dir": str(vocabulary_dir)}
        super().__init__(**{"dataset_name": DATASET_NAME, "config_name": config_name, "hash": hash_, **own, **kwargs})

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(
            description=self.config.description,
            features=datasets.Features.from_arrow_schema(config_schema(self.config.name)),
            license="CC-BY-SA-4.0",
            citation=ROBUST_CITATION if self.config.name in ROBUST_CONFIGS else CITATION,
        )

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        return [datasets.SplitGenerator(name=str(datasets.Split.TEST))]

    def _generate_tables(self) -> Iterator[tuple[Key, pa.Table]]:
        if self.config.name in ROBUST_CONFIGS:
            yield Key(0, 0), robust_table(self.config.name, self.groups)
            return
        if not self.config.name.endswith("-intersections"):
            yield Key(0, 0), build_table(self.config.name, self.vocabulary)
            return
        batches = intersection_batches(self.vocabulary, full=self.config.full, seed=self.config.seed)
        for number, batch in enumerate(batches):
            yield Key(0, number), batch
