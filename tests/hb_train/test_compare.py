"""Comparisons of mitigations: all steps on a tiny model, and which steps there are."""

import copy
import json
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from shutil import copytree

import pytest

from hb_metrics.measurements.awareness import work as awareness_work
from hb_metrics.measurements.dialogue import work as dialogue_work
from hb_metrics.models import sources
from hb_metrics.models.contexts import detect_context
from hb_metrics.models.layout import BiasTuning
from hb_metrics.models.loading import load_model
from hb_train import compare, side_effects
from hb_train.debias import main as debias
from hb_train.tune import main as tune
from tests.hb_metrics.conftest import small_model, with_chat
from tests.hb_metrics.report.conftest import write_files
from tests.hb_train.conftest import PITIED_AXIS, WARNINGS_OF_TRL
from tests.hub_scripts.conftest import hub, in_process, maintainer  # noqa: F401 - fixtures

pytestmark = WARNINGS_OF_TRL
RECIPE = """
gradient_checkpointing: false
bf16: false
disable_tqdm: true
learning_rate: 1.0e-3
max_steps: 2
eval_steps: 2
save_steps: 2
per_device_train_batch_size: 4
"""
SHORT = f"--context plain --axes {PITIED_AXIS} --replies_per_cell 2 --max_new_tokens 12 --dtype float32"


@pytest.fixture
def steps(monkeypatch):
    """Runs each step in this process, because starting Python takes longer; one step of a module is interrupted."""
    interrupted_at = {}

    def run_step(module, *words):
        if module == interrupted_at.get("module"):
            del interrupted_at["module"]
            raise KeyboardInterrupt
        import_module(module).main(list(map(str, words)))

    monkeypatch.setattr(compare, "run_step", run_step)
    monkeypatch.setattr(dialogue_work, "NUM_REPLIES", 10)
    monkeypatch.setattr(awareness_work, "NUM_PROMPTS", 5)
    monkeypatch.setattr(side_effects, "MAX_TOKENS", 8)
    monkeypatch.setattr(side_effects, "NUM_PROMPTS", 30)
    return interrupted_at


def test_a_tiny_model_is_tuned_and_measured_in_each_way(pitying_model, steps, tmp_path, capsys):
    (tmp_path / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    folder = tmp_path / "tune"
    options = [
        *("--compare", "--model", str(pitying_model), "--recipe", str(tmp_path / "recipe.yaml")),
        *("--method", "counterfactual", "sft", "--output_dir", str(folder)),
        f"--measure_args={SHORT}",
        f"--labelled_args={SHORT}",
        "--replies_args=--num_replies 8 --num_anchors 4 --max_new_tokens 6 --context plain --dtype float32",
        *("--no_worse_than", "refusals=0pt"),
    ]
    steps["module"] = "hb_train.tune"
    with pytest.raises(SystemExit, match="interrupted; to resume, run the same command again"):
        tune(options)
    before = (folder / "before" / "run.json").stat().st_mtime_ns
    with pytest.raises(SystemExit) as ended:
        tune(options)
    assert ended.value.code == 3
    assert (folder / "before" / "run.json").stat().st_mtime_ns == before
    finished = {path.parent.name for path in folder.glob("*/results.json")}
    assert finished == {"before", "labelled", "counterfactual", "sft", "sft_without_tag"}
    for name in finished:
        results = json.loads((folder / name / "results.json").read_text(encoding="utf-8"))
        assert results["run"]["settings"]["seed"] == (1 if name == "labelled" else 0)
    page, shown = (folder / "comparison.html").read_text(encoding="utf-8"), capsys.readouterr().out
    assert all("Refusals of sft may be more than 0pt worse" in text for text in (page, shown))
    rows = "Full Gen Bias", "Uptake", "Entropy of replies", "Needs taken up", "Neutral drift"
    for row in (*rows, "From before to counterfactual: "):
        assert row in page
        assert row in shown
        for method in ("counterfactual", "sft"):
            assert row in (folder / f"{method}-model" / "README.md").read_text(encoding="utf-8")
    # The page warns of the tag in red, and shows the same model without it.
    assert page.count('class="note alarm"') == 1
    assert "sft was measured with the control tag" in page
    assert "From before to sft without tag: " in shown
    for method in ("counterfactual", "sft"):
        effects = json.loads((folder / method / "side_effects.json").read_text(encoding="utf-8"))
        assert effects["drift"]["value"] > 0
        assert effects["drift"]["num_prompts"] + effects["drift"]["num_empty_replies"] == 57
        assert effects["entropy"]["first"] != effects["entropy"]["second"]


class Noted(list):
    """Steps that only note their names and words."""

    def __call__(self, module, *words):
        self.append((module.rpartition(".")[2], list(map(str, words))))
        file = Path(*module.split(".")).with_suffix(".py")
        assert 'if __name__ == "__main__":\n    main()' in file.read_text(encoding="utf-8")  # the step does something

    def values(self, module, option):
        """The values of an option of a module's steps; `None`: a step does not have it."""
        words = [words for name, words in self if name == module]
        return [step[step.index(option) + 1] if option in step else None for step in words]


@pytest.fixture
def noted(monkeypatch, tmp_path):
    """Steps that are noted, with a small chat model as the embedded model, whose conversion takes half a minute."""
    steps, folder = Noted(), tmp_path / "embedded"
    model, tokenizer = small_model("llama", num_hidden_layers=30)  # the recipe names layers
    model.save_pretrained(folder)
    with_chat(copy.deepcopy(tokenizer)).save_pretrained(folder)
    monkeypatch.setattr(sources, "embedded_model_folder", lambda: folder)
    monkeypatch.setattr(compare, "run_step", steps)
    monkeypatch.setattr(compare, "write_model_card", lambda folder, **_: steps.append(("card", str(folder))))
    monkeypatch.setattr(compare, "publish_model", lambda *words, **more: steps.append(("published", (words, more))))
    return steps


def test_the_tuned_model_is_detailed_beside_the_one_before(noted, tmp_path):
    options = ["--method", "counterfactual", "sft", "--system_prompt", "Be brief.", "--mixture", "3"]
    options += ["--trust_remote_code", "true"]
    tune(["--compare", "--output_dir", str(tmp_path), *options])
    assert noted.values("tune", "--method") == ["counterfactual", "sft"]
    name, words = noted[-1]
    names = ["before", "counterfactual", "sft", "sft without tag", "system prompt"]
    runs = [str(tmp_path / name.replace(" ", "_")) for name in names]
    ended = [words for name, words in noted if name == "side_effects"]
    assert sorted(ended) == sorted([runs[0], run] for run in runs[1:])
    assert ("mixture", [runs[0], str(tmp_path / "mixture"), "--num_contexts", "3"]) in noted
    runs.append(str(tmp_path / "mixture" / "run"))
    assert (name, words[:6], words[7:13]) == ("report", runs, [*names, "mixture of 3"])
    assert noted.values("measure", "--tag") == [None, None, None, None, "none", None]
    loading = ("measure", "own_replies", "bias_labels", "tune")
    assert {value for name in loading for value in noted.values(name, "--trust_remote_code")} == {"True"}


@pytest.mark.parametrize(
    ("words", "tags"),
    [
        ("--tune_args=--report_to none", [None, None, "none"]),
        ("--tune_args=--labels=none", [None, None]),
        ("--recipe=labels.yaml", [None, None]),
    ],
)
def test_only_a_model_with_a_tag_is_measured_without_it(words, tags, noted, save_small_model, tmp_path):
    (tmp_path / "labels.yaml").write_text("labels: none\n", encoding="utf-8")
    options = ["--method", "sft", words.replace("labels.yaml", str(tmp_path / "labels.yaml"))]
    options += ["--output_dir", str(tmp_path / "runs")]
    tune(["--compare", "--model", str(save_small_model("gpt2")), *options])
    labelled, *measured = sorted(noted.values("measure", "--tag"), key=str, reverse=True)
    assert sorted([labelled, *measured], key=str) == sorted([None, *tags], key=str)


def test_margins_are_checked_before_anything_is_generated(noted, save_small_model, tmp_path):
    write_files(tmp_path / "before", 0)
    options = ["--compare", "--model", str(save_small_model("gpt2")), "--output_dir", str(tmp_path), "--no_worse_than"]
    refused = {
        "refusals": ("as figure=margin", []),
        "offensive_reply=1pt": ("did you mean 'offensive_replies'", []),
        "refusals=1": ("but the figure is a share; write, for example, refusals=1pt", []),
        "likelihood_bias=1pt": ("which the runs do not have", []),
        "needs_taken_up=1pt": ("is missing from before", ["measure"]),  # the made run lacks this measurement
    }
    for margin, (message, steps) in refused.items():
        with pytest.raises(SystemExit, match=message):
            tune([*options, margin])
        assert [name for name, _ in noted] == steps


def test_what_is_measured_is_not_learnt_unless_all_is(noted, save_small_model, tmp_path):
    tune(["--compare", "--output_dir", str(tmp_path / "small")])
    whole = ["--output_dir", str(tmp_path / "whole"), "--dataset_config", "v1.0"]
    tune(["--compare", *whole, "--model", str(save_small_model("gpt2"))])
    assert noted.values("own_replies", "--dataset_config") == ["v1.0", "v1.0"]
    assert noted.values("own_replies", "--leave_out") == ["v1.0-small", None]
    assert [Path(path).stem for path in noted.values("tune", "--config")] == ["embedded", "chat-lora"]
    # Only the chat model is asked for decisions.
    assert ["decisions" in words for words in noted.values("measure", "--measurements")] == [True, True, False, False]


def test_each_method_is_debiased_and_its_costs_measured(noted, monkeypatch):
    written = []
    monkeypatch.setattr(compare, "write_debias_table", lambda *of: written.append(of))
    words = ["--debias_args=--lambda_d 50", "--crg_args=--num_pairs 300"]
    debias(["--compare", "--model", "embedded", "--methods", "lmd", "cda", *words])
    folder = Path("runs/debias/embedded-religion1")
    runs = [str(folder / run / "bias") for run in ("before", "lmd", "cda")]
    assert noted.values("measure", "--output_dir") == runs
    assert written == [(folder, ("before", "lmd", "cda"))]
    models = ["embedded", str(folder / "lmd" / "embedded-lmd"), str(folder / "cda" / "embedded-cda")]
    assert noted.values("measure", "--model") == models
    assert noted.values("response_generation", "--model_name_or_path") == models
    assert noted.values("dialog_state_tracking", "--model_name_or_path") == []  # no dialogues were set
    assert noted.values("debias", "--lambda_d") == ["50", "50"]


def test_a_debiased_model_reads_prompts_as_the_model_before(noted, monkeypatch, save_small_model, tmp_path):
    monkeypatch.setattr(compare, "write_debias_table", lambda *of: None)
    before = copytree(save_small_model("gpt2"), tmp_path / "DialoGPT-small-joker")
    debias(["--compare", "--model", str(before), "--methods", "lmd", "--output_dir", str(tmp_path / "runs")])
    _, after = noted.values("measure", "--model")
    copytree(before, after)
    loaded = [load_model(str(folder)) for folder in (before, after)]
    assert [detect_context(model.model, model.tokenizer)[0] for model in loaded] == ["dialogpt", "dialogpt"]


@pytest.mark.parametrize(
    ("script", "family", "options", "message"),
    [
        (debias, "t5", [], "is encoder-decoder; pass a model that is causal"),
        (tune, "gpt2", ["--tune_args=--lora_target_modules q_proj"], "omit --lora_target_modules"),
        (tune, "gpt2", ["--tune_args=--packing true"], "hb_train.tune: --packing is not an option"),
        (tune, "gpt2", ["--measure_args=--sample 0"], "hb_metrics.measure: sample is 0"),
        (tune, "gpt2", ["--replies_args=--num_replies 1"], "hb_train.own_replies: num_replies is 1"),
        (tune, "gpt2", ["--method", "sft", "--labelled_args=--seed -1"], "hb_metrics.measure: seed is -1"),
        (tune, "gpt2", ["--method", "sft", "--label_args=--seed -1"], "hb_train.bias_labels: seed is -1"),
        (debias, "gpt2", ["--debias_args=--lambda_d -1"], "hb_train.debias: lambda_d is -1"),
        (debias, "gpt2", ["--dst_args=--dialogues x --num_test -1"], "hb_train.dialog_state_tracking: num_test is -1"),
        (debias, "gpt2", ["--crg_args=--num_pairs 0"], "hb_train.response_generation: num_pairs is 0"),
        (tune, "gpt2", ["--dataset_config", "next-intersections"], "has no prompts with a single descriptor"),
        (tune, "gpt2", ["--system_prompt", "Be kind."], "applies only to chats, but the context is 'plain'"),
        (tune, "gpt2", ["--mixture", "1"], "mixture is 1; set a number of at least 2"),
        (tune, "gpt2", ["--mixture", "4", "--no_worse_than", "refusals=1pt"], "omit one of the two options"),
        (tune, "gpt2", ["--push_to_hub", "ORG/model"], "set --merge true"),
        (tune, "gpt2", ["--push_to_hub", "ORG/model", "--method", "sft", "counterfactual"], "set one --method"),
    ],
)
def test_what_cannot_be_done_is_known_first(script, family, options, message, noted, save_small_model, tmp_path):
    with pytest.raises(SystemExit, match=message):
        script(["--compare", "--output_dir", str(tmp_path), "--model", str(save_small_model(family)), *options])
    assert not noted


def test_a_chat_template_does_not_make_a_chat(noted, maintainer, tmp_path):  # noqa: F811
    """DialoGPT has a template, but reads its own format, and a user can set another one."""
    model, tokenizer = small_model("gpt2")
    folders = tmp_path / "DialoGPT-small", tmp_path / "chat"
    for folder in folders:
        model.save_pretrained(folder)
        with_chat(copy.deepcopy(tokenizer)).save_pretrained(folder)
    plain = ["--measure_args=--context plain", "--labelled_args=--context plain"]
    published = ["--method", "sft", "--tune_args=--merge true", "--push_to_hub", "ORG/model"]
    for folder, words in zip(folders, ([], plain), strict=True):
        options = ["--compare", "--model", str(folder), "--output_dir", str(tmp_path / "runs"), *words]
        for more, message in (
            (["--system_prompt", "Be kind."], "applies only to chats"),
            (published, "cannot add the tag"),
        ):
            with pytest.raises(SystemExit, match=message):
                tune([*options, *more])
        assert not noted
        tune(options)
        assert not any("decisions" in measured for measured in noted.values("measure", "--measurements"))
        noted.clear()
    tune([*options[:-2], *published])
    assert noted[-1][0] == "published"
    noted.clear()
    record = BiasTuning(tag=None, context="chat", alpha=None, beta=None, labels={}, training={"method": "sft"})
    (folders[0] / "bias_tuning.json").write_text(json.dumps(asdict(record)))
    tune(["--compare", "--model", str(folders[0]), *options[3:5], "--system_prompt", "Be kind."])  # as it is measured
    assert noted.values("measure", "--system_prompt")[-1] == "Be kind."


def test_unknown_options_are_named_with_their_step(noted, save_small_model, tmp_path, capsys):
    words = ["--compare", "--output_dir", str(tmp_path), "--model", str(save_small_model("gpt2"))]
    with pytest.raises(SystemExit, match="2"):
        tune([*words, "--replies_args=--nun_replies 2"])
    shown = capsys.readouterr().err
    assert "unrecognized arguments: --nun_replies 2" in shown
    assert "these are options of hb_train.own_replies" in shown
    assert not noted


def test_a_measured_model_is_published_after_its_card(noted, maintainer, tmp_path):  # noqa: F811
    words = "--tune_args=--merge true --hub_private_repo true"
    tune(["--compare", "--output_dir", str(tmp_path), "--push_to_hub", "ORG/model", words])
    assert [name for name, _ in noted[-3:]] == ["card", "report", "published"]
    assert noted[-1][1] == ((tmp_path / "counterfactual-model", "ORG/model"), {"private": True})
