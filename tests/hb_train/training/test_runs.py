"""A training run of two processes leaves nothing behind when it ends; whether its curve shows a gain."""

import weakref

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel
from transformers import Trainer, TrainingArguments

from hb_train.training.runs import end_processes, is_gain


class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(1, 1)

    def forward(self, x, labels):
        return {"loss": ((self.line(x) - labels) ** 2).mean()}


def train(folder):
    """In a process of its own."""
    rows = [{"x": torch.tensor([float(x)]), "labels": torch.tensor([2.0 * x])} for x in range(8)]
    settings = TrainingArguments(folder, max_steps=2, report_to=[], use_cpu=True, save_strategy="no")
    trainer = Trainer(Line(), settings, train_dataset=rows)
    trainer.train()
    wrapper = weakref.ref(trainer.model_wrapped)
    assert isinstance(wrapper(), DistributedDataParallel), wrapper()
    end_processes(trainer)
    assert wrapper() is None
    assert not torch.distributed.is_initialized()
    print("ended")


def test_the_models_wrapper_is_gone_before_processes_end(forked_programs, tmp_path):
    started, log = forked_programs.start(f"{__name__}:train", *[[str(tmp_path / "out")]] * 2)
    assert forked_programs.wait(started) == [0, 0], log.read_text()
    assert log.read_text().count("ended") == 2


@pytest.mark.parametrize(
    ("losses", "gain"),
    [
        ({0: 0.693, 40: 0.782}, False),
        ({0: 0.693, 20: 0.68, 40: 0.782}, True),
        ({0: 0.693, 20: None}, False),
        ({0: None, 20: 3.0}, True),
        ({20: 3.0}, True),
    ],
)
def test_whether_a_later_step_is_better_than_none(losses, gain):
    assert is_gain([{"step": step, "loss": loss} for step, loss in losses.items()], "loss") == gain
