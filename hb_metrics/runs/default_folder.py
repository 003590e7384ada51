"""The default folder of a run, named after what is measured."""

import hashlib
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hb_metrics.arguments import asked_measurements
from hb_metrics.measurements.settings import CHANGE_NOTHING, Settings, quick_values

RUNS = "runs"
LONGEST_NAME = 120  # file systems take 255 bytes
_ALWAYS_NAMED = {"model", "dataset_config", "measurements"}


def default_folder(settings: Settings) -> str:
    """`runs/<model>-<dataset_config>`, the measurements if asked for, and every other setting that is not the default.

    Two commands that measure different things get different folders; in the same folder the second would be refused.
    """
    defaults, asked = settings.defaults(), asked_measurements(settings) or []
    if settings.run.quick:
        defaults |= quick_values(map(type, settings.parts))
    config = settings.run.dataset_config
    own_prompts = bool(asked) and all(measurement.has_own_prompts for measurement in asked)
    parts = [Path(settings.run.model).name]
    if config != defaults["dataset_config"] or not own_prompts:
        parts.append(config)
    names = [measurement.name for measurement in asked]
    parts += names
    if settings.run.base_url is not None:
        parts.append("served")  # wherever: a run may go on at another address
    for name, value in settings.values().items():
        if name not in _ALWAYS_NAMED | CHANGE_NOTHING and value != defaults[name]:
            measurement, _, rest = name.partition("_")
            parts += _words(rest if measurement in names else name, value)
    folder = re.sub(r"[^\w.=+-]+", "-", "-".join(parts)).strip("-.") or "run"
    if len(folder) > LONGEST_NAME:
        digest = hashlib.sha256(folder.encode()).hexdigest()[:8]
        folder = f"{folder[:LONGEST_NAME]}-{digest}"
    return f"{RUNS}/{folder}"


def _words(name: str, value: Any) -> list[str]:
    if value is True or value is False:
        return [name if value else f"no_{name}"]
    values = value if isinstance(value, list) else [value]
    return [name, *(_word(str(part)) for part in values)]


def _word(value: str) -> str:
    """Of an address the host, of a path or Hub id the last part."""
    return urlsplit(value).netloc if "://" in value else Path(value).name or value
