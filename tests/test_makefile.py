"""What `make tune` runs: its commands, with programs in their place that write down how they were called."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORD, COMMAND = "\037", "\036"
PROGRAM = """\
#!/bin/sh
{ printf '%s\\037' "$@"; printf '\\036'; } >> "$LOG"
case "$*" in
  *bias_labels.py*) mkdir -p "$TUNED/labels"; [ "$STATUS" = 0 ] && echo > "$TUNED/labels/labels.json"; exit "$STATUS";;
esac
"""


def make_tune(folder, *variables, status=0):
    """Runs `make tune` with a `bias_labels.py` that ends so; returns what make said and the words of each command."""
    (folder / "bin").mkdir()
    for name in ("accelerate", "python"):
        (folder / "bin" / name).write_text(PROGRAM)
        (folder / "bin" / name).chmod(0o755)
    for name in ("ready", "ready-tune"):  # nothing is to be installed
        (folder / name).touch()
    words = ["make", "tune", f"BIN={folder / 'bin'}", f"READY={folder / 'ready'}", f"TUNE_DIR={folder / 'tune'}"]
    environment = {"PATH": "/usr/bin:/bin", "LOG": str(folder / "log"), "TUNED": str(folder / "tune")}
    environment["STATUS"] = str(status)
    done = subprocess.run(
        [*words, *variables], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    log = (folder / "log").read_text() if (folder / "log").exists() else ""
    commands = [command.split(WORD)[:-1] for command in log.split(COMMAND)[:-1]]
    return done, [[word.removeprefix(f"{folder}/tune/") for word in command] for command in commands]


def options(commands, name):
    """The values of an option, in the order of the commands that have it."""
    return [command[command.index(name) + 1] for command in commands if name in command]


@pytest.mark.parametrize("method", ["distill", "kto"])
def test_labels_are_tuned_on(method, tmp_path):
    done, commands = make_tune(tmp_path, f"METHOD={method}")
    assert done.returncode == 0, done.stdout
    tuned = [command for command in commands if "hb_train/tune.py" in command]
    assert {"self-chat-model", "model", f"{method}-model"} == set(options(tuned, "--output_dir"))
    names = commands[-1][commands[-1].index("--names") + 1 :]
    assert names[:5] == ["before", "system prompt", method, "self-chat tuning", "asked with no_bias"]
    assert commands[-1][4:9] == ["before", "prompt", method, "self-chat", "no_bias"]


@pytest.mark.parametrize(
    ("variables", "runs", "names"),
    [
        (["METHOD=distill"], ["before", "prompt", "distill"], ["before", "system prompt", "distill"]),
        (["METHOD=kto"], ["before", "prompt"], ["before", "system prompt"]),
        (["METHOD="], ["before", "prompt"], ["before", "system prompt"]),
        (["METHOD=kto", "SYSTEM_PROMPT="], [], []),
    ],
)
def test_without_labels_it_ends_with_a_page_of_what_needs_none(variables, runs, names, tmp_path):
    done, commands = make_tune(tmp_path, *variables, status=3)
    assert done.returncode == 0, done.stdout
    assert "give the same command with BETA=" in done.stdout
    methods = options([command for command in commands if "hb_train/tune.py" in command], "--method")
    assert methods == (["distill"] if "distill" in runs else [])
    pages = [command for command in commands if "hb_metrics.report" in command]
    words = ["-m", "hb_metrics.report", "--output", "comparison.html"]
    assert pages == ([[*words, *runs, "--names", *names]] if runs else [])
    page = "comparison.html" if runs else "before/report.html"
    assert done.stdout.splitlines()[-1] == f"what was measured: {tmp_path}/tune/{page}"


def test_labels_that_fail_end_it(tmp_path):
    done, _ = make_tune(tmp_path, status=1)
    assert done.returncode != 0


def test_models_and_system_prompts_reach_the_programs_as_they_are(tmp_path):
    prompt = 'Say "hi" to `nobody`, it\'s\n<b>fine</b>; & # done \\'
    done, commands = make_tune(tmp_path, "MODEL=my models/gpt 2", f"SYSTEM_PROMPT={prompt}", "METHOD=")
    assert done.returncode == 0, done.stdout
    assert options(commands, "--system_prompt") == [prompt]
    assert set(options(commands, "--model_name_or_path")) == {"my models/gpt 2"}
    assert options(commands, "--model")[:3] == ["my models/gpt 2"] * 3


@pytest.mark.parametrize("method", ["distil", "kto dpo", "sft"])
def test_a_method_that_there_is_not_is_named_at_once(method, tmp_path):
    done, commands = make_tune(tmp_path, f"METHOD={method}")
    assert done.returncode != 0
    assert f"METHOD is '{method}'; give distill or kto, or METHOD= for none" in done.stdout
    assert not commands
