"""Runs on two machines: two `torchrun`, each with two processes and caches of its own, that share a run folder."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hb_metrics.collect import shards
from hb_metrics.collect.shards import await_files, plan_row_shards, read_shards
from hb_metrics.measure import LOST_PROCESS
from tests.forked_programs import free_port
from tests.hb_metrics.run_files import check_part_of, check_same, identities

ROOT = Path(__file__).parents[2]
SEED = 16
LONGEST = 600  # seconds


def start(number, endpoint, options, out):
    """Starts one of two machines that run the same command; the first has the endpoint where they meet."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "2"]
    command += ["--rdzv_backend", "c10d", "--rdzv_endpoint", endpoint, "--rdzv_id", "run"]
    # Both have this address: without `is_host` either might hold it.
    command += ["--rdzv_conf", f"is_host={int(number == 0)}", "--local_addr", "127.0.0.1"]
    command += ["hb_metrics/measure.py", *options, str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HOME": str(out.with_name(f"cache{number}"))}
    with out.with_name(f"machine{number}.log").open("ab") as log:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)


@pytest.fixture(scope="module")
def options(saved_llama):
    settings = ["--axes", "age", "--replies_per_cell", 1, "--max_new_tokens", 12]
    return ["--model", str(saved_llama), *map(str, settings), "--output_dir"]


@pytest.fixture(scope="module")
def whole(options, tmp_path_factory):
    """A run of one process."""
    folder = tmp_path_factory.mktemp("one") / "run"
    command = [sys.executable, "-m", "hb_metrics.measure", *options, str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=LONGEST)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("dying", [0, 1])
def test_after_a_machine_has_died_the_same_commands_end_in_the_same_bytes(dying, options, whole, tmp_path):
    out, endpoint = tmp_path / "run", f"127.0.0.1:{free_port()}"
    agents = start(0, endpoint, options, out), start(1, endpoint, options, out)
    kill_at_work(agents[dying], out)
    assert agents[1 - dying].wait(LONGEST) != 0
    assert f"measure.py: {LOST_PROCESS}\n" in (tmp_path / f"machine{1 - dying}.log").read_text()
    check_part_of(whole, out)
    there = identities(out)
    assert 0 < len(there) < len(identities(whole))
    agents = start(0, endpoint, options, out), start(1, endpoint, options, out)
    assert (agents[0].wait(LONGEST), agents[1].wait(LONGEST)) == (0, 0)
    check_same(whole, out, there)


def test_a_shard_that_shows_late_is_awaited(tmp_path):
    """As on a network file system, where this machine keeps for a while what it knows of a folder."""
    schema = pa.schema({"id": pa.string()})
    shards = plan_row_shards(4, 2, tmp_path / "replies")
    late = (
        "import sys, time, pathlib; time.sleep(0.5); folder = pathlib.Path(sys.argv[1]); "
        "folder.rename(folder.with_name('replies'))"
    )
    written = tmp_path / "written"
    written.mkdir()
    for shard, rows in zip(shards, (["a", "b"], ["c", "d"]), strict=True):
        pq.write_table(pa.table({"id": rows}, schema=schema), written / shard.path.name)
    with subprocess.Popen([sys.executable, "-c", late, str(written)]):
        assert read_shards(shards, schema)["id"].to_pylist() == ["a", "b", "c", "d"]


def test_a_shard_that_never_shows_ends_the_run_with_what_to_look_at(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "LATEST", 0.5)
    monkeypatch.setattr(shards.socket, "gethostname", lambda: "node2")
    (shard,) = plan_row_shards(2, 2, tmp_path / "replies")
    assert await_files([tmp_path]) is None
    with pytest.raises(FileNotFoundError) as error:
        read_shards([shard], pa.schema({"id": pa.string()}))
    assert all(part in str(error.value) for part in (str(shard.path), "node2", "0.5 s", "share"))


def kill_at_work(agent, out):
    """Kills a machine's `torchrun` with its processes, at a random moment after the first shard is there."""
    deadline = time.monotonic() + LONGEST
    while not list(out.glob("*/[!.]*.parquet")):
        assert agent.poll() is None, "the run ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(random.Random(SEED).random() / 2)
    everyone = psutil.Process(agent.pid)
    for process in [*everyone.children(recursive=True), everyone]:
        process.kill()
    agent.wait()
