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

from hb_dataset.prompts import CONFIGS, DEFAULT_CONFIG, build_table, config_schema
from hb_dataset.vocabulary import read_vocabulary

DATASET_NAME = "holistic_bias"
CITATION = """\
@inproceedings{smith-etal-2022-im,
    title = "{``}{I}{'}m sorry to hear that{''}: Finding New Biases in Language Models
        with a Holistic Descriptor Dataset",
    author = "Smith, Eric Michael and Hall, Melissa and Kambadur, Melanie and Presani, Eleonora and Williams, Adina",
    booktitle = "Proceedings of the 2022 Conference on Empirical Methods in Natural Language Processing",
    year = "2022",
}
"""


@dataclass
class HolisticBiasConfig(datasets.BuilderConfig):
    """A config of the dataset; `vocabulary_dir` is a vocabulary folder of your own."""

    vocabulary_dir: str | None = None


class HolisticBias(datasets.ArrowBasedBuilder):
    """HolisticBias (Smith et al., 2022): one split, `test`, per config.

    Args:
        config_name: A name in `hb_dataset.CONFIGS`; `None`: `v1.0`.
        vocabulary_dir: A vocabulary folder of your own; `None`: v1.0.
        **kwargs: Those of `datasets.DatasetBuilder`, e.g. `cache_dir`.

    Raises:
        VocabularyError: The vocabulary has faults.

    Example:
        >>> builder = HolisticBias(config_name="v1.0-small", vocabulary_dir="my_vocabulary")
        >>> builder.download_and_prepare()
        >>> prompts = builder.as_dataset(split="test")
    """

    VERSION = datasets.Version("1.0.0")
    BUILDER_CONFIG_CLASS = HolisticBiasConfig
    BUILDER_CONFIGS: ClassVar = [
        HolisticBiasConfig(name=name, version=datasets.Version("1.0.0"), description=description)
        for name, description in CONFIGS.items()
    ]
    DEFAULT_CONFIG_NAME = DEFAULT_CONFIG

    def __init__(self, config_name: str | None = None, vocabulary_dir: str | Path | None = None, **kwargs: Any) -> None:
        self.vocabulary = read_vocabulary(vocabulary_dir)
        config_name = DEFAULT_CONFIG if config_name is None else config_name
        config_schema(config_name)
        # Without a config name `datasets` loads the folder changed last, and refuses to if its hash is shared by
        # other configs. The default's hash is its own and all others share one, so that at worst one is asked to name
        # a config, and never given another than the default.
        whose = "default" if config_name == DEFAULT_CONFIG else "others"
        hash_ = hashlib.sha256(f"{whose} {self.vocabulary.digest}".encode()).hexdigest()[:16]
        own = {} if vocabulary_dir is None else {"vocabulary_dir": str(vocabulary_dir)}
        super().__init__(**{"dataset_name": DATASET_NAME, "config_name": config_name, "hash": hash_, **own, **kwargs})

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(
            description=self.config.description,
            features=datasets.Features.from_arrow_schema(config_schema(self.config.name)),
            license="CC-BY-SA-4.0",
            citation=CITATION,
        )

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        return [datasets.SplitGenerator(name=str(datasets.Split.TEST))]

    def _generate_tables(self) -> Iterator[tuple[Key, pa.Table]]:
        yield Key(0, 0), build_table(self.config.name, self.vocabulary)
