"""Checks that all processes of a run have the same settings and see the same folder.

The processes may run on several machines. On a network file system, it may take a minute until a machine sees another
machine's file, because each machine caches the contents of folders. (The NFS option `acdirmax` sets the maximum
duration.)
"""

import secrets
import socket
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from accelerate.utils import gather_object

from hb_metrics.models.processes import of_main_process, process_state
from hb_metrics.run.run_folder import run_differences

LATEST = 90  # the maximum number of seconds to wait for a file from another machine
_SECONDS_BETWEEN_CHECKS = 0.2


def check_same_run(run: Mapping[str, object]) -> None:
    """Raises `ValueError` if the settings in `run` differ between processes. Call it on all processes."""
    (main_host, main_run), *others = gather_object([(socket.gethostname(), dict(run))])
    for host, other in others:
        if different := run_differences(main_run, other, f"on {main_host}", f"on {host}"):
            raise ValueError(
                "the processes of this run have different settings or files:\n" + "\n".join(different) + "\nrun the "
                "same command on all machines, with the same releases of all packages and the same files"
            )


def check_same_folder(folder: Path) -> None:
    """Raises `ValueError` if a process does not see the main process's folder. Call it on all processes."""
    state = process_state()
    if state.num_processes == 1:
        return
    mark = folder / f".machines.{secrets.token_hex(8)}.tmp"  # if the run is killed here, the next run removes the file
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
    """Waits until this machine sees all files, which this or another machine has already written.

    Returns `None` or, after `LATEST` seconds, one of the files that are still not visible.
    """
    deadline = time.monotonic() + LATEST
    awaited = list(paths)
    while awaited := [path for path in awaited if not path.exists()]:
        if time.monotonic() > deadline:
            return awaited[0]
        time.sleep(_SECONDS_BETWEEN_CHECKS)
        for folder in {path.parent for path in awaited}:
            _refresh(folder)
    return None


def late_error(path: Path) -> OSError:
    return FileNotFoundError(
        f"'{path}', which a process of this run wrote, is not visible on {socket.gethostname()} after {LATEST} "
        "seconds; set --output_dir to a folder that all machines share. Finished work is kept; to resume, run the same "
        "command again"
    )


def _refresh(folder: Path) -> None:
    """Lists a folder, so that an NFS client asks the server for its content. `Path.exists` uses the client's cache."""
    try:
        list(folder.iterdir())
    except OSError:  # the folder itself may not be visible yet
        if folder != folder.parent:
            _refresh(folder.parent)
