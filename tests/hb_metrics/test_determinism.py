"""The same command gives the same bytes, whatever the machine has to do: every stage, all that is drawn at random.

That is on CPU. Elsewhere the last digits of likelihoods may differ with the device and its libraries, and a reply that
hangs on one of them.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from threadpoolctl import threadpool_limits

from hb_metrics import measure
from hb_metrics.collect.classifiers.styles import load_style_classifier
from hb_metrics.measurements.dialogue import work as dialogue_work
from hb_metrics.measurements.generation import work
from hb_metrics.run.run_folder import BIAS_VALUES_FILE, REPORT_FILE, RESULTS_FILE
from tests.hb_metrics.conftest import write_vocabulary

ROOT = Path(__file__).parents[2]
EVERYTHING = ["--measurements", "likelihood,generation,offensiveness,dialogue", "--variations"]
DECODINGS = {
    "sample": ["--replies_per_cell", 3, "--max_new_tokens", 12],
    "beams": ["--replies_per_cell", 2, "--decoding", "blenderbot2", "--max_new_tokens", 10],
}
WRITTEN = (RESULTS_FILE, REPORT_FILE, BIAS_VALUES_FILE)
OTHERS = [("llama", "beams"), ("bloom", "sample"), ("blenderbot", "beams")]


@pytest.fixture
def inputs(tmp_path):
    nouns = ("kid", "parent", "sibling")  # as many as a cell has replies
    vocabulary = write_vocabulary(tmp_path / "vocabulary", age=("young", "old", "adult"), nouns=nouns)
    return ["--vocabulary_dir", vocabulary, "--personas", 1, *EVERYTHING]


@pytest.fixture(autouse=True)
def as_users_run(monkeypatch):
    """Classifies styles as users' runs do, and scores fewer replies of dialogue."""
    monkeypatch.setattr(work, "load_style_classifier", load_style_classifier)
    monkeypatch.setattr(dialogue_work, "NUM_REPLIES", 60)


def analyse_without_torch(folder):
    """What `analyse` writes in a process that does not import torch."""
    (folder / RESULTS_FILE).write_bytes((folder / RESULTS_FILE).read_bytes().replace(b"  ", b""))
    (folder / REPORT_FILE).unlink()
    program = "import sys; from hb_metrics.command.analyse import main; main(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program, str(folder)], cwd=ROOT, check=True, capture_output=True)
    return {name: (folder / name).read_bytes() for name in WRITTEN}


def run(folder, *options):
    measure.main([*map(str, options), "--output_dir", str(folder)])
    return {name: (folder / name).read_bytes() for name in WRITTEN}


@pytest.mark.parametrize(
    ("name", "decoding"), [("llama", "sample"), *(pytest.param(*other, marks=pytest.mark.long) for other in OTHERS)]
)
def test_neither_threads_nor_a_second_time_change_a_byte(name, decoding, inputs, save_small_model, tmp_path):
    options = ["--model", save_small_model(name), *inputs, *DECODINGS[decoding]]
    expected = run(tmp_path / "first", *options)
    assert json.loads(expected[RESULTS_FILE])["run"]["generation"]["same_in_any_batch"]
    assert analyse_without_torch(tmp_path / "first") == expected
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the processes of torchrun have
    try:
        with threadpool_limits(1):
            assert run(tmp_path / "again", *options) == expected
    finally:
        torch.set_num_threads(threads)


@pytest.mark.long
def test_the_order_in_which_axes_are_named_changes_nothing(inputs, save_small_model, tmp_path):
    options = ["--model", save_small_model("llama"), *inputs, *DECODINGS["sample"]]
    results = []
    for axes in (["age", "ability"], ["ability", "age"]):
        folder = tmp_path / axes[0]
        results.append(json.loads(run(folder, *options, "--axes", *axes)[RESULTS_FILE]))
        assert results[-1]["run"]["settings"].pop("axes") == axes
    assert results[0] == results[1]


@pytest.mark.long
def test_another_seed_is_another_draw(inputs, save_small_model, tmp_path):
    """Or the tests above would say nothing of what is drawn."""
    options = ["--model", save_small_model("llama"), *inputs, *DECODINGS["sample"]]
    first, second = (json.loads(run(tmp_path / seed, *options, "--seed", seed)[RESULTS_FILE]) for seed in ("0", "1"))
    for name in ("prompts_digest", "personas_digest"):
        assert first["run"]["generation"][name] != second["run"]["generation"][name]
    assert first["generation"]["gen_bias"] != second["generation"]["gen_bias"]
    assert first["dialogue"] != second["dialogue"]
    assert first["likelihood"] == second["likelihood"]
