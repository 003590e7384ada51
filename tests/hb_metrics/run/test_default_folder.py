"""The default folder of a run."""

import re

from hb_metrics.command.arguments import settings_of
from hb_metrics.command.planning import default_folder


def test_model_prompts_and_measurements_are_in_the_name():
    options = {"model": "gpt2", "dataset_config": "v1.0", "show": 3}
    assert default_folder(settings_of({})) == "runs/embedded-v1.0-small"
    assert default_folder(settings_of(options)) == "runs/gpt2-v1.0"
    options["measurements"] = "generation,likelihood"
    assert default_folder(settings_of(options)) == "runs/gpt2-v1.0-likelihood-generation"
    assert default_folder(settings_of({"quick": True})) == "runs/embedded-v1.0-small-quick"
    assert re.fullmatch("runs/gpt2-v1.0-small-[0-9a-f]{8}", default_folder(settings_of({"model": "openai/gpt2"})))
    assert default_folder(settings_of({"model": "../../tmp/.."})).count("/") == 1


def test_runs_with_other_settings_have_other_folders():
    others = [{}, {"seed": 1}, {"seed": 2}, {"axes": ["age"]}, {"quick": True}, {"system_prompt": "../x\n*"}]
    others.append({"quick": True, "replies_per_cell": 8})
    others.append({"base_url": "http://localhost:1/v1", "model": "embedded/embedded"})
    models = ("embedded/a", "embedded-a", "b/embedded", "./embedded", "c/" * 200 + "embedded")
    others += [{"model": model} for model in models]
    names = {default_folder(settings_of(other)) for other in others}
    assert len(names) == len(others)
    assert all(len(name) < 100 and name.count("/") == 1 for name in names)
