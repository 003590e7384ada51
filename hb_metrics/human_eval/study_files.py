from collections.abc import Mapping
from pathlib import Path

from hb_dataset.whole_files import write_text


def write_study_files(folder: Path, files: Mapping[str, str], answers: str) -> None:
    """Writes the files of a study. Never overwrites other content, which `answers` (such as "ratings") may need."""
    for name, text in files.items():
        path = folder / name
        if path.exists() and path.read_bytes() != text.encode():
            raise ValueError(
                f"'{path}' already exists with other content, which {answers} may need; set another --output_dir"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_text(folder / name, text)


def beside_answers(answers: Path, name: str) -> Path:
    """Returns the path of a study's file, which is in the same folder as a file of answers or in its parent folder."""
    folder = answers.resolve().parent
    return folder / name if (folder / name).is_file() else folder.parent / name
