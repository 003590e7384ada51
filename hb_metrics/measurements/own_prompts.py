"""Reads the prompts of `--prompts` once."""

from functools import lru_cache
from pathlib import Path

from hb_dataset.own_prompts import OwnPrompt, read_own_prompts
from hb_metrics.measurements.settings import Settings


def own_prompts(settings: Settings) -> list[OwnPrompt]:
    run = settings.run
    assert run.prompts is not None
    path = Path(run.prompts)
    state = (path.stat().st_mtime_ns, path.stat().st_size) if path.is_file() else None
    return _read(run.prompts, tuple(run.replace or ()), state)


@lru_cache(maxsize=1)
def _read(source: str, replaced: tuple[str, ...], state: tuple[int, int] | None) -> list[OwnPrompt]:
    """Caches the prompts, so that replacements are printed once. `state` changes when the file changes."""
    return read_own_prompts(source, replaced)
