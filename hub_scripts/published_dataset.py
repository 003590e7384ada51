import io
import re
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from hb_dataset import prompts, versions

SPLIT = "test"
ROWS_PER_GROUP = 50_000  # about 10 MB of text; viewers and streams read one group at a time
COMPRESSION_LEVEL = 9


class PublishedConfig(NamedTuple):
    name: str
    description: str
    table: pa.Table
    parquet: bytes

    @property
    def path(self) -> str:
        return f"data/{self.name}/{SPLIT}.parquet"

    @property
    def holds_prompts(self) -> bool:
        return "text" in self.table.column_names

    @property
    def can_be_measured(self) -> bool:
        return self.holds_prompts and all(
            self.table[column].null_count < self.table.num_rows for column in ("descriptor", "noun")
        )


class PublishedDataset(NamedTuple):
    """A version of the dataset. The first config is the main config.

    `earlier` contains the prompts of earlier versions, from the newest to the oldest. These prompts stay on main.
    `changes` describes the changes since the previous version, in Markdown.
    """

    repo_id: str
    version: str
    configs: tuple[PublishedConfig, ...]
    earlier: tuple[PublishedConfig, ...] = ()
    changes: str = ""

    def table(self, config: str) -> pa.Table:
        return next(published.table for published in self.configs if published.name == config)


def published_dataset(repo_id: str, version: str) -> PublishedDataset:
    number = versions.version_number
    before = [name for name in versions.frozen_versions() if number(name) < number(version)]
    earlier = [config for name in reversed(before) for config in _configs(name) if config.holds_prompts]
    changes = _changes(versions.version_folder(versions.CHANGELOG_FILE), version)
    return PublishedDataset(repo_id, version, _configs(version), tuple(earlier), changes)


def parquet_bytes(table: pa.Table) -> bytes:
    """Writes a table as a Parquet file. The same rows always result in the same bytes.

    Columns with repeated values are stored with a dictionary. Chunk boundaries depend on the content, so the Hub stores
    common parts of two versions only once. The Hub's viewer needs the page index.
    """
    buffer = io.BytesIO()
    repeating = [field.name for field in table.schema if field.type == pa.string() and field.name not in ("id", "text")]
    pq.write_table(
        table.combine_chunks(),
        buffer,
        row_group_size=ROWS_PER_GROUP,
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        use_dictionary=repeating,
        use_content_defined_chunking=True,
        write_page_index=True,
        store_schema=False,  # the types of Parquet are sufficient
    )
    return buffer.getvalue()


def _configs(version: str) -> tuple[PublishedConfig, ...]:
    configs = []
    for name, description in prompts.version_configs(version).items():
        table = prompts.version_table(version, name)
        configs.append(PublishedConfig(name, description, table, parquet_bytes(table)))
    counts = versions.table_counts({config.name: config.table for config in configs})
    versions.verify_version(version, made=counts)
    return tuple(configs)


def _changes(changelog: Path, version: str) -> str:
    text = changelog.read_text(encoding="utf-8") if changelog.is_file() else ""
    found = re.search(rf"^## {re.escape(version)}\b.*\n((?:(?!## ).*\n?)*)", text, flags=re.MULTILINE)
    return found[1].strip() if found else ""
