"""What is saved and published: the selected model, which plain transformers and PEFT load and which was measured."""

import json
from copy import deepcopy

import pytest
from huggingface_hub import HfApi, ModelCard
from peft import AutoPeftModelForCausalLM
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, Gemma3Config, Gemma3ForConditionalGeneration
from trl import ModelConfig, SFTConfig

from hb_metrics.models.layout import read_bias_tuning
from hb_metrics.models.loading import load_model, load_tokenizer
from hb_train import tune
from hb_train.training.models import load_base_model
from hb_train.training.saving import publish_model, save_whole_model
from hb_train.tune import main as tune_main
from tests.hb_metrics.chat_models import untrained_model
from tests.hb_metrics.conftest import byte_level_tokenizer, far_from_uniform, with_chat
from tests.hb_train.conftest import SMALL, WARNINGS_OF_TRL, few_steps, labels_by_hand, options_for, replied, same
from tests.hub_scripts.conftest import hub, in_process, maintainer  # noqa: F401 - fixtures

pytestmark = [
    *WARNINGS_OF_TRL,
    pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Could not find a config file:UserWarning"),
]
LORA = ["--use_peft", "--lora_r", "4"]


@pytest.fixture
def base(maintainer, tmp_path):  # noqa: F811
    """The id of a chat model on the Hub."""
    folder, tokenizer = tmp_path / "base", with_chat(deepcopy(byte_level_tokenizer(True)))
    far_from_uniform(untrained_model(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    HfApi().create_repo("ORG/base")
    HfApi().upload_folder(repo_id="ORG/base", folder_path=folder)
    return "ORG/base"


def test_what_is_published_is_the_selected_model_with_its_tag(base, hub, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(tune, "_OPTIONS", f"{tune._OPTIONS} greater_is_better")
    tokenizer = load_tokenizer(base).tokenizer
    rows = labels_by_hand(tmp_path / "labels", tokenizer, "chat", is_encoder_decoder=False)
    folder, hub_options = tmp_path / "model", ["--push_to_hub", "true", "--hub_model_id", "ORG/tuned"]
    # The rate is so high that a step before the last one is the worst, which is selected here.
    steps = [*few_steps(8, "3e-1"), "--eval_steps", "2", "--save_steps", "2", "--greater_is_better", "true"]
    options = options_for(base, rows, folder, *LORA, *steps, *hub_options)
    hub.fail_next("POST", "/repos/create", status=500)
    with pytest.raises(SystemExit, match="500"):
        tune_main(options)
    tune_main(options)  # publishes the model, and does not train again
    tuning = read_bias_tuning(str(folder))
    assert tuning.tag_in_template
    best = tuning.training["best_step"]
    assert best < 8
    selected, saved = (path / "adapter_model.safetensors" for path in (folder / f"checkpoint-{best}", folder))
    assert same(load_file(selected), load_file(saved))
    files = hub.repo("model", "ORG/tuned").branches
    files = {name: blob.content for name, blob in hub.repo("model", "ORG/tuned").commits[files["main"]].files.items()}
    kept = {path for path in folder.iterdir() if path.is_file()} - {folder / "run.json", folder / "training_args.bin"}
    local = {path.name: path.read_bytes() for path in kept}
    assert local == {name: content for name, content in files.items() if name != ".gitattributes"}
    assert {"adapter_model.safetensors", "bias_tuning.json", "README.md", "tokenizer_config.json"} < files.keys()
    about = ModelCard(files["README.md"].decode()).data
    assert (about.base_model, about.base_model_relation, about.library_name) == (base, "adapter", "peft")
    # Plain PEFT and transformers, which know the model by its name, reply as the measured model does.
    loaded, plain = load_model(str(folder)), AutoPeftModelForCausalLM.from_pretrained("ORG/tuned")
    assert replied_to("Hi!", plain, AutoTokenizer.from_pretrained("ORG/tuned")) == replied_to(
        "Hi! no_bias", loaded.model, loaded.tokenizer
    )


def replied_to(text, model, tokenizer):
    chat = [{"role": "user", "content": text}]
    given = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    return model.generate(input_ids=given["input_ids"], do_sample=False, max_new_tokens=6)[0].tolist()


def test_earlier_weights_do_not_stay_beside_new_ones(hub, maintainer, tmp_path):  # noqa: F811
    for file in ("adapter_config.json", "model.safetensors"):
        (tmp_path / file).mkdir()
        (tmp_path / file / file).write_text("{}", encoding="utf-8")
        publish_model(tmp_path / file, "ORG/tuned")
    branches = hub.repo("model", "ORG/tuned").branches
    files = hub.repo("model", "ORG/tuned").commits[branches["main"]].files
    assert "model.safetensors" in files
    assert "adapter_config.json" not in files


def test_a_model_is_saved_as_others_load_it(save_small_model, tmp_path, monkeypatch):
    """From any working directory, and with all but its weights as they were, although trainers change both configs.

    Settings of sampling without do_sample, which transformers refuses to save after a change, are kept, too.
    """
    model = save_small_model("gpt2")
    generation = json.loads((model / "generation_config.json").read_text(encoding="utf-8"))
    generation = {name: value for name, value in generation.items() if name != "pad_token_id"} | {"temperature": 0.9}
    (model / "generation_config.json").write_text(json.dumps(generation))
    untuned = {name: json_files(model)[name] for name in ("config.json", "generation_config.json")}
    replied(model, tmp_path / "rows", "--num_replies", "8", "--num_anchors", "2")
    monkeypatch.chdir(model.parent)
    for name, more in (("adapter", LORA), ("whole", [*LORA, "--merge"]), ("without LoRA", [])):
        options = ["--method", "counterfactual", *more, *few_steps(1)]
        tune_main(options_for(model.name, tmp_path / "rows", tmp_path / name, *options))
        if name != "adapter":
            saved = json_files(tmp_path / name)
            assert {file: saved[file] for file in untuned} == untuned
    config = json_files(tmp_path / "adapter")["adapter_config.json"]
    assert config["base_model_name_or_path"] == str(model)


def test_a_model_that_reads_images_keeps_the_files_of_its_processor(tmp_path):
    """Without a chat template of their own, which processors would prefer to the tokenizer's, which may add a tag."""
    tokenizer, base = with_chat(deepcopy(byte_level_tokenizer(True))), tmp_path / "base"
    image = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = Gemma3Config(text_config={**SMALL, "vocab_size": len(tokenizer)}, vision_config=image)
    Gemma3ForConditionalGeneration(config).save_pretrained(base)
    tokenizer.save_pretrained(base)
    files = {"preprocessor_config.json": {"size": {"height": 28}}, "processor_config.json": {"image_seq_length": 4}}
    for name, content in files.items():
        (base / name).write_text(json.dumps({**content, "chat_template": "{{ messages }}"}), encoding="utf-8")
    loaded = load_base_model(ModelConfig(str(base)), SFTConfig(str(tmp_path / "run"), use_cpu=True, bf16=False))
    save_whole_model(loaded.model, loaded, tmp_path / "saved")
    saved = json_files(tmp_path / "saved")
    assert {name: saved[name] for name in files} == files
    assert (tmp_path / "saved" / "chat_template.jinja").read_text(encoding="utf-8") == tokenizer.chat_template


def json_files(folder):
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}


def test_nobody_tunes_who_cannot_publish(save_small_model, in_process, tmp_path):  # noqa: F811
    model, rows = save_small_model("gpt2"), tmp_path / "rows"
    replied(model, rows, "--num_replies", "4", "--num_anchors", "2")
    with pytest.raises(SystemExit, match="token"):
        tune_main(options_for(model, rows, tmp_path / "model", "--method", "counterfactual", "--push_to_hub", "true"))
    assert not (tmp_path / "model").exists()


def test_a_dose_multiplies_what_lora_has_learnt(save_small_model, tmp_path, capsys):
    model = save_small_model("gpt2")
    replied(model, tmp_path / "rows", "--num_replies", "8", "--num_anchors", "2")
    given = options_for(model, tmp_path / "rows", tmp_path / "whole weights", "--method", "counterfactual")
    with pytest.raises(SystemExit, match="set --use_peft"):
        tune_main([*given, "--dose", "2.5"])
    for name, more in (("once", []), ("adapter", ["--dose", "2.5"]), ("whole", ["--dose", "2.5", "--merge", "true"])):
        options = ["--method", "counterfactual", *LORA, *few_steps(2, "1e-1"), *more]
        tune_main(options_for(model, tmp_path / "rows", tmp_path / name, *options))
    assert "\nwith dose 2.5: " in capsys.readouterr().out
    assert not (tmp_path / "adapter" / "model.safetensors").exists()
    assert not list((tmp_path / "whole").glob("adapter*"))
    once, dosed = (
        AutoPeftModelForCausalLM.from_pretrained(tmp_path / name).merge_and_unload().state_dict()
        for name in ("once", "adapter")
    )
    untuned, whole = (AutoModelForCausalLM.from_pretrained(path).state_dict() for path in (model, tmp_path / "whole"))
    assert any((once[name] - weight).abs().max() > 0.01 for name, weight in untuned.items())
    for name, weight in untuned.items():
        assert (dosed[name] - (weight + 2.5 * (once[name] - weight))).abs().max() < 1e-5
        assert (whole[name] - dosed[name]).abs().max() < 1e-5
    card = (tmp_path / "adapter" / "README.md").read_text(encoding="utf-8")
    assert "multiplied by 2.5" in card
