import pytest

from hb_metrics.models.processes import num_workers, process_state


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


def print_device():
    print(f"device: {process_state().device}.")


def test_one_of_several_processes_has_the_device_of_one_alone(forked_programs):
    # To the device "cpu:0", torch would copy the weights, and products could have other last bits.
    started, log = forked_programs.start(f"{__name__}:print_device", [], [])
    assert forked_programs.wait(started) == [0, 0]
    assert log.read_text().count("device: cpu.") == 2
