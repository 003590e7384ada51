import subprocess
import sys

import numpy as np

from hb_metrics.inference.processes import num_workers
from hb_metrics.inference.scoring.perplexity import score_perplexity

SCRIPT = """
import sys
import numpy as np
from transformers import AutoModelForCausalLM, AutoTokenizer
from hb_metrics.inference.scoring.perplexity import score_perplexity
from hb_metrics.inference.processes import process_state

folder, texts, out = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(folder).eval()
tokenizer = AutoTokenizer.from_pretrained(folder)
lines = open(texts, encoding="utf-8").read().split("\\n")
scores = score_perplexity(lines, model, tokenizer, max_positions=64, progress=False)
assert process_state().num_processes == 2
np.save(f"{out}/{process_state().process_index}.npy", scores.perplexities)
"""


def test_processes_share_the_work_and_all_get_the_same_bits(prompts, get_small_model, save_small_model, tmp_path):
    folder = save_small_model("llama")
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "texts").write_text("\n".join(prompts[:60]), encoding="utf-8")
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone"]
    arguments = [tmp_path / "script.py", folder, tmp_path / "texts", tmp_path]
    subprocess.run([*launch, *map(str, arguments)], check=True, capture_output=True, timeout=300)
    alone = score_perplexity(prompts[:60], *get_small_model("llama"), max_positions=64, progress=False).perplexities
    for process in (0, 1):
        np.testing.assert_array_equal(np.load(tmp_path / f"{process}.npy"), alone)


def test_a_process_takes_its_share_of_the_cores(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    alone = num_workers()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(alone))
    assert num_workers() == 1
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(10 * alone))
    assert num_workers() == 1
