"""A run's folder: what was asked, written before anything is computed, and its JSON files."""

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hb_dataset.whole_files import write_text

RUN_FILE = "run.json"
RESULTS_FILE = "results.json"
REPORT_FILE = "report.html"
STYLE_MEANS_FILE = "style_means.parquet"
# Subfolders, of Parquet shards.
PERPLEXITIES, REPLIES, STYLES, OFFENSIVENESS = "perplexities", "replies", "style_probabilities", "offensiveness"
DIALOGUE = "dialogue"
# The packages whose release can move a number.
VERSIONED = ("holistic-bias", "torch", "transformers", "tokenizers", "numpy", "scipy", "scikit-learn")

_ABSENT = "not recorded"

NOT_A_RUN_ERROR = "output_dir '{folder}' has files in it and no {file}; give an empty or a new folder"
UNREADABLE_ERROR = "'{path}' cannot be read ({error}); move it away, or give another output_dir"
OTHER_SETTINGS_ERROR = """\
output_dir '{folder}' holds a run with other settings:
{differences}
give another output_dir, or the same settings"""


def write_json(path: Path, content: Any) -> None:
    """Writes JSON, indented; NaN and infinity are refused."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Reads a JSON file of a run folder.

    Raises:
        ValueError: It is not JSON; the message names it.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(UNREADABLE_ERROR.format(path=path, error=error)) from error


def package_versions(*more: str) -> dict[str, str | None]:
    """The installed releases of the packages that can move a number, and of more of them."""
    found: dict[str, str | None] = {}
    for package in (*VERSIONED, *more):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from a checkout that is not installed
            found[package] = None
    return found


def open_run(folder: Path, run: dict[str, Any]) -> bool:
    """Starts a run in a new or empty folder, or goes on with the same run in a used one.

    Args:
        folder: The run folder; made if it is not there.
        run: Everything that the results depend on, by section: `{"settings": {…}, "model": {…}, …}`.

    Returns:
        Whether the folder was used by this run before.

    Raises:
        ValueError: The folder holds something else, or a run that differs; the message names what differs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RUN_FILE
    if not path.exists():
        if any(not child.name.startswith(".") for child in folder.iterdir()):
            raise ValueError(NOT_A_RUN_ERROR.format(folder=folder, file=RUN_FILE))
        write_json(path, run)
        return False
    found = read_json(path)
    if not isinstance(found, dict):
        raise ValueError(UNREADABLE_ERROR.format(path=path, error="it is not the record of a run"))
    there, here = _flat(found), _flat(run)
    different = [name for name in {**there, **here} if there.get(name, _ABSENT) != here.get(name, _ABSENT)]
    if different:
        lines = [f"  {name} is {_said(there, name)} there and {_said(here, name)} here" for name in different]
        raise ValueError(OTHER_SETTINGS_ERROR.format(folder=folder, differences="\n".join(lines)))
    return True


def _said(run: dict[str, Any], name: str) -> str:
    return repr(run[name]) if name in run else _ABSENT


def _flat(run: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for section, content in run.items():
        if isinstance(content, dict):
            flat |= {f"{section}.{name}": value for name, value in content.items()}
        else:
            flat[section] = content
    return flat
