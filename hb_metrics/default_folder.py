"""The folder of a run that names none: its name says what was measured."""

import hashlib
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from hb_metrics.arguments import MeasureArguments

RUNS = "runs"
LONGEST_NAME = 120  # file systems take 255 bytes
_HAVE_OTHER_PROMPTS = {"dialogue", "reddit", "regard"}
_SAID = {"model", "dataset_config", "measurements"}  # in the name in any case
_CHANGE_NOTHING = {"output_dir", "batch_size"}


def default_folder(arguments: MeasureArguments) -> str:
    """`runs/<model>-<dataset_config>`, the measurements if asked for, and every other setting that is not the default.

    So that two commands that measure different things do not meet in one folder, of which the second is refused.
    """
    defaults = {each.name: each.default for each in fields(arguments)}
    asked = arguments.asked_measurements() or ()
    parts = [Path(arguments.model).name]
    if arguments.dataset_config != defaults["dataset_config"] or not asked or not _HAVE_OTHER_PROMPTS.issuperset(asked):
        parts.append(arguments.dataset_config)
    parts += asked
    for name, default in defaults.items():
        value = getattr(arguments, name)
        if name not in _SAID | _CHANGE_NOTHING and value != default:
            kind, _, rest = name.partition("_")
            parts += _words(rest if kind in asked else name, value)
    folder = re.sub(r"[^\w.=+-]+", "-", "-".join(parts)).strip("-.") or "run"
    if len(folder) > LONGEST_NAME:
        digest = hashlib.sha256(folder.encode()).hexdigest()[:8]
        folder = f"{folder[:LONGEST_NAME]}-{digest}"
    return f"{RUNS}/{folder}"


def _words(name: str, value: Any) -> list[str]:
    if value is True or value is False:
        return [name if value else f"no_{name}"]
    values = value if isinstance(value, list) else [value]
    return [name, *(Path(str(each)).name or str(each) for each in values)]  # of a path or Hub id the last part
