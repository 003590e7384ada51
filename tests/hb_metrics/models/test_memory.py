import warnings
from functools import partial

import psutil
import pytest
import torch

from hb_metrics.models.memory import free_memory, run_batch


def test_batches_that_do_not_fit_run_in_halves_which_is_said_once():
    def work(part):
        if len(part) > 2:
            raise MemoryError("Unable to allocate 4.00 GiB for an array")
        return part

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        runs = [run_batch(work, list(range(7))) for _ in range(3)]
    assert runs == [[[0], [1, 2], [3, 4], [5, 6]]] * 3
    assert len(shown) == 1


def test_memory_that_one_row_exceeds_is_reported_even_if_python_says_nothing():
    full = torch.OutOfMemoryError("CUDA is full\nMore")
    for error, words in ((MemoryError(), r"MemoryError\(\)"), (full, "CUDA is full")):
        with pytest.raises(MemoryError, match=rf"memory runs out even for one text alone \({words}\); use a machine"):
            run_batch(partial(fail, error), [1])


def fail(error, _):
    raise error


def limit(folder, most, used=0, droppable=0):
    folder.mkdir(parents=True)
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {droppable}\nactive_file 3\n")


def test_free_memory_is_within_every_enclosing_limit(tmp_path, monkeypatch):
    memory = psutil.virtual_memory()._replace(available=5_000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    groups, own = tmp_path / "groups", tmp_path / "own"
    limit(groups / "job", 1_000, 400, 100)
    limit(groups / "job" / "step", "max", 400)
    limit(groups / "large", 9_000)
    limit(groups / "full", 10, 30)
    for group, free in (("job/step", 700), ("job", 700), ("large", 5_000), ("full", 0), ("", 5_000)):
        own.write_text(f"1:name=systemd:/other\n0::/{group}\n")
        assert free_memory(groups, own) == free
    assert free_memory(groups, tmp_path / "none") == 5_000  # not Linux
