import pytest

from hb_metrics.models.processes import num_workers


def test_a_process_takes_its_share_of_the_cores(monkeypatch):
    for name in ("LOCAL_WORLD_SIZE", "OMP_NUM_THREADS", "ACCELERATE_MIXED_PRECISION"):
        monkeypatch.delenv(name, raising=False)
    alone = num_workers()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(alone))
    assert num_workers() == 1
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(10 * alone))
    assert num_workers() == 1


@pytest.mark.parametrize(("threads", "expected"), [("1", 1), ("7", 7), ("3,2", 3)])
@pytest.mark.parametrize("launcher", [None, "LOCAL_WORLD_SIZE", "ACCELERATE_MIXED_PRECISION"])
def test_omp_num_threads_is_honoured(threads, expected, launcher, monkeypatch):
    for name in ("LOCAL_WORLD_SIZE", "ACCELERATE_MIXED_PRECISION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = num_workers()
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    if launcher is not None:
        monkeypatch.setenv(launcher, "1")
    # A 1 that a launcher sets where nobody has asked for it would leave cores idle.
    assert num_workers() == (cores if launcher is not None and threads == "1" else expected)
