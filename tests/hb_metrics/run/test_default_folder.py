"""The default folder of a run."""

from hb_metrics.command.arguments import settings_of
from hb_metrics.command.planning import default_folder


def test_model_prompts_and_measurements_are_in_the_name():
    options = {"model": "openai-community/gpt2", "dataset_config": "v1.0", "show": 3}
    assert default_folder(settings_of({})) == "runs/embedded-v1.0-small"
    assert default_folder(settings_of(options)) == "runs/openai-community-gpt2-v1.0"
    options["measurements"] = "generation,likelihood"
    assert default_folder(settings_of(options)) == "runs/openai-community-gpt2-v1.0-likelihood-generation"
    assert default_folder(settings_of({"quick": True})) == "runs/embedded-v1.0-small-quick"
    assert default_folder(settings_of({"model": "../../tmp/.."})) == "runs/tmp-..-v1.0-small"


def test_runs_with_other_settings_have_other_folders():
    others = [{}, {"seed": 1}, {"seed": 2}, {"axes": ["age"]}, {"quick": True}, {"system_prompt": "../x\n*"}]
    others.append({"quick": True, "replies_per_cell": 8})
    others.append({"base_url": "http://localhost:1/v1", "model": "embedded/embedded"})
    others += [{"model": f"embedded/{name}/checkpoint-5"} for name in "ab"]
    names = {default_folder(settings_of(other)) for other in others}
    assert len(names) == len(others)
    assert all(name.startswith("runs/embedded-") and name.count("/") == 1 for name in names)
