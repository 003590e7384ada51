"""Programs in processes of their own, each started in milliseconds by fork_server.py rather than in seconds."""

import atexit
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def free_port():
    """A port for a server that sets SO_REUSEADDR. The system gives it to nothing else while this process lives."""
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    atexit.register(probe.close)
    return probe.getsockname()[1]


class ForkedPrograms:
    """Starts functions of modules, such as the `main` of a script, in one or several processes; close it at the end."""

    def __init__(self, folder):
        self.folder, self.number = folder, 0
        self.server = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("fork_server.py")],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, target, *arguments, machines=False, imports=()):
        """The process ids and the log of "module:function", in as many processes as there are lists of arguments."""
        self.number += 1
        log = self.folder / f"{self.number}.log"
        asked = {"target": target, "arguments": arguments, "machines": machines, "imports": imports}
        return self._ask({**asked, "port": free_port(), "log": str(log)}), log

    def wait(self, started):
        """The exit codes of the processes, when all have ended."""
        return self._ask(started)

    def run_two(self, module, options, imports=()):
        """What the `main` of a module prints, standard error included, in two processes as `torchrun` starts them."""
        options = list(map(str, options))
        started, log = self.start(f"{module}:main", [options], [options], imports=imports)
        assert self.wait(started) == [0, 0], log.read_text()[-3000:]
        return log.read_text()

    def close(self):
        self.server.stdin.close()
        assert self.server.wait() == 0
        self.server.stdout.close()

    def _ask(self, asked):
        print(json.dumps(asked), file=self.server.stdin, flush=True)
        answer = json.loads(self.server.stdout.readline())
        assert not isinstance(answer, str), answer
        return answer
