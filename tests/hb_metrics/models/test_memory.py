import psutil

from hb_metrics.models.memory import free_memory


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
