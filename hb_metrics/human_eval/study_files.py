import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from hb_dataset.table_files import parse_json
from hb_dataset.whole_files import write_text

S = TypeVar("S", bound=tuple)  # a study, whose first field is the digest of all other fields
_DIGITS = 16  # the number of digits in ids


def read_study_file(path: Path, layout: int, read: Callable[[dict[str, Any]], S], command: str) -> S:
    problem: object = "it was changed after it was written"
    try:
        content: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
        if content.pop("layout") == layout:
            study = read(content)
            if study[0] == digest(study[1:]):
                return study
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        problem = error
    raise ValueError(
        f"'{path}' is not a study written by this release's `human-eval {command}` ({problem}); restore the original "
        f"{path.name}"
    )


def study_text(study: Any, layout: int) -> str:
    return json.dumps({"layout": layout, **study._asdict()}, indent=1, ensure_ascii=False) + "\n"


def digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:_DIGITS]


def rater_names(number: int) -> list[str]:
    digits = max(2, len(str(number)))
    return [f"rater-{rater:0{digits}}" for rater in range(1, number + 1)]


def write_study_files(folder: Path, files: Mapping[str, str], answers: str) -> None:
    """Writes the files of a study.

    `files` maps names to contents. `answers` is the word that errors use for answers, such as "ratings".

    Raises:
        ValueError: A file exists with other content. Answers may already refer to it, so it is not overwritten.
    """
    for name, text in files.items():
        path = folder / name
        if path.exists() and path.read_bytes() != text.encode():
            raise ValueError(
                f"'{path}' already exists with other content, and {answers} may refer to that content; set "
                "--output_dir to a new folder"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_text(folder / name, text)


def beside_answers(answers: Path, name: str) -> Path:
    """Returns the path of a study's file. The file is in the folder of the file `answers`, or in its parent folder."""
    folder = answers.resolve().parent
    return folder / name if (folder / name).is_file() else folder.parent / name
