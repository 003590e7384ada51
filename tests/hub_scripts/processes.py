"""Python in new processes, as users run it."""

import os
import subprocess
import sys


def run_python(*arguments, folder, **environment):
    """Runs Python in a folder, with a Hugging Face home in it and none of this process's settings for the Hub.

    Returns what it printed.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    folder.mkdir(exist_ok=True)
    # Without torch, which `datasets` would import for streams.
    ours = {"HF_HOME": str(folder / "home"), "USE_TORCH": "0", **environment}
    run = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**inherited, **ours},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout
