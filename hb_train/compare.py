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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

from transformers.hf_argparser import string_to_bool

from hb_dataset.command_line import CommandParser
from hb_metrics.command.arguments import parse_arguments, wanted_measurements
from hb_metrics.command.gates import GATE_STATUS
from hb_metrics.measurements.results import read_run
from hb_metrics.measurements.settings import check_least
from hb_metrics.models.chats import ChatOptions, chat_messages, render_chats
from hb_metrics.models.layout import choose_layout
from hb_metrics.models.loading import load_tokenizer
from hb_metrics.models.sources import EMBEDDED
from hb_metrics.report.changes import run_changes
from hb_metrics.report.no_worse import check_margins, read_margins, verdicts
from hb_train.debias_table import write_debias_table
from hb_train.training.models import check_trainable
from hb_train.training.options import first_line, has_fast_bfloat16, run_script
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
# These scripts need no accelerator. All others are started by `accelerate launch`.
NOT_LAUNCHED = ("hb_train.bias_labels", "hb_train.side_effects", "hb_metrics.command.report")
Step = list[str | Path]  # the module of a script, and its options


def tune_main(argv: Sequence[str]) -> None:
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
    run_script("tune.py", lambda: compare_tuning(parser.parse_args(argv)))


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


def compare_tuning(options: argparse.Namespace) -> None:
    """Measures a model before and after each tuning method. If a figure misses its margin, exits with `GATE_STATUS`."""
    margins = read_margins(options.no_worse_than)  # raises an error if a margin is not written as FIGURE=MARGIN
    if options.push_to_hub and len(options.method) > 1:
        raise ValueError("--push_to_hub publishes one model, but there are several methods; set one --method")
    check_least(options, mixture=2)
    if options.mixture and options.no_worse_than:
        raise ValueError("mixtures lack most figures that no_worse_than judges; omit one of the two options")
    steps, runs = _tuning_steps(options)
    _check_steps(steps, is_published=bool(options.push_to_hub))
    settings = _parsed(steps[0])
    measured = wanted_measurements(settings)
    check_margins(margins, {name: unit for part in measured for name, unit in part.margin_units(settings).items()})
    run_step(*steps[0])
    if margins:
        run = read_run(runs["before"])
        verdicts(run_changes(run, run, ("before", "after")), margins)  # raises an error if a figure has no value
    for step in steps[1:]:
        run_step(*step)
    folder = Path(options.output_dir)
    for method in options.method:
        write_model_card(folder / f"{method}-model", runs=list(runs.values()), names=list(runs))
    gate = ["--no_worse_than", *options.no_worse_than] if options.no_worse_than else []
    page = ["--names", *runs, "--output", folder / PAGE_FILE, *gate]
    run_step("hb_metrics.command.report", *runs.values(), *page)
    if options.push_to_hub:
        (training_args,) = (_parsed(step)[1] for step in steps if step[0] == "hb_train.tune")
        model, private = folder / f"{options.method[0]}-model", training_args.hub_private_repo
        print(f"published: {publish_model(model, options.push_to_hub, private=private)}")


def _tuning_steps(options: argparse.Namespace) -> tuple[list[Step], dict[str, Path]]:
    """Returns all steps but the report, beginning with the measurement before tuning, and the folders of the runs."""
    folder, config = Path(options.output_dir), options.dataset_config
    trust = ["--trust_remote_code", str(options.trust_remote_code)]
    loading = [*trust, "--dtype", "bfloat16" if has_fast_bfloat16() else "auto"]
    loaded = load_tokenizer(options.model, trust_remote_code=options.trust_remote_code)
    about = ["--dataset_config", config, *loading, "--measurements"]
    decided = f"{MEASURED},decisions"
    run = _parsed(["hb_metrics.measure", "--output_dir", folder, *about, decided, *options.measure_args]).run
    chat = ChatOptions({}, options.system_prompt)
    # DialoGPT has a chat template, but does not read chats. A tuned model is measured in the context of its tuning.
    context = choose_layout(loaded, context=run.context, tag="none", chat=chat).context
    if options.system_prompt:  # raises an error if the template has no place for it
        render_chats([chat_messages("Hi.", [], chat)], loaded.tokenizer, chat)
    # Models that do not read chats are not asked to decide.
    measured = [*about, decided if context == "chat" else MEASURED]
    steps: list[Step] = []
    runs: dict[str, Path] = {}

    def measure(name: str, model: str | Path, *words: str) -> None:
        runs[name] = folder / name.replace(" ", "_")
        given = ["--model", model, "--output_dir", runs[name], *measured, *options.measure_args, *words]
        steps.append(["hb_metrics.measure", *given])
        if name != "before":
            steps.append(["hb_train.side_effects", runs["before"], runs[name]])

    measure("before", options.model)
    if options.mixture:
        number = ["--num_contexts", str(options.mixture)]
        steps.append(["hb_train.mixture", runs["before"], folder / "mixture", *number])
    recipe = options.recipe or RECIPES / ("embedded.yaml" if options.model == EMBEDDED else "chat-lora.yaml")
    for method in options.method:
        model, rows = folder / f"{method}-model", folder / f"{method}-rows"
        asked = ["--model", options.model, *loading]
        if method == "counterfactual":
            # The measured descriptors are left out of training, unless the config contains all descriptors.
            left_out = ["--leave_out", config] if config.endswith("-small") else []
            learnt = ["--output_dir", rows, "--dataset_config", config.removesuffix("-small"), *left_out]
            steps.append(["hb_train.own_replies", *asked, *learnt, *options.replies_args])
        else:
            run, rows = folder / "labelled", folder / "labels"
            asked += ["--dataset_config", config, "--measurements", "generation", *LABELLED, *options.labelled_args]
            steps.append(["hb_metrics.measure", *asked, "--output_dir", run])
            given = ["--run_dir", run, "--output_dir", rows, *trust, "--beta", "0.0003", *options.label_args]
            steps.append(["hb_train.bias_labels", *given])
        given = ["--config", recipe, "--model_name_or_path", options.model, *trust, "--method", method]
        tuning: Step = ["hb_train.tune", *given, "--dataset_name", rows, "--output_dir", model, *options.tune_args]
        steps.append(tuning)
        measure(method, model)
        if method == "sft" and _parsed(tuning)[0].tag() is not None:
            measure(f"{method} without tag", model, "--tag", "none")
    if options.system_prompt:
        measure("system prompt", options.model, "--system_prompt", options.system_prompt)
    if options.mixture:
        runs[f"mixture of {options.mixture}"] = folder / "mixture" / MIXTURE_RUN
    return steps, runs


def compare_debiasing(options: argparse.Namespace) -> None:
    """Measures a model before and after each debiasing method, and its costs in the tasks that have options."""
    folder = Path(options.output_dir or f"runs/debias/{Path(options.model).name}-{options.bias_type}")
    data = ["--bias_type", options.bias_type, "--reddit_folder", options.reddit_folder]
    tasks = {"dst": ("dialog_state_tracking", options.dst_args), "crg": ("response_generation", options.crg_args)}
    trust = ["--trust_remote_code", str(options.trust_remote_code)]
    check_trainable(load_tokenizer(options.model, trust_remote_code=options.trust_remote_code))
    steps: list[Step] = []
    for name in ("before", *options.methods):
        model = options.model
        if name != "before":
            # Its name contains the model's, from which measurements recognise a DialoGPT without a chat template.
            model = folder / name / f"{Path(options.model).resolve().name}-{name}"
            given = ["--method", name, *data, "--model_name_or_path", options.model, "--output_dir", model, *trust]
            given += ["--per_device_train_batch_size", "16", *options.debias_args]
            steps.append(["hb_train.debias", *given])
        given = ["--model", model, "--measurements", "reddit,dialogue", *data, *trust]
        steps.append(["hb_metrics.measure", *given, "--output_dir", folder / name / "bias"])
        for task, (script, words) in tasks.items():
            if words:
                given = ["--model_name_or_path", model, "--output_dir", folder / name / task, *trust, *words]
                steps.append([f"hb_train.{script}", *given])
    _check_steps(steps)
    for step in steps:
        run_step(*step)
    write_debias_table(folder, ("before", *options.methods))


def _check_steps(steps: Sequence[Step], *, is_published: bool = False) -> None:
    """Parses the options of all steps, and checks whether the model can be tuned, before anything is computed."""
    context = ""
    for step in steps:
        name = str(step[0])
        if name in ("hb_train.mixture", "hb_train.side_effects"):  # these have no options of the user
            continue
        parsed = _parsed(step)
        if name == "hb_metrics.measure":
            context = parsed.run.context  # the labels of a tuning come from the measurement before it
        if name == "hb_train.tune":
            parsed[1].push_to_hub = is_published
            with _named(name):
                print(f"{parsed[0].method}: {import_module(name).check_model(*parsed, context)}")


def _parsed(step: Step) -> Any:
    name, *words = map(str, step)
    with _named(name):
        return parse_arguments(words) if name == "hb_metrics.measure" else import_module(name).parse(words)


@contextmanager
def _named(script: str) -> Iterator[None]:
    """Adds the name of a script to its errors."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{script}: {error}") from error
    except SystemExit:  # the parser has printed its error, but under the name of this command
        print(f"these are options of {script}", file=sys.stderr)
        raise


def run_step(module: str | Path, *words: str | Path) -> None:
    """Runs a script in its own process. Exits if the script fails, with its status if a gate failed."""
    # With --quiet, accelerate adds no traceback to the script's own error.
    launcher = [] if module in NOT_LAUNCHED else ["-m", "accelerate.commands.launch", "--quiet"]
    command = ["-m", *map(str, (module, *words))]
    print(f"$ python {shlex.join(command)}", flush=True)
    status = subprocess.run([sys.executable, *launcher, *command]).returncode
    if status:
        message = f"{module} exited with status {status}; to resume, run the same command again"
        raise SystemExit(GATE_STATUS if status == GATE_STATUS else message)


def _parser(command: str, output_dir: str | None) -> CommandParser:
    parser = CommandParser(prog=f"holistic-bias {command} --compare", description=first_line(__doc__))
    parser.add_argument("--model", default=EMBEDDED, help="The model: a Hub id, a local folder or 'embedded'.")
    trusted = "Allow Python code supplied with the model to run on this machine."
    parser.add_argument("--trust_remote_code", type=string_to_bool, nargs="?", const=True, default=False, help=trusted)
    shown = output_dir or "runs/debias/MODEL-BIAS_TYPE"
    parser.add_argument(
        "--output_dir", default=output_dir, help=f"The folder for the output of all steps. Default: {shown}."
    )
    return parser


def _add_words(parser: argparse.ArgumentParser, step: str, what: str) -> None:
    help_text = f"Further options for {what}. Write all of them after '=', in one pair of quotes."
    parser.add_argument(f"--{step}_args", type=shlex.split, default=[], metavar="WORDS", help=help_text)
