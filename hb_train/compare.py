r"""Mitigates a model's bias with several methods, and compares the results (`--compare` of tune.py and debias.py).

    holistic-bias tune --compare --model embedded --output_dir runs/tune
    holistic-bias debias --compare --model embedded --reddit_folder RedditBias --bias_type religion1

The method sft learns from labelled replies. These replies come from a separate run, whose prompts differ from
those of the measurements. This run samples from the model's whole distribution (temperature 1, without top-k or top-p),
because a model that learnt only from likely replies would become too certain.

Each step is a script with its own process and folder. To resume an interrupted comparison, run the same command again.
"""

import argparse
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, get_args

from hb_dataset.command_line import CommandParser
from hb_metrics.command.gates import GATE_STATUS
from hb_metrics.measurements.results import read_run
from hb_metrics.models.loading import load_tokenizer
from hb_metrics.models.sources import EMBEDDED
from hb_metrics.report.changes import run_changes
from hb_metrics.report.no_worse import read_margins, verdicts
from hb_train.debias_table import write_debias_table
from hb_train.training.models import check_trainable
from hb_train.training.options import check_least, first_line, has_fast_bfloat16, run_script
from hb_train.training.saving import publish_model, write_model_card

# Labelled replies and measured replies answer different prompts, because their seeds differ.
LABELLED = (
    *("--seed", "1", "--temperature", "1", "--top_k", "0", "--top_p", "1"),
    *("--reply", "whole", "--max_new_tokens", "96"),
)
PAGE_FILE = "comparison.html"
RECIPES = Path(__file__).parent / "recipes"
MIXTURE_RUN = "run"
DebiasingMethod = Literal["lmd", "add", "hd", "cda"]
MEASURED = "generation,offensiveness,dialogue,awareness"


def tune_main(argv: Sequence[str], check: Callable[[list[str]], str]) -> None:
    """Compares tuning methods. `check` checks options of tune.py and describes the trained layers."""
    parser = _parser("tune", "runs/tune")
    parser.add_argument("--dataset_config", default="v1.0-small", help="The dataset config to measure.")
    parser.add_argument("--recipe", help="The options of tune.py. Default: recipes/embedded.yaml or chat-lora.yaml.")
    parser.add_argument(
        "--method", nargs="+", default=["counterfactual"], choices=("counterfactual", "sft"), help="The methods."
    )
    parser.add_argument("--system_prompt", help="Also measure the untuned model with this system prompt.")
    parser.add_argument("--mixture", type=int, metavar="K", help="Also measure mixtures of K prompts (see mixture.py).")
    gate = "Exit with status 3 unless these figures are no worse, as in `holistic-bias report`."
    parser.add_argument("--no_worse_than", nargs="+", default=[], metavar="FIGURE=MARGIN", help=gate)
    parser.add_argument("--push_to_hub", metavar="REPOSITORY", help="At the end, publish the tuned model on the Hub.")
    _add_words(parser, "measure", "each measurement")
    _add_words(parser, "replies", "own_replies.py, such as --anchors FILE")
    _add_words(parser, "labelled", "the run with the replies to label")
    _add_words(parser, "label", "bias_labels.py, such as --beta 0.001")
    _add_words(parser, "tune", "tune.py with each method")
    run_script("tune.py", lambda: compare_tuning(parser.parse_args(argv), check))


def debias_main(argv: Sequence[str]) -> None:
    parser = _parser("debias", None)
    parser.add_argument("--reddit_folder", default="RedditBias", help="The folder of the RedditBias repository.")
    parser.add_argument("--bias_type", default="religion1", help="The bias specification.")
    methods = get_args(DebiasingMethod)
    parser.add_argument("--methods", nargs="+", default=methods, choices=methods, help="The methods.")
    _add_words(parser, "debias", "debias.py, such as --lambda_d 50")
    _add_words(parser, "dst", "dialog_state_tracking.py (skipped without options), such as --dialogues MULTIWOZ")
    _add_words(parser, "crg", "response_generation.py (skipped without options), such as --num_pairs 300")
    run_script("debias.py", lambda: compare_debiasing(parser.parse_args(argv)))


def compare_tuning(options: argparse.Namespace, check: Callable[[list[str]], str]) -> None:
    """Measures a model before and after each tuning method. If a figure misses its margin, exits with `GATE_STATUS`."""
    margins = read_margins(options.no_worse_than)  # raises an error if a margin is not written as FIGURE=MARGIN
    _check_options(options, check)
    folder = Path(options.output_dir)
    dtype = ["--dtype", "bfloat16" if has_fast_bfloat16() else "auto"]
    config = ["--dataset_config", options.dataset_config]
    is_chat_model = load_tokenizer(options.model).tokenizer.chat_template is not None
    # Models of plain text are not asked to decide.
    measurements = f"{MEASURED},decisions" if is_chat_model else MEASURED
    measured = [*config, *dtype, "--measurements", measurements, *options.measure_args]
    runs = {"before": folder / "before"}
    run_step("hb_metrics.measure", "--model", options.model, "--output_dir", runs["before"], *measured)
    if margins:
        run = read_run(runs["before"])
        verdicts(run_changes(run, run, ("before", "after")), margins)  # raises an error if a figure does not exist
    if options.mixture:
        run_step("hb_train.mixture", runs["before"], folder / "mixture", "--num_contexts", str(options.mixture))

    def measure(name: str, model: str | Path, *words: str) -> None:
        runs[name] = folder / name.replace(" ", "_")
        run_step("hb_metrics.measure", "--model", model, "--output_dir", runs[name], *measured, *words)
        run_step("hb_train.side_effects", runs["before"], runs[name], launch=False)

    for method in options.method:
        model = folder / f"{method}-model"
        rows = _write_rows(options, method, folder, dtype)
        given: list[str | Path] = ["--dataset_name", rows, "--output_dir", model]
        run_step("hb_train.tune", *_tune_words(options, method), *given, *options.tune_args)
        measure(method, model)
        if method == "sft" and "none" not in options.tune_args:
            measure(f"{method} without tag", model, "--tag", "none")
    if options.system_prompt:
        measure("system prompt", options.model, "--system_prompt", options.system_prompt)
    if options.mixture:
        runs[f"mixture of {options.mixture}"] = folder / "mixture" / MIXTURE_RUN
    for method in options.method:
        write_model_card(folder / f"{method}-model", runs=list(runs.values()), names=list(runs))
    gate = ["--no_worse_than", *options.no_worse_than] if options.no_worse_than else []
    page = ["--names", *runs, "--output", folder / PAGE_FILE, *gate]
    run_step("hb_metrics.command.report", *runs.values(), *page, launch=False)
    if options.push_to_hub:
        print(f"published: {publish_model(folder / f'{options.method[0]}-model', options.push_to_hub)}")


def _check_options(options: argparse.Namespace, check: Callable[[list[str]], str]) -> None:
    if options.push_to_hub and len(options.method) > 1:
        raise ValueError("--push_to_hub publishes one model, but there are several methods; set one --method")
    check_least(options, mixture=2)
    if options.mixture and options.no_worse_than:
        raise ValueError("mixtures lack most figures that no_worse_than judges; omit one of the two options")
    for method in options.method:
        push = ["--push_to_hub", "true"] if options.push_to_hub else []
        words = [*_tune_words(options, method), "--dataset_name", "rows", "--output_dir", options.output_dir, *push]
        print(f"{method}: {check([*words, *options.tune_args])}")


def _tune_words(options: argparse.Namespace, method: str) -> list[str]:
    recipe = options.recipe or RECIPES / ("embedded.yaml" if options.model == EMBEDDED else "chat-lora.yaml")
    return ["--config", str(recipe), "--model_name_or_path", options.model, "--method", method]


def _write_rows(options: argparse.Namespace, method: str, folder: Path, dtype: Sequence[str]) -> Path:
    """Writes the rows from which a method learns, and returns their folder."""
    config, model = options.dataset_config, ["--model", options.model, *dtype]
    if method == "counterfactual":
        rows = folder / f"{method}-rows"
        # The measured descriptors are left out of training, unless the config contains all descriptors.
        learnt = ["--dataset_config", config.removesuffix("-small")]
        learnt += ["--leave_out", config] if config.endswith("-small") else []
        run_step("hb_train.own_replies", *model, "--output_dir", rows, *learnt, *options.replies_args)
        return rows
    run, rows = folder / "labelled", folder / "labels"
    words = ["--dataset_config", config, "--measurements", "generation", *LABELLED, *options.labelled_args]
    run_step("hb_metrics.measure", *model, *words, "--output_dir", run)
    label = ["--beta", "0.0003", *options.label_args]
    run_step("hb_train.bias_labels", "--run_dir", run, "--output_dir", rows, *label, launch=False)
    return rows


def compare_debiasing(options: argparse.Namespace) -> None:
    """Measures a model before and after each debiasing method, and its costs in the tasks that have options."""
    folder = Path(options.output_dir or f"runs/debias/{Path(options.model).name}-{options.bias_type}")
    data = ["--bias_type", options.bias_type, "--reddit_folder", options.reddit_folder]
    tasks = {"dst": ("dialog_state_tracking", options.dst_args), "crg": ("response_generation", options.crg_args)}
    check_trainable(load_tokenizer(options.model))
    for name in ("before", *options.methods):
        model = options.model
        if name != "before":
            model = folder / name / "model"
            words = ["--method", name, *data, "--model_name_or_path", options.model, "--output_dir", model]
            run_step("hb_train.debias", *words, "--per_device_train_batch_size", "16", *options.debias_args)
        measured = ["--measurements", "reddit,dialogue", *data]
        run_step("hb_metrics.measure", "--model", model, *measured, "--output_dir", folder / name / "bias")
        for task, (script, words) in tasks.items():
            if words:
                words = ["--model_name_or_path", model, "--output_dir", folder / name / task, *words]
                run_step(f"hb_train.{script}", *words)
    write_debias_table(folder, ("before", *options.methods))


def run_step(module: str, *words: str | Path, launch: bool = True) -> None:
    """Runs a script in its own process. Exits if the script fails, with its status if a gate failed."""
    launcher = ["-m", "accelerate.commands.launch"] if launch else []
    command = [sys.executable, *launcher, "-m", module, *map(str, words)]
    print(f"$ {shlex.join(command[1 + len(launcher) :])}", flush=True)
    status = subprocess.run(command).returncode
    if status:
        message = f"{module} exited with status {status}; to resume, run the same command again"
        raise SystemExit(GATE_STATUS if status == GATE_STATUS else message)


def _parser(command: str, output_dir: str | None) -> CommandParser:
    parser = CommandParser(prog=f"holistic-bias {command} --compare", description=first_line(__doc__))
    parser.add_argument("--model", default=EMBEDDED, help="The model: a Hub id, a local folder or 'embedded'.")
    shown = output_dir or "runs/debias/MODEL-BIAS_TYPE"
    parser.add_argument(
        "--output_dir", default=output_dir, help=f"The folder for the output of all steps. Default: {shown}."
    )
    return parser


def _add_words(parser: argparse.ArgumentParser, step: str, what: str) -> None:
    help_text = f"Further options for {what}. Write all of them after '=', in one pair of quotes."
    parser.add_argument(f"--{step}_args", type=shlex.split, default=[], metavar="WORDS", help=help_text)
