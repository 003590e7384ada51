"""Publishes a frozen version of the dataset on the Hub, under a tag.

    holistic-bias publish dataset --repo_id ORG/holistic_bias --version v1.0
    holistic-bias publish dataset --repo_id ORG/holistic_bias --dry_run publish/

Afterwards `load_dataset("ORG/holistic_bias", "v1.0", revision="v1.0")` returns
the rows of `load_table("v1.0")`. The main branch keeps the sentences of every
version, so `load_dataset("ORG/holistic_bias", "v1.0")` still works once v2.0
has been published.
Publishing the same vocabulary again changes nothing.

The script never deletes other people's files. If the repository contains such files, the script lists them and writes
nothing unless you pass `--among_other_files`.
"""

from collections.abc import Sequence
from pathlib import Path

import hb_dataset
from hb_dataset import versions
from hub_scripts import hub
from hub_scripts.hub import publishing_parser, repo_id, write_files
from hub_scripts.published_dataset import EVAL_FILE, SPLIT, PublishedDataset, dataset_card, eval_yaml, published_dataset

LICENSE_FILE = "LICENSE"


def main(argv: Sequence[str] | None = None) -> None:
    parser = publishing_parser(__doc__)
    parser.add_argument(
        "--repo_id",
        required=True,
        type=repo_id,
        metavar="OWNER/NAME",
        help="The dataset repository on the Hub. If the repository does not exist, it is created.",
    )
    parser.add_argument("--version", help="The frozen version to publish, such as v1.0. Default: the newest version.")
    parser.add_argument(
        "--without_eval_yaml",
        action="store_true",
        help="Do not publish eval.yaml, for example because the Hub rejects the file (see CONTRIBUTING.md) or "
        "because you wrote your own.",
    )
    options = parser.parse_args(argv)
    version = frozen_version(options.version)
    api = None if options.dry_run else hub.connect()
    dataset = published_dataset(options.repo_id, version)
    files = dataset_files(dataset, with_eval_file=not options.without_eval_yaml)
    if api is None:
        write_files(options.dry_run, files)
        done = f"written to {options.dry_run}; nothing was published"
    else:
        repository = hub.open_repository(api, options.repo_id, "dataset")
        check_order(repository, version)
        among_others, message = options.among_other_files, f"HolisticBias {version}"
        done = hub.publish(repository, files, message=message, tag=version, among_other_files=among_others)
    print(f"{options.repo_id} {version}: {done}")
    for path, content in files.items():
        print(f"  {path} ({len(content):,} bytes)")
    for config in dataset.configs:
        print(f'load_dataset("{options.repo_id}", "{config.name}", revision="{version}", split="{SPLIT}")')


def frozen_version(version: str | None) -> str:
    frozen = versions.frozen_versions()
    version = version or frozen[-1]
    if version not in frozen:
        raise ValueError(f"there is no frozen version {version}; publish one of {', '.join(frozen)}")
    return version


def dataset_files(dataset: PublishedDataset, *, with_eval_file: bool = True) -> dict[str, bytes]:
    """Returns the contents of all files of a version's repository, by path.

    The bytes depend only on the vocabulary and the release of pyarrow.
    """
    files = {config.path: config.parquet for config in dataset.configs + dataset.earlier}
    files[hub.CARD_FILE] = dataset_card(dataset).encode()
    if with_eval_file:
        files[EVAL_FILE] = eval_yaml(dataset).encode()
    files[LICENSE_FILE] = (Path(hb_dataset.__file__).parent / LICENSE_FILE).read_bytes()
    return dict(sorted(files.items()))


def check_order(repository: hub.Repository, version: str) -> None:
    """Raises `ValueError` if publishing would replace a newer version on main."""
    number = versions.version_number
    newest = max(filter(versions.VERSION_NAME.fullmatch, repository.tags), key=number, default=version)
    if version not in repository.tags and number(newest) > number(version):
        raise ValueError(f"{repository} already has {newest}; publish the older {version} to another repository")
