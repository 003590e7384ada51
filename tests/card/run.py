"""Is the toolkit right on one card, and as fast as the card allows?

    python -m tests.card.run --minutes 8

Needs no network: models have random weights and the shapes of well-known ones. Prints a line of JSON for each stage
when it ends, the most important first, and at last one with all of them, so a run that is cut off still says something.
A part that fails, does not fit or is out of time is recorded with the reason, and the next one goes on.
"""

import gc
import json
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from traceback import extract_tb

import torch

from tests.card import fast, right
from tests.card.models import Found, OutOfTime, Setting, Skip, build

Parts = dict[str, Callable[[Setting], Found]]  # by name

# The most important first, each with its share of the time. What a stage leaves is for those after it.
STAGES: dict[str, tuple[float, Parts]] = {
    "machine": (2, {"this": fast.machine}),
    "scores": (18, right.SCORES),
    "replies": (12, right.REPLIES),
    "batches": (12, {"1, 512, padded": right.batches, "out of memory": right.halves}),
    "scoring speed": (16, {"v1.0": fast.scoring}),
    "reply speed": (20, {"ours": partial(fast.replying, reply=fast.ours)}),
    "places": (10, {"CPU and card": right.devices}),
    "generate": (12, {"by length": partial(fast.replying, reply=fast.generate)}),
    "classifiers": (6, fast.CLASSIFIERS),
}


def run_stage(setting: Setting, name: str, parts: Parts) -> Found:
    """Runs the parts of a stage until the setting's seconds are over.

    Returns:
        Its name, seconds and status, and what each part found, or `failed`, `skipped` or `cut` with the reason. The
        status is `wrong` if a part is not right, else `failed` or `cut` if one is, `skipped` if all are, or `done`.
    """
    started, found = monotonic(), {}
    before = signal.signal(signal.SIGALRM, _out_of_time)
    signal.setitimer(signal.ITIMER_REAL, max(setting.seconds, 0.001))
    try:
        for part, work in parts.items():
            found[part] = {"cut": f"the stage's {setting.seconds:.0f} s are over"}
            found[part] = _tried(partial(work, setting))
    except OutOfTime:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    status = "skipped" if all("skipped" in result for result in found.values()) else "done"
    for fault in ("cut", "failed"):
        if any(fault in result for result in found.values()):
            status = fault
    if any(result.get("right") is False for result in found.values()):
        status = "wrong"
    return {"stage": name, "status": status, "seconds": monotonic() - started, "found": found}


def _tried(work: Callable[[], Found]) -> Found:
    started = monotonic()
    try:
        found = work()
    except Skip as reason:
        return {"skipped": str(reason)}
    except Exception as error:  # noqa: BLE001 - whatever it is, the next part goes on
        where = extract_tb(error.__traceback__)[-1]
        message = (str(error).splitlines() or [""])[0]
        found = {"failed": f"{type(error).__name__}: {message} ({Path(where.filename).name}:{where.lineno})"}
    if torch.cuda.is_available():
        found |= {"peak_bytes": torch.cuda.max_memory_allocated()}
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    return found | {"part_s": monotonic() - started}


def _out_of_time(*_: object) -> None:
    raise OutOfTime


def run(setting: Setting, stages: dict[str, tuple[float, Parts]]) -> Found:
    """Runs stages within the setting's seconds; prints the result of each as JSON, and returns all."""
    end, results, shares = monotonic() + setting.seconds, [], sum(share for share, _ in stages.values())
    for name, (share, parts) in stages.items():
        mine = replace(setting, seconds=(end - monotonic()) * share / shares)
        shares -= share
        with redirect_stdout(sys.stderr):  # what the product prints is no JSON
            results.append(run_stage(mine, name, parts))
        print(json.dumps(results[-1]), flush=True)
    build.cache_clear()
    return {"stages": results, "statuses": {result["stage"]: result["status"] for result in results}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the stages; returns 1 if a part is wrong or failed."""
    parser = ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=8, help="The time for all stages.")
    parser.add_argument("--embedded", help="The folder of the embedded model, to check it as well.")
    parser.add_argument("--tiny", action="store_true", help="Shrink all models, to try the script on CPU.")
    parser.add_argument("--only", nargs="+", choices=STAGES, default=list(STAGES), help="Run these stages alone.")
    parser.add_argument("--out", type=Path, help="A file for the JSON of all stages.")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available() and not options.tiny:
        parser.error("there is no card; pass --tiny to try the script on CPU")
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    setting = Setting(device=device, tiny=options.tiny, embedded=options.embedded, seconds=60 * options.minutes)
    gc.freeze()  # the libraries hold no garbage, and a search of them takes as long as a part
    result = run(setting, {name: stage for name, stage in STAGES.items() if name in options.only})
    print(json.dumps(result), flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(result) + "\n", encoding="utf-8")
    return int(any(status in ("wrong", "failed") for status in result["statuses"].values()))


if __name__ == "__main__":
    sys.exit(main())
