"""The option `--dry_run` of the publishing scripts: the files that would be published, written into a folder."""

import argparse
from collections.abc import Mapping
from pathlib import Path

FOLDER_ERROR = "dry_run '{folder}' is not an empty folder; name a new one, or empty it"


def add_dry_run_option(parser: argparse.ArgumentParser, needs: str = "This needs no token and no network.") -> None:
    """Adds the option; `needs` is the end of its help."""
    parser.add_argument(
        "--dry_run",
        type=Path,
        metavar="DIR",
        help=f"Write the files into this new or empty folder and publish nothing. {needs}",
    )


def check_empty(folder: Path) -> None:
    """Checks that a folder is empty or does not exist.

    Raises:
        ValueError: If it is a file, or a folder with something in it.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(FOLDER_ERROR.format(folder=folder))


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes contents by path into an empty or new folder.

    Raises:
        ValueError: If it is a file, or a folder with something in it.
    """
    check_empty(folder)
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
