"""Publishes a frozen version of the dataset on the Hub: a Parquet file per config, the card, Croissant and a tag.

    python hub_scripts/publish_dataset.py --repo_id ORG/holistic_bias --version v1.0
    python hub_scripts/publish_dataset.py --repo_id ORG/holistic_bias --dry_run publish/

Without `--version`: the newest frozen one. Then `load_dataset("ORG/holistic_bias", "v1.0", revision="v1.0")` gives the
rows of `hb_dataset.load_table("v1.0")`. The same vocabulary makes the same files, so that publishing again changes
nothing. With `--dry_run` the files are written into a folder, and neither a token nor a network is needed.
"""

import argparse
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import hb_dataset
from hb_dataset import prompts, versions, vocabulary
from hub_scripts import hub
from hub_scripts.dry_run import check_empty, write_files
from hub_scripts.published_dataset import PAPER_DATE, PAPER_VERSION, SPLIT, PublishedConfig, PublishedDataset

if TYPE_CHECKING:
    from huggingface_hub import HfApi

CARD_FILE = "README.md"
CROISSANT_FILE = "croissant.json"
LICENSE_FILE = "LICENSE"
CHANGELOG_FILE = "CHANGELOG.md"
ROWS_PER_GROUP = 50_000  # about 10 MB of text: what a viewer or a stream reads at once
COMPRESSION_LEVEL = 9

NEXT_ERROR = (
    "version 'next' still changes and cannot be published; freeze it first: python hub_scripts/freeze_version.py v2.0"
)
NONE_ERROR = "no version in '{root}' is frozen; freeze one first: python hub_scripts/freeze_version.py v2.0"
ORDER_ERROR = (
    "{repo_id} has {newer} already, and publishing {version} after it would give the older version to everybody who "
    "names no revision; publish {version} in a repo of its own. Nothing was written"
)
TAGS_ERROR = "the tags of {repo_id} cannot be read ({reason}), and nothing was written; try again"


def main(argv: Sequence[str] | None = None) -> None:
    """Publishes, or writes what would be published, and prints what it did and how to load it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repo_id", required=True, help="dataset repo to publish to, OWNER/NAME")
    parser.add_argument("--version", help="frozen version; without it the newest")
    parser.add_argument("--dry_run", type=Path, metavar="DIR", help="write the files here and push nothing")
    parser.add_argument(
        "--vocabularies", type=Path, metavar="DIR", help="versions of your own instead of the package's"
    )
    arguments = parser.parse_args(argv)
    repo_id, folder, root = arguments.repo_id, arguments.dry_run, arguments.vocabularies
    try:
        hub.check_repo_id(repo_id)
        version = frozen_version(arguments.version, root)
        if folder is not None:
            check_empty(folder)
            files = dataset_files(repo_id, version, root)
            write_files(folder, files)
            print(f"{repo_id} {version}: written to {folder}, nothing was pushed")
        else:
            api = hub.connect()
            _check_order(api, repo_id, version)
            files = dataset_files(repo_id, version, root)
            pushed = hub.push(api, repo_id, files, repo_type="dataset", message=f"HolisticBias {version}", tag=version)
            print(f"{repo_id} {version}: {_what_was_done(pushed)}")
    except (ValueError, OSError, RuntimeError) as error:
        # The error's text says it all; a HubError's cause could hold the request.
        raise SystemExit(f"publish_dataset.py: {error}") from None
    _print_files(files)
    for config in prompts.version_configs(version, root):
        print(f'load_dataset("{repo_id}", "{config}", revision="{version}", split="{SPLIT}")')


def frozen_version(version: str | None, root: Path | None = None) -> str:
    """The version to publish: the one named, if it is frozen and unchanged, else the newest.

    Raises:
        ValueError: The version does not exist, is not frozen, or was changed since; or (`VocabularyError`) has faults.
    """
    if version == versions.NEXT:
        raise ValueError(NEXT_ERROR)
    if version is None:
        frozen = versions.frozen_versions(root)
        if not frozen:
            raise ValueError(NONE_ERROR.format(root=root))
        version = frozen[-1]
    versions.read_version(version, root)
    return version


def dataset_files(repo_id: str, version: str, root: Path | None = None) -> dict[str, bytes]:
    """Everything the repo holds at a version.

    Args:
        repo_id: The dataset repo, `"ORG/holistic_bias"`.
        version: A frozen version.
        root: The folder that holds the versions; `None`: the package's own.

    Returns:
        Contents by path; the same bytes for the same vocabulary (and release of pyarrow, which signs its files).

    Raises:
        ValueError: The version does not exist, is not frozen, or was changed since, or its sentences were; or
            (`VocabularyError`) it has faults.
    """
    from hub_scripts.croissant import croissant_json
    from hub_scripts.dataset_card import dataset_card

    dataset = published_dataset(repo_id, version, root)
    files = {config.path: config.parquet for config in dataset.configs}
    files[CARD_FILE] = dataset_card(dataset).encode()
    files[CROISSANT_FILE] = croissant_json(dataset).encode()
    files[LICENSE_FILE] = (Path(hb_dataset.__file__).parent / LICENSE_FILE).read_bytes()
    return dict(sorted(files.items()))


def published_dataset(repo_id: str, version: str, root: Path | None = None) -> PublishedDataset:
    """Builds the tables of a version and their Parquet files. Arguments and errors as in `dataset_files`."""
    configs = []
    for name, description in prompts.version_configs(frozen_version(version, root), root).items():
        table = prompts.version_table(version, name, root)
        configs.append(PublishedConfig(name, description, table, parquet_bytes(table)))
    record = versions.read_frozen(root)[version]
    made = versions.table_counts({config.name: config.table for config in configs})
    versions.verify_version(version, root, made=made)
    date = record.get("date", PAPER_DATE if version == PAPER_VERSION else None)
    return PublishedDataset(repo_id, version, tuple(configs), date, _changes(version, root))


def parquet_bytes(table: pa.Table) -> bytes:
    """A table as a Parquet file: the same bytes for the same rows.

    Columns whose values all differ are stored plainly, the others through a dictionary. Chunks end where the content
    says so, so that the Hub stores only once what two versions share; the page index is for its viewer.
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
        store_schema=False,  # Parquet's own types say all there is
    )
    return buffer.getvalue()


def _changes(version: str, root: Path | None) -> str | None:
    """What the changelog beside the vocabularies says of a version: the text under its heading."""
    changelog = (root or vocabulary.VOCABULARIES) / CHANGELOG_FILE
    if not changelog.is_file():
        return None
    parts = re.split(r"^## +(.+)$", changelog.read_text(encoding="utf-8"), flags=re.MULTILINE)
    texts = {heading.split()[0]: text.strip() for heading, text in zip(parts[1::2], parts[2::2], strict=True)}
    return texts.get(version) or None


def _check_order(api: "HfApi", repo_id: str, version: str) -> None:
    """Sees that main would not go back to an older version."""
    from huggingface_hub.errors import HTTPError, RepositoryNotFoundError

    try:
        tags = {tag.name for tag in api.list_repo_refs(repo_id, repo_type="dataset").tags}
    except RepositoryNotFoundError:
        return
    except (HTTPError, OSError) as error:
        raise ValueError(TAGS_ERROR.format(repo_id=repo_id, reason=type(error).__name__)) from None
    published = [tag for tag in tags if versions.VERSION_NAME.fullmatch(tag)]
    newest = max([version, *published], key=versions.version_number)
    if version not in tags and newest != version:
        raise ValueError(ORDER_ERROR.format(repo_id=repo_id, newer=newest, version=version))


def _what_was_done(pushed: hub.Pushed) -> str:
    if pushed.changed:
        return f"published as {pushed.url}"
    if pushed.tagged:
        return f"the files were there already, the tag was set on {pushed.url}"
    return f"is there already with this content, nothing to do ({pushed.url})"


def _print_files(files: Mapping[str, bytes]) -> None:
    width = max(len(path) for path in files)
    for path, content in files.items():
        print(f"  {path:<{width}} {len(content):>12,} bytes")
    print(f"  {'':<{width}} {sum(map(len, files.values())):>12,} bytes")


if __name__ == "__main__":
    main()
