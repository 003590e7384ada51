"""Starts programs without the seconds that imports take: each in processes forked from this one.

Reads a JSON line for each program, {"target": "hb_metrics.measure:main", "arguments": [[…], […]], "port": 29651, "log":
PATH, "machines": false, "imports": [MODULE, …]}, and answers with the process ids, or why there are none; reads a JSON
list of process ids, and answers with their exit codes once all have ended. `arguments` has those of each process, as
many as there are processes; they are one process group, and get their rank as `torchrun` does. With "machines", each is
alone on a machine. What "imports" names, the module of the target, and what most programs import late is imported here,
before the first processes need it: each would do so anew, which takes seconds. Nor does each search for garbage in it.
"""

import gc
import importlib
import json
import os
import signal
import sys
import traceback

import torch

LONGEST = 600  # seconds; one that hangs is ended, and its exit code tells
LATE = (
    "datasets.packaged_modules",
    "hb_metrics.collect.classifiers.exemplars",
    "hb_metrics.collect.classifiers.regard",
    "hb_metrics.collect.engines.local",
    "hb_metrics.collect.shards",
    "hb_metrics.collect.scoring.perplexity",
    "hb_metrics.report.page",
    "scipy.stats",
    "transformers.models.auto.modeling_auto",
    "transformers.models.bert.modeling_bert",
    "transformers.models.gpt2.modeling_gpt2",
    "transformers.models.llama.modeling_llama",
)


def main():
    for line in sys.stdin:
        asked = json.loads(line)
        if isinstance(asked, dict):
            try:
                answer = start(**asked)
            except Exception:  # noqa: BLE001 - the module does not load; the next program's may
                answer = traceback.format_exc()
        else:
            answer = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in asked]
        print(json.dumps(answer), flush=True)


def start(target, arguments, port, log, machines, imports):
    module, _, name = target.partition(":")
    for needed in [*LATE, *imports, module]:
        importlib.import_module(needed)
    gc.collect()
    gc.freeze()
    function = getattr(sys.modules[module], name)
    started = []
    for rank, given in enumerate(arguments):
        process = os.fork()
        if not process:
            signal.alarm(LONGEST)
            become(rank, len(arguments), port, log, machines)
            os._exit(exit_code(function, given))
        started.append(process)
        os.setpgid(process, started[0])
    return started


def become(rank, processes, port, log, machines):
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(output, standard)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout.reconfigure(line_buffering=True)
    if processes > 1:
        local = {"LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}
        if not machines:
            local = {"LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": processes}
        variables = {"RANK": rank, "WORLD_SIZE": processes, **local, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        os.environ |= {name: str(value) for name, value in variables.items()}
        os.environ["OMP_NUM_THREADS"] = "1"
        torch.set_num_threads(1)


def exit_code(function, arguments):
    try:
        function(*arguments)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BaseException:  # noqa: BLE001 - as any program ends
        traceback.print_exc()
        return 1
    else:
        return 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    main()
