"""Checks that a run's processes on several machines share the run's record and folder.

On a network file system, files from other machines become visible late, because clients cache the content of a folder
for up to a minute (in NFS, `acdirmax`).
"""

import secrets
import socket
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from accelerate.utils import gather_object

from hb_metrics.inference.processes import of_main_process, process_state
from hb_metrics.runs.run_folder import run_differences

LATEST = 90  # seconds to wait for a file from another machine
_BETWEEN_LOOKS = 0.2  # seconds


def check_same_run(run: Mapping[str, Any]) -> None:
    """Raises `ValueError` on all processes if their descriptions of the run differ. All processes must call it."""
    (main_host, main_run), *others = gather_object([(socket.gethostname(), dict(run))])
    for host, other in others:
        if different := run_differences(main_run, other, f"on {main_host}", f"on {host}"):
            raise ValueError(
                "the processes of this run have different settings or files:\n" + "\n".join(different) + "\nrun the "
                "same command on all machines, with the same releases of all packages and the same files"
            )


def check_same_folder(folder: Path) -> None:
    """Raises `ValueError` on all processes if one of them does not see the run's folder. All processes must call it."""
    state = process_state()
    if state.num_processes == 1:
        return
    mark = folder / f".machines.{secrets.token_hex(8)}.tmp"  # like all temporary files, it is removed after a kill
    if state.is_main_process:
        mark.touch()
    name = of_main_process(mark.name)
    seen = gather_object([(socket.gethostname(), await_files([folder / name]) is None)])
    if state.is_main_process:
        mark.unlink(missing_ok=True)
    main_host, _ = seen[0]
    for host, sees in seen:
        if not sees:
            raise ValueError(
                f"output_dir '{folder}' on {host} is not the same folder as on {main_host}, where the main process "
                "runs; pass the full path of a folder that all machines share"
            )


def await_files(paths: Collection[Path]) -> Path | None:
    """Waits until this machine sees files that were written, here or elsewhere, before this call.

    Returns a file that still does not exist after `LATEST` seconds, or `None`.
    """
    deadline = time.monotonic() + LATEST
    awaited = list(paths)
    while awaited := [path for path in awaited if not path.exists()]:
        if time.monotonic() > deadline:
            return awaited[0]
        time.sleep(_BETWEEN_LOOKS)
        for folder in {path.parent for path in awaited}:
            _look_anew(folder)
    return None


def late_error(path: Path) -> OSError:
    return FileNotFoundError(
        f"{socket.gethostname()} does not see '{path}', which a process of this run wrote, after {LATEST} s; pass an "
        "output_dir that all machines share. Finished work is kept; to resume, run the same command again"
    )


def _look_anew(folder: Path) -> None:
    """Opens a folder, which makes an NFS client query the server. Looking up a name in the folder does not."""
    try:
        list(folder.iterdir())
    except OSError:  # the folder itself may not be visible yet
        if folder != folder.parent:
            _look_anew(folder.parent)
