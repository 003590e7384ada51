import argparse
from collections.abc import Mapping
from pathlib import Path


def repo_id(text: str) -> str:
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(text)
        is_valid = "/" in text
    except HFValidationError:
        is_valid = False
    if not is_valid:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the name of a repository; write OWNER/NAME, as shown on the repository's page on the Hub"
        )
    return text


def new_folder(text: str) -> Path:
    folder = Path(text)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise argparse.ArgumentTypeError(f"'{text}' is not an empty folder; set a new folder, or empty it")
    return folder


def add_dry_run_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dry_run",
        type=new_folder,
        metavar="DIR",
        help="Write the files to this new or empty folder instead of publishing them. This needs neither a token nor "
        "a network connection.",
    )


def add_other_files_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--among_other_files",
        action="store_true",
        help="Publish even if the repository contains other people's files, or files that somebody changed after "
        "publication. The published files overwrite files with the same names, and all other files are kept.",
    )


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
