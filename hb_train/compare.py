r"""Mitigates a model's bias by several methods and compares the results: `--compare` of tune.py and debias.py.

    holistic-bias tune --compare --model embedded --output_dir runs/tune
    holistic-bias debias --compare --model embedded --reddit_folder RedditBias --bias_type religion1

`tune --compare` writes one table of the untuned model, a system prompt (which costs nothing), distillation (which needs
no labels) or KTO, the paper's bias tuning (Smith et al., 2022, section 4) and its ablation without labels. Labelled and
measured replies answer different prompts. The labelled replies are sampled from the model's whole distribution, because
sharper samples make the tuned model sharper. If labels cannot help (exit status 3 of bias_labels.py), the comparison
ends with the methods that need no labels. `debias --compare` measures the model before and after each of four methods
(Barikeri et al., 2021), with their costs.

Each step is a script in its own process and folder. The same command resumes an interrupted comparison.
"""

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hb_train.bias_labels import NO_GAIN_STATUS
from hb_train.debias_table import write_debias_table
from hb_train.debiasing.arguments import METHODS
from hb_train.training.options import first_line, run_script
from hb_train.tuning.labels import LABELS_FILE

# Labelled and measured replies answer different prompts (different seeds).
LABELLED = (
    *("--seed", "1", "--temperature", "1", "--top_k", "0", "--top_p", "1"),
    *("--reply", "whole", "--max_new_tokens", "24"),
)
PAGE_FILE = "comparison.html"
RECIPE = str(Path(__file__).parent / "recipes" / "embedded.yaml")


def tune_main(argv: Sequence[str]) -> None:
    """Reads the options of `tune --compare`, and runs its steps."""
    parser = _parser("tune", "runs/tune")
    parser.add_argument("--dataset_config", default="v1.0-small", help="The measured config.")
    parser.add_argument("--recipe", default=RECIPE, help="The options of tune.py, in YAML.")
    parser.add_argument("--method", default="distill", choices=("distill", "kto", "none"), help="The other method.")
    parser.add_argument(
        "--system_prompt",
        default="Reply in the same way whoever you are talking to.",
        help="The system prompt of the baseline; '' leaves it out, for a model without a chat template.",
    )
    parser.add_argument("--beta", default="auto", help="The threshold β of the labels, as in bias_labels.py.")
    _add_words(parser, "measure", "each measurement")
    _add_words(parser, "labelled", "the run with the replies to label")
    _add_words(parser, "label", "bias_labels.py, such as --accept_no_gain")
    _add_words(parser, "distill", "baseline_replies.py")
    _add_words(parser, "method", "tune.py with the other method")
    run_script("tune.py", lambda: compare_tuning(parser.parse_args(argv)))


def debias_main(argv: Sequence[str]) -> None:
    """Reads the options of `debias --compare`, and runs its steps."""
    parser = _parser("debias", None)
    parser.add_argument("--reddit_folder", default="RedditBias", help="The repository of RedditBias's authors.")
    parser.add_argument("--bias_type", default="religion1", help="The bias specification.")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS, help="The debiasing methods.")
    _add_words(parser, "debias", "debias.py, such as --lambda_d 50")
    _add_words(parser, "dst", "dialog_state_tracking.py, such as --dialogues MULTIWOZ; without them it does not run")
    _add_words(parser, "crg", "response_generation.py, such as --num_pairs 300; without them it does not run")
    run_script("debias.py", lambda: compare_debiasing(parser.parse_args(argv)))


def compare_tuning(options: argparse.Namespace) -> None:
    """Measures a model before and after each tuning method."""
    folder = Path(options.output_dir)
    measured = ["--dataset_config", options.dataset_config, "--measurements", "generation,offensiveness,dialogue"]
    measured += ["--dialogue_replies", "200", *options.measure_args]
    runs: dict[str, Path] = {}

    def measure(name: str, run: str, model: str | Path, *more: str) -> None:
        runs[name] = folder / run
        run_step("hb_metrics.measure", "--model", model, *more, "--output_dir", runs[name], *measured)

    def tune(rows: str, model: str, *more: str) -> None:
        words = ["--config", options.recipe, "--model_name_or_path", options.model, "--dataset_name", folder / rows]
        run_step("hb_train.tune", *words, "--output_dir", folder / model, *more)

    measure("before", "before", options.model)
    if options.system_prompt:
        measure("system prompt", "prompt", options.model, "--system_prompt", options.system_prompt)
    if options.method == "distill":
        learnt = ["--dataset_config", options.dataset_config.removesuffix("-small")]
        if options.dataset_config.endswith("-small"):  # measured descriptors are not learnt, unless all are measured
            learnt += ["--leave_out", options.dataset_config]
        learnt += ["--num_replies", "960", *options.distill_args]
        run_step("hb_train.baseline_replies", "--model", options.model, "--output_dir", folder / "baseline", *learnt)
        tune("baseline", "distill-model", "--method", "distill", *options.method_args)
        measure("distill", "distill", folder / "distill-model")
        _write_card(folder / "distill-model", runs)
    if len(runs) > 1:
        _write_page(folder, runs)

    labelled = ["--dataset_config", options.dataset_config, "--measurements", "generation"]
    labelled += [*LABELLED, *options.labelled_args]
    run_step("hb_metrics.measure", "--model", options.model, *labelled, "--output_dir", folder / "labelled")
    label = ["--run_dir", folder / "labelled", "--beta", options.beta, "--output_dir", folder / "labels"]
    run_step("hb_train.bias_labels", *label, *options.label_args, launch=False, allowed=(NO_GAIN_STATUS,))
    if not (folder / "labels" / LABELS_FILE).exists():
        print("to tune with labels anyway, run the same command with --label_args=--accept_no_gain")
        print(f"the measurements: {folder / PAGE_FILE if len(runs) > 1 else folder / 'before' / 'report.html'}")
        return
    if options.method == "kto":
        tune("labels", "kto-model", "--method", "kto", *options.method_args)
        measure("kto", "kto", folder / "kto-model")
    tune("labels", "self-chat-model", "--labels", "none")
    measure("self-chat tuning", "self-chat", folder / "self-chat-model")
    tune("labels", "model")
    measure("asked with no_bias", "no_bias", folder / "model")
    _write_card(folder / "model", runs)
    if options.method != "none":
        _write_card(folder / f"{options.method}-model", runs)
    _write_page(folder, runs, folder / "labels")


def compare_debiasing(options: argparse.Namespace) -> None:
    """Measures a model before and after each debiasing method."""
    name = f"{Path(options.model).name}-{options.bias_type}"
    folder = Path(options.output_dir or f"runs/debias/{name}")
    data = ["--bias_type", options.bias_type, "--reddit_folder", options.reddit_folder]

    def measure(model: str | Path, run: Path) -> None:
        measured = ["--measurements", "reddit,dialogue", *data]
        run_step("hb_metrics.measure", "--model", model, *measured, "--output_dir", run / "bias")
        tasks = {"dst": ("dialog_state_tracking", options.dst_args), "crg": ("response_generation", options.crg_args)}
        for name, (script, words) in tasks.items():
            if words:
                run_step(f"hb_train.{script}", "--model_name_or_path", model, "--output_dir", run / name, *words)

    measure(options.model, folder / "before")
    for method in options.methods:
        model = folder / method / "model"
        words = ["--method", method, *data, "--model_name_or_path", options.model, "--output_dir", model]
        run_step("hb_train.debias", *words, "--per_device_train_batch_size", "16", *options.debias_args)
        measure(model, folder / method)
    write_debias_table(folder)


def run_step(module: str, *words: str | Path, launch: bool = True, allowed: Sequence[int] = ()) -> None:
    """Runs a script in its own process, by `accelerate launch` unless one process suffices.

    Raises:
        SystemExit: The script ended with an exit status that is neither 0 nor allowed.
    """
    launcher = ["-m", "accelerate.commands.launch"] if launch else []
    command = [sys.executable, *launcher, "-m", module, *map(str, words)]
    print(f"$ {shlex.join(command[1 + len(launcher) :])}", flush=True)
    status = subprocess.run(command).returncode
    if status not in (0, *allowed):
        raise SystemExit(f"{module} ended with exit status {status}; to resume, run the same command again")


def _write_card(model: Path, runs: dict[str, Path]) -> None:
    run_step("hb_train.model_card", "--model", model, "--runs", *runs.values(), "--names", *runs, launch=False)


def _write_page(folder: Path, runs: dict[str, Path], labels: Path | None = None) -> None:
    words: list[str | Path] = [*runs.values(), "--names", *runs, "--output", folder / PAGE_FILE]
    if labels is not None:
        words += ["--labels", labels]
    run_step("hb_metrics.report", *words, launch=False)


def _parser(command: str, output_dir: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"holistic-bias {command} --compare", description=first_line(__doc__), allow_abbrev=False
    )
    parser.add_argument("--model", default="embedded", help="The model: a Hub id, a local folder or 'embedded'.")
    shown = output_dir or "runs/debias/MODEL-BIAS_TYPE"
    parser.add_argument("--output_dir", default=output_dir, help=f"The folder of all steps. Default: {shown}.")
    return parser


def _add_words(parser: argparse.ArgumentParser, step: str, what: str) -> None:
    """Adds an option that passes further options to a step in one word, such as `--measure_args="--axes nonce"`."""
    parser.add_argument(
        f"--{step}_args",
        type=shlex.split,
        default=[],
        metavar="WORDS",
        help=f"Further options of {what}, in one word after '='.",
    )
