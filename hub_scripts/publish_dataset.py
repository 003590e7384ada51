"""Publishes a frozen version of the dataset on the Hub: Parquet, the card, the benchmark's tasks and a tag.

    holistic-bias publish dataset --repo_id ORG/holistic_bias --version v1.0
    holistic-bias publish dataset --repo_id ORG/holistic_bias --dry_run publish/

Afterwards `load_dataset("ORG/holistic_bias", "v1.0", revision="v1.0")` returns the rows of
`hb_dataset.load_table("v1.0")`. The repository's main branch keeps the sentences of every version, so that
`load_dataset("ORG/holistic_bias", "v1.0")` continues to work after v2.0 is published. The same vocabulary makes the
same files, so that publishing again changes nothing.

`eval.yaml` lists the tasks for which publish_results.py publishes results; CONTRIBUTING.md describes what the Hub needs
before it links them. An eval.yaml of somebody else stays as it is.

A publication removes the files that an earlier one wrote (`.published_files.json` in the repository lists them) and
that are no longer published. Files that you added to the repository stay. If somebody else's file is at a path that is
published, or the repository has only other people's files, they are listed and nothing is written, unless you give
`--among_other_files`.
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
from hub_scripts.addresses import check_address, check_repo_id, project_source
from hub_scripts.dry_run import add_dry_run_option, check_empty, write_files
from hub_scripts.eval_tasks import EVAL_FILE, EVALUATION_FRAMEWORK, eval_yaml
from hub_scripts.folder_checks import CHANGELOG_FILE
from hub_scripts.hub_contents import CARD_FILE
from hub_scripts.hub_errors import reason
from hub_scripts.published_dataset import PAPER_DATE, PAPER_VERSION, SPLIT, PublishedConfig, PublishedDataset

if TYPE_CHECKING:
    from huggingface_hub import HfApi

LICENSE_FILE = "LICENSE"
ROWS_PER_GROUP = 50_000  # about 10 MB of text: what a viewer or a stream reads at once
COMPRESSION_LEVEL = 9

FREEZE = "freeze {version} first: python hub_scripts/freeze_version.py v2.0"
NEXT_ERROR = f"version 'next' still changes and cannot be published; {FREEZE.format(version='it')}"
NONE_ERROR = f"no version in '{{root}}' is frozen; {FREEZE.format(version='one')}"
ORDER_ERROR = (
    "{repo_id} already has {newer}, and publishing {version} after it would give the older version to everybody who "
    "names no revision. Nothing was written; publish {version} in a repository of its own"
)
GONE_ERROR = (
    "{repo_id} has {gone}, which is not a frozen version of '{root}', so that its sentences would disappear from main. "
    "Nothing was written; publish from a folder that has all versions, or in a repository of its own"
)
EVAL_ERROR = (
    "{error}. The Hub refuses eval.yaml as long as it does not know the evaluation framework '{framework}' (see "
    "CONTRIBUTING.md); --without_eval_yaml publishes the rest"
)
EVAL_NOTE = (
    "the repository's eval.yaml was written by somebody else and was kept; the Hub links results for the tasks that it "
    "lists, and --dry_run shows those of this version"
)
NO_SOURCE_NOTE = (
    "the card does not state where the source repository is: before you publish, give --source_url, or set Source "
    "under [project.urls] in pyproject.toml"
)
TAGS_ERROR = "the tags of {repo_id} cannot be read ({reason}). Nothing was written; try again"


def main(argv: Sequence[str] | None = None) -> None:
    """Publishes the dataset, or with --dry_run writes its files, and prints what was done and how to load it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--repo_id",
        required=True,
        metavar="OWNER/NAME",
        help="The dataset repository of the Hub to publish in. It is created if it does not exist.",
    )
    parser.add_argument(
        "--version", help="The frozen version to publish, such as v1.0. By default it is the newest one."
    )
    add_dry_run_option(parser)
    parser.add_argument(
        "--vocabularies",
        type=Path,
        metavar="DIR",
        help="A folder with frozen versions of your own, to publish instead of those of the package.",
    )
    parser.add_argument(
        "--source_url",
        metavar="URL",
        help="The address of the source repository, which the card links to. By default it is Source under "
        "[project.urls] in pyproject.toml.",
    )
    parser.add_argument(
        "--without_eval_yaml",
        action="store_true",
        help="Publish everything but eval.yaml, which the Hub may refuse (see CONTRIBUTING.md).",
    )
    hub.add_other_files_option(parser)
    arguments = parser.parse_args(argv)
    repo_id, folder, root = arguments.repo_id, arguments.dry_run, arguments.vocabularies
    source_url, with_eval_file = arguments.source_url or project_source(), not arguments.without_eval_yaml
    try:
        check_repo_id(repo_id)
        if source_url is not None:
            check_address(source_url, "source_url")
        version = frozen_version(arguments.version, root)
        if folder is not None:
            check_empty(folder)
            files = dataset_files(repo_id, version, root, with_eval_file=with_eval_file, source_url=source_url)
            write_files(folder, files)
            print(f"{repo_id} {version}: written to {folder}, nothing was published")
        else:
            api = hub.connect()
            _check_order(api, repo_id, version, root)
            files = dataset_files(repo_id, version, root, with_eval_file=with_eval_file, source_url=source_url)
            pushed = hub.push(
                api,
                repo_id,
                files,
                repo_type="dataset",
                message=f"HolisticBias {version}",
                tag=version,
                among_other_files=arguments.among_other_files,
                keep_theirs=[EVAL_FILE],
            )
            print(f"{repo_id} {version}: {_what_was_done(pushed)}")
            if EVAL_FILE in pushed.kept:
                print(EVAL_NOTE)
    except (ValueError, OSError, RuntimeError) as error:
        # Without the cause, which could show the request.
        text = str(error)
        if "evaluation_framework" in text:
            text = EVAL_ERROR.format(error=text, framework=EVALUATION_FRAMEWORK)
        raise SystemExit(f"publish_dataset.py: {text}") from None
    _print_files(files)
    if source_url is None:
        print(NO_SOURCE_NOTE)
    for config in prompts.version_configs(version, root):
        print(f'load_dataset("{repo_id}", "{config}", revision="{version}", split="{SPLIT}")')


def frozen_version(version: str | None, root: Path | None = None) -> str:
    """The version to publish: the given one, or the newest frozen version if it is `None`.

    Raises:
        ValueError: If the version does not exist, is not frozen, or was changed since; or if it has faults
            (`VocabularyError`).
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


def dataset_files(
    repo_id: str,
    version: str,
    root: Path | None = None,
    *,
    with_eval_file: bool = True,
    source_url: str | None = None,
) -> dict[str, bytes]:
    """All files of the repository at a version.

    Args:
        repo_id: The dataset repo, `"ORG/holistic_bias"`.
        version: A frozen version.
        root: The folder that holds the versions; `None`: the package's own.
        with_eval_file: Whether to include `eval.yaml`.
        source_url: The address of the source repository, for the card.

    Returns:
        Contents by path; the same bytes for the same vocabulary and release of pyarrow, which its files name.

    Raises:
        ValueError: If the version does not exist, is not frozen, or it or its sentences were changed since; or if it
            has faults (`VocabularyError`).
    """
    from hub_scripts.dataset_card import dataset_card

    dataset = published_dataset(repo_id, version, root, source_url)
    files = {config.path: config.parquet for config in dataset.all_configs}
    files[CARD_FILE] = dataset_card(dataset).encode()
    if with_eval_file:
        files[EVAL_FILE] = eval_yaml(dataset).encode()
    files[LICENSE_FILE] = (Path(hb_dataset.__file__).parent / LICENSE_FILE).read_bytes()
    return dict(sorted(files.items()))


def published_dataset(
    repo_id: str, version: str, root: Path | None = None, source_url: str | None = None
) -> PublishedDataset:
    """Builds the tables of a version and their Parquet files. Arguments and errors as in `dataset_files`."""
    record = versions.read_frozen(root)[frozen_version(version, root)]
    date = record.get("date", PAPER_DATE if version == PAPER_VERSION else None)
    before = [
        earlier
        for earlier in reversed(versions.frozen_versions(root))
        if versions.version_number(earlier) < versions.version_number(version)
    ]
    earlier = [config for name in before for config in _configs(name, root) if config.holds_prompts]
    changes = _changes(version, root)
    return PublishedDataset(repo_id, version, _configs(version, root), date, changes, tuple(earlier), source_url)


def _configs(version: str, root: Path | None) -> tuple[PublishedConfig, ...]:
    """The configs of a version, its main one first, with their files."""
    configs = []
    for name, description in prompts.version_configs(frozen_version(version, root), root).items():
        table = prompts.version_table(version, name, root)
        configs.append(PublishedConfig(name, description, table, parquet_bytes(table)))
    counts = versions.table_counts({config.name: config.table for config in configs})
    versions.verify_version(version, root, made=counts)
    return tuple(configs)


def parquet_bytes(table: pa.Table) -> bytes:
    """A table as a Parquet file: the same bytes for the same rows.

    Columns whose values all differ are stored plainly, the others with a dictionary. Chunks are defined by their
    content, so that the Hub stores what two versions share only once; the page index is for its viewer.
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
        store_schema=False,  # Parquet's own types are enough
    )
    return buffer.getvalue()


def _changes(version: str, root: Path | None) -> str | None:
    """The text under a version's heading in the changelog of the vocabularies; `None` if there is none."""
    changelog = (root or vocabulary.VOCABULARIES) / CHANGELOG_FILE
    if not changelog.is_file():
        return None
    parts = re.split(r"^## +(\S.*)$", changelog.read_text(encoding="utf-8"), flags=re.MULTILINE)
    texts = {heading.split()[0]: text.strip() for heading, text in zip(parts[1::2], parts[2::2], strict=True)}
    return texts.get(version) or None


def _check_order(api: "HfApi", repo_id: str, version: str, root: Path | None) -> None:
    """Checks that main would not go back to an older version, and would not lose one.

    Raises:
        ValueError: If it would, or if the tags cannot be read.
    """
    from huggingface_hub.errors import HTTPError, RepositoryNotFoundError

    try:
        tags = {tag.name for tag in api.list_repo_refs(repo_id, repo_type="dataset").tags}
    except RepositoryNotFoundError:
        return
    except (HTTPError, OSError) as error:
        raise ValueError(TAGS_ERROR.format(repo_id=repo_id, reason=reason(error, api))) from None
    published = [tag for tag in tags if versions.VERSION_NAME.fullmatch(tag)]
    newest = max([version, *published], key=versions.version_number)
    if version not in tags and newest != version:
        raise ValueError(ORDER_ERROR.format(repo_id=repo_id, newer=newest, version=version))
    earlier = {tag for tag in published if versions.version_number(tag) < versions.version_number(version)}
    if gone := sorted(earlier.difference(versions.frozen_versions(root)), key=versions.version_number):
        folder = root or vocabulary.VOCABULARIES
        raise ValueError(GONE_ERROR.format(repo_id=repo_id, gone=", ".join(gone), root=folder))


def _what_was_done(pushed: hub.Pushed) -> str:
    if pushed.written or pushed.deleted:
        return f"published as {pushed.url} ({pushed.summary()})"
    if pushed.tagged:
        return f"the files were already published, the tag was set on {pushed.url}"
    return f"is already published with this content, nothing to do ({pushed.url})"


def _print_files(files: Mapping[str, bytes]) -> None:
    width = max(len(path) for path in files)
    for path, content in files.items():
        print(f"  {path:<{width}} {len(content):>12,} bytes")
    print(f"  {'':<{width}} {sum(map(len, files.values())):>12,} bytes")


if __name__ == "__main__":
    main()
