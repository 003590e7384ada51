"""A Hub token that is given to a training script: no file that the run writes holds it."""

import io
import pickle
import subprocess
import zipfile
from itertools import chain

import pytest

from hb_train import debias, dialog_state_tracking, response_generation, tune
from hb_train.sweep import main as sweep
from hb_train.training.hub_token import TOKEN_VARIABLE
from tests.hb_train.test_debias import data, options_for  # noqa: F401 - a fixture of those tests
from tests.hb_train.test_sweep import folder  # noqa: F401

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
TOKEN = "hf_" + "NoBodysToken" * 3
UNSHAPED = "a-token-of-another-form"
SCRIPTS = {
    "tune": tune,
    "debias": debias,
    "response_generation": response_generation,
    "dialog_state_tracking": dialog_state_tracking,
}


@pytest.fixture
def options(folder, data, word_model, pairs_file, tmp_path):  # noqa: F811
    """The options of each script for a run of two steps that writes a checkpoint."""
    shared = [
        *("--max_steps", "2", "--save_strategy", "steps", "--save_steps", "2", "--logging_steps", "1"),
        *("--bf16", "false", "--disable_tqdm", "true", "--per_device_train_batch_size", "2"),
    ]
    model = ["--model_name_or_path", str(folder / "model")]
    output = ["--output_dir", str(tmp_path / "out")]
    return {
        "tune": [*model, *output, "--dataset_name", str(folder / "labels"), "--eval_steps", "2", *shared],
        "debias": [*options_for(data, tmp_path / "out", "cda", "--num_reference_texts", "4"), *model, *shared],
        "response_generation": [
            *("--dialogues", str(pairs_file), "--num_pairs", "20", "--num_test", "2", "--max_new_tokens", "2"),
            *("--context", "plain", "--max_length", "100", *model, *output, *shared),
        ],
        "dialog_state_tracking": [
            *("--model_name_or_path", str(word_model), "--dialogues", "made-up", "--num_train", "4"),
            *("--num_test", "2", *output, *shared),
        ],
    }


def files_with(folder, *secrets):  # noqa: F811
    """The files that hold one of these, in a ZIP's members too; and how many files there are."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    holding = set()
    for path in paths:
        contents = [path.read_bytes()]
        if zipfile.is_zipfile(io.BytesIO(contents[0])):
            with zipfile.ZipFile(path) as archive:
                contents += [archive.read(name) for name in archive.namelist()]
        if any(secret.encode() in content for content in contents for secret in secrets):
            holding.add(str(path.relative_to(folder)))
    return holding, len(paths)


@pytest.mark.parametrize("script", SCRIPTS)
def test_no_file_of_a_run_holds_the_token(script, options, tmp_path):
    SCRIPTS[script].main([*options[script], "--hub_token", UNSHAPED, "--hub_model_id", "me/model"])
    assert list((tmp_path / "out").rglob("training_args.bin"))
    holding, num_files = files_with(tmp_path, UNSHAPED)
    assert num_files > 3
    assert not holding


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_token_is_there_to_push_with_however_it_comes(script, options, tmp_path, monkeypatch):
    config = tmp_path / "config.yaml"
    config.write_text(f"hub_token: {TOKEN}\n", encoding="utf-8")

    def token_of(*more):
        parsed = SCRIPTS[script].parse_options([*options[script], *more])
        (training_args,) = (group for group in parsed if hasattr(group, "hub_token"))
        assert TOKEN.encode() not in pickle.dumps(training_args)
        assert pickle.loads(pickle.dumps(training_args)).hub_token is None
        return training_args.hub_token

    assert token_of() is None
    assert (
        token_of("--hub_token", TOKEN) == token_of("--config", str(config)) == token_of("--hub-token", TOKEN) == TOKEN
    )
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    assert token_of() == TOKEN
    with pytest.raises(ValueError, match="--run_name holds what looks like a Hugging Face token") as raised:
        token_of("--run_name", TOKEN)
    assert TOKEN not in str(raised.value)


def sweep_options(script, options):
    """Two runs, of which each only reads its options and fails: there is no such model."""
    given = [*options[script], "--model_name_or_path", "no/such-model", "--push_to_hub", "true"]
    grid = {
        "tune": ["--grid", "learning_rate=1,2"],
        "debias": ["--grid", "lambda_d=1,2"],
    }[script]
    return ["--script", script, *given, *grid]


@pytest.mark.parametrize("script", ["tune", "debias"])
@pytest.mark.parametrize("where", ["option", "config"])
def test_no_file_of_a_sweep_holds_the_token(script, where, options, tmp_path, monkeypatch):
    handed = []
    monkeypatch.setattr(subprocess, "run", lambda command, **settings: note(handed, command, settings))
    config = tmp_path / "config" / "options.yaml"
    config.parent.mkdir()
    config.write_text(f"hub_token: {TOKEN}\nseed: 3\nenv:\n  WANDB_API_KEY: {UNSHAPED}\n", encoding="utf-8")
    given = ["--hub_token", TOKEN] if where == "option" else ["--config", str(config)]
    with pytest.raises(SystemExit, match="none of the 2 runs") as raised:
        sweep([*sweep_options(script, options), *given])
    assert TOKEN not in str(raised.value)
    assert len(list((tmp_path / "out").glob("*.log"))) == 2
    assert files_with(tmp_path / "out", TOKEN, UNSHAPED)[0] == set()
    assert TOKEN not in " ".join(chain(*(command for command, _ in handed)))
    assert [environment.get(TOKEN_VARIABLE) for _, environment in handed] == [TOKEN if where == "option" else None] * 2


def note(handed, command, settings):
    """Notes what a process would be started with; it has failed."""
    handed.append((command, settings["env"]))
    return subprocess.CompletedProcess(command, 1)


@pytest.mark.parametrize("script", ["tune", "debias"])
def test_a_token_that_would_be_written_is_rejected(script, options, tmp_path):
    bad = {
        "short": ["--hub_tok", UNSHAPED],
        "shorter": [f"--hub={UNSHAPED}"],
        "mistyped": ["--hub_tokne", TOKEN],
        "capitals": ["--Hub_Token", UNSHAPED],
        "without dashes": ["hub_token", UNSHAPED],
        "twice": ["--hub_token", TOKEN, "--hub-t", UNSHAPED],
        "nested": ["--model_init_kwargs", f'{{"token": "{TOKEN}"}}'],
    }
    if script == "debias":
        bad["grid"] = ["--grid", f"hub_token={UNSHAPED},x"]
        bad["grid of tokens"] = ["--grid", f"run_name={TOKEN},x"]
    configs = {
        "dashed": f"hub-token: {UNSHAPED}\n",
        "mistyped in the config": f"hub_tokn: {TOKEN}\n",
        "capitals in the config": f"Hub_Token: {UNSHAPED}\n",
        "environment in capitals": f"Env:\n  WANDB_API_KEY: {UNSHAPED}\n",
    }
    for name, text in configs.items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
        bad[name] = ["--config", str(path)]
    for name, more in bad.items():
        with pytest.raises(SystemExit, match="token") as raised:
            sweep([*sweep_options(script, options), *more])
        assert TOKEN not in str(raised.value), name
        assert UNSHAPED not in str(raised.value), name
        assert not (tmp_path / "out").exists(), name


@pytest.mark.long
@pytest.mark.parametrize("script", ["tune", "debias"])
def test_no_file_of_a_whole_sweep_holds_the_token(script, options, tmp_path):
    grid = ["--grid", "learning_rate=1,2"] if script == "tune" else ["--grid", "lambda_d=1,2"]
    sweep(["--script", script, *options[script], *grid, "--hub_token", TOKEN])
    assert list((tmp_path / "out").rglob("training_args.bin"))
    assert files_with(tmp_path / "out", TOKEN)[0] == set()
