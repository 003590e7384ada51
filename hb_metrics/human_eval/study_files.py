"""The files of a study for people: written whole beside each other, and found again beside the answers."""

from collections.abc import Mapping
from pathlib import Path

from hb_dataset.whole_files import write_text


def write_study_files(folder: Path, files: Mapping[str, str], answers: str) -> None:
    """Writes the files of a study. Files with the same content stay.

    Args:
        folder: The folder, which is made if it does not exist.
        files: Name → text.
        answers: What people's answers are called.

    Raises:
        ValueError: The folder contains a file of another study.
    """
    for name, text in files.items():
        path = folder / name
        if path.exists() and path.read_bytes() != text.encode():
            raise ValueError(f"'{path}' exists with other content, which {answers} may need; set another --output_dir")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_text(folder / name, text)


def beside_answers(answers: Path, name: str) -> Path:
    """A study's file beside a file of answers; in the folder above where it is not beside."""
    folder = answers.resolve().parent
    return folder / name if (folder / name).is_file() else folder.parent / name
