"""A training run of two processes leaves nothing behind when it ends."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
TWO_PROCESSES = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone"]
TRAIN = """
import sys
import weakref

import torch
from torch.nn.parallel import DistributedDataParallel
from transformers import Trainer, TrainingArguments

from hb_train.training.runs import end_processes


class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(1, 1)

    def forward(self, x, labels):
        return {"loss": ((self.line(x) - labels) ** 2).mean()}


rows = [{"x": torch.tensor([float(x)]), "labels": torch.tensor([2.0 * x])} for x in range(8)]
settings = TrainingArguments(sys.argv[1], max_steps=2, report_to=[], use_cpu=True, save_strategy="no")
trainer = Trainer(Line(), settings, train_dataset=rows)
trainer.train()
wrapper = weakref.ref(trainer.model_wrapped)
assert isinstance(wrapper(), DistributedDataParallel), wrapper()
end_processes(trainer)
assert wrapper() is None
assert not torch.distributed.is_initialized()
print("ended")
"""


def test_the_wrapper_of_the_model_is_gone_before_the_processes_part(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    completed = subprocess.run(
        [*TWO_PROCESSES, script, tmp_path / "out"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.count("ended") == 2
