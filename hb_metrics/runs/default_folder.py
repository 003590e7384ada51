import hashlib
import json
import re
from pathlib import Path

from hb_metrics.arguments import asked_measurements
from hb_metrics.measurements.settings import CHANGE_NOTHING, Settings

_NAMED = {"model", "dataset_config", "measurements", "quick"}


def default_folder(settings: Settings) -> str:
    """Returns a folder in `runs/` for a run without `--output_dir`.

    Its name contains the most important settings and a digest of all other settings, so different settings never share
    a folder.
    """
    run, defaults = settings.run, settings.defaults()
    parts = [Path(run.model).name, run.dataset_config]
    parts += [measurement.name for measurement in asked_measurements(settings) or []]
    parts += ["quick"] * run.quick
    # A server's address is not part of the name, because it may change.
    others: dict[str, object] = {"served": True} if run.base_url is not None else {}
    for name, value in settings.values().items():
        if name not in _NAMED | CHANGE_NOTHING and value != defaults[name]:
            others[name] = value
    if others:
        parts.append(hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()[:8])
    return "runs/" + re.sub(r"[^\w.=+-]+", "-", "-".join(parts)).strip("-.")
