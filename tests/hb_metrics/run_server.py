"""Starts runs of measure.py without the seconds that imports take: each in processes forked from this one.

Reads a JSON line for each run, {"options": […], "processes": 2, "port": 29651, "log": PATH}, and answers with the
process ids; reads a JSON list of process ids, and answers with their exit codes once all have ended. Shards are small,
so that there are several at each stage. The processes of a run are one process group, and get their rank as
`torchrun` does. With "writes": 3, the first process to make a third file kills them all before the file has its name;
with "stalled": 1, the process of that rank takes ten minutes to decode a batch. With "machines", each process is
alone on a machine; with "own": [[…], …], each has more options.
"""

import json
import os
import signal
import sys
import time
import traceback

import profanity_check  # noqa: F401
import torch
from transformers.models.bert import modeling_bert  # noqa: F401
from transformers.models.llama import modeling_llama  # noqa: F401

import hb_metrics.inference.scoring.dialogue
import hb_metrics.measurements.generation.work
import hb_metrics.measurements.likelihood.scoring
import hb_metrics.measurements.offensiveness.work
import hb_metrics.report.page  # noqa: F401
from hb_metrics import measure
from hb_metrics.inference import machines as shared_files
from hb_metrics.inference import shards
from hb_metrics.inference.classifiers import classifier
from hb_metrics.inference.replies import decoding_shards
from hb_metrics.inference.replies import prompt_replies as replies
from hb_metrics.inference.scoring import scoring_shards
from hb_metrics.measurements.offensiveness import work as offensiveness_work

scoring_shards.UNITS_PER_SHARD = 2
replies.ROWS_PER_SHARD = 16
classifier.ROWS_PER_SHARD = 16
offensiveness_work.ROWS_PER_SHARD = 64
LONGEST = 300  # seconds; one that hangs is ended, and its exit code tells


def main():
    for line in sys.stdin:
        asked = json.loads(line)
        if isinstance(asked, dict):
            answer = start(**asked)
        else:
            answer = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in asked]
        print(json.dumps(answer), flush=True)


def start(options, processes, port, log, writes=None, stalled=None, machines=False, own=None):
    started = []
    for rank in range(processes):
        process = os.fork()
        if not process:
            signal.alarm(LONGEST)
            become(rank, processes, port, log)
            if machines:
                become_machine(rank)
            if writes is not None:
                kill_at_write(writes)
            if stalled == rank:
                decoding_shards.decode = lambda *_: time.sleep(600)
            os._exit(run([*options, *(own[rank] if own else [])]))
        started.append(process)
        os.setpgid(process, started[0])
    return started


def become(rank, processes, port, log):
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(output, standard)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout.reconfigure(line_buffering=True)
    if processes > 1:
        variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes}
        os.environ |= {name: str(value) for name, value in variables.items()}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
        torch.set_num_threads(1)


def become_machine(rank):
    os.environ |= {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    shared_files.LATEST = 2
    if rank:
        shards.run_digest = None  # its network file system may not show the record of the run yet


def kill_at_write(number, fsync=os.fsync):
    made = []

    def counted(file):
        fsync(file)
        made.append(file)
        if len(made) == number:
            os.killpg(0, signal.SIGKILL)

    os.fsync = counted


def run(options, measured=measure.measure):
    def announced(arguments):
        print("begun")
        measured(arguments)

    measure.measure = announced
    try:
        measure.main(options)
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
