import numpy as np
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from hb_metrics.inference.processes import num_workers, process_state
from hb_metrics.inference.scoring.perplexity import score_perplexity


def score_as_one_of_two(folder, texts):
    """In a process of its own."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    scores = score_perplexity(texts, model, tokenizer, max_positions=64, progress=False)
    assert process_state().num_processes == 2
    np.save(f"{folder}/{process_state().process_index}.npy", scores.perplexities)


def test_processes_share_the_work_and_all_get_the_same_bits(
    prompts, get_small_model, save_small_model, forked_programs
):
    folder, texts = save_small_model("llama"), prompts[:60]
    arguments = [str(folder), texts]
    started, log = forked_programs.start(f"{__name__}:{score_as_one_of_two.__name__}", arguments, arguments)
    assert forked_programs.wait(started) == [0, 0], log.read_text()
    alone = score_perplexity(texts, *get_small_model("llama"), max_positions=64, progress=False).perplexities
    for process in (0, 1):
        np.testing.assert_array_equal(np.load(folder / f"{process}.npy"), alone)


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
