from collections.abc import Mapping
from pathlib import Path

from hb_dataset.whole_files import write_text


def write_study_files(folder: Path, files: Mapping[str, str], answers: str) -> None:
    """Writes the files of a study, by their names. `answers` is a word such as "ratings".

    Raises:
        ValueError: A file exists with other content. Answers may already refer to it, so it is not overwritten.
    """
    for name, text in files.items():
        path = folder / name
        if path.exists() and path.read_bytes() != text.encode():
            raise ValueError(
                f"'{path}' already exists with other content, to which {answers} may refer; set --output_dir to a new "
                "folder"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_text(folder / name, text)


def beside_answers(answers: Path, name: str) -> Path:
    """Returns the path of a study's file, which is in the folder of a file of answers or in the parent folder."""
    folder = answers.resolve().parent
    return folder / name if (folder / name).is_file() else folder.parent / name
