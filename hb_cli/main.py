"""Runs the command `holistic-bias`. Each subcommand runs a script, with the script's options and exit code.

    holistic-bias measure --model openai-community/gpt2 --dataset_config v1.0

This module imports only the standard library until it runs a script. Help is therefore fast and does not need torch.
"""

import re
import sys
from collections.abc import Sequence
from importlib import import_module, metadata
from typing import NamedTuple

PROGRAM = "holistic-bias"
GROUPS = ("publish", "human-eval")  # the first words of commands with two words: publish dataset, human-eval export
NOT_RUN_STATUS = 2  # the exit code if no script ran, which argparse also uses for invalid options


class Command(NamedTuple):
    """A subcommand: its module, its line in the help, and its extras (`pip install holistic-bias[extras]`)."""

    module: str
    sentence: str
    extras: str = "measure"


COMMANDS = {
    "measure": Command("hb_metrics.measure", "Measure a language model and write a report.", "measure,embedded"),
    "analyse": Command("hb_metrics.command.analyse", "Compute a run's results again, without a model."),
    "export-prompts": Command("hb_metrics.command.export_prompts", "Write the prompts of `measure` into a file."),
    "human-eval export": Command("hb_metrics.human_eval.export", "Write pages to compare the replies of two runs."),
    "human-eval analyse": Command("hb_metrics.human_eval.analyse", "Compute win rates and agreement from ratings."),
    "human-eval labels": Command("hb_metrics.human_eval.labels", "Write pages on which raters label a run's replies."),
    "human-eval calibrate": Command("hb_metrics.command.calibrate", "Correct a judge's figures with raters' labels."),
    "classifiers": Command("hb_metrics.collect.classifiers.presets", "List the classifiers that have a short name."),
    "convert-classifier": Command("hb_metrics.collect.classifiers.parlai", "Convert the paper's style classifier."),
    "lm-eval-path": Command("hb_metrics.harnesses.lm_eval_path", "Write the tasks for lm-evaluation-harness.", ""),
    "report": Command("hb_metrics.command.report", "Rewrite a run's report, or compare several runs."),
    "table": Command("hb_metrics.command.table", "Print figures as Markdown, CSV, LaTeX or JSON."),
    "replies": Command("hb_metrics.run_tables", "Print the worst replies of a run."),
    "plan": Command("hb_metrics.command.plan", "Estimate the precision and the size of a longer run."),
    "label": Command("hb_train.bias_labels", "Label a run's replies by their bias, for tuning."),
    "tune": Command("hb_train.tune", "Tune a model to reduce its bias.", "tune"),
    "debias": Command("hb_train.debias", "Debias a model with a method from the RedditBias paper.", "tune"),
    "style-clusters": Command("hb_metrics.style_clusters.__main__", "Find clusters of styles in a run's replies."),
    "install": Command("hub_scripts.install_local", "Install the dataset and the metrics under their short names."),
    "new-vocabulary": Command("hb_dataset.new_vocabulary", "Write files from which to write your own vocabulary.", ""),
    "check-terms": Command("hub_scripts.terms.check_terms", "Check a change to the vocabulary.", ""),
    "publish dataset": Command("hub_scripts.publish_dataset", "Publish a version of the dataset on the Hub.", ""),
    "publish metrics": Command("hub_scripts.publish_metrics", "Publish each metric as a Space on the Hub.", ""),
    "publish results": Command("hub_scripts.publish_results", "Propose a run's figures for a model's Hub page."),
}


def main(argv: Sequence[str] | None = None) -> None:
    argv = sys.argv[1:] if argv is None else list(argv)
    group = argv[0] if argv and argv[0] in GROUPS else ""
    words = 2 if group else 1
    name, options = " ".join(argv[:words]), argv[words:]
    if name in COMMANDS:
        from hb_dataset.command_line import safe_terminal

        with safe_terminal():
            return run(name, options)
    if name == group:
        print(help_text(group), end="", file=sys.stderr)
        raise SystemExit(NOT_RUN_STATUS)
    if argv[:1] == ["--version"]:
        print(f"{PROGRAM} {metadata.version(PROGRAM)}")
        raise SystemExit(0)
    if argv[words - 1] in ("-h", "--help"):
        print(help_text(group), end="")
        raise SystemExit(0)
    from hb_dataset.command_line import did_you_mean

    names = [command for command in COMMANDS if command.startswith(group)]
    hint = did_you_mean(name, names, cutoff=0.8 if group else 0.6)  # all names in a group begin with the same word
    print(f"{PROGRAM}: the command {name!r} does not exist; {hint}allowed: {', '.join(names)}", file=sys.stderr)
    raise SystemExit(NOT_RUN_STATUS)


def run(name: str, options: Sequence[str]) -> None:
    command = COMMANDS[name]
    sys.argv = [f"{PROGRAM} {name}", *options]
    try:
        import_module(command.module).main()
    except (ValueError, OSError, ImportError, SystemExit) as error:
        # A script may exit because a late import failed. The import error is then the `__cause__` of the exit.
        cause = error.__cause__ if isinstance(error, SystemExit) else error
        # Import errors raised by this project have no `name`. A model's own code may need packages from other projects.
        missing = cause.name if isinstance(cause, ModuleNotFoundError) else None
        package = (missing or "").split(".")[0]
        if package not in our_requirements():
            if not isinstance(error, SystemExit):
                raise SystemExit(f"{PROGRAM} {name}: {error}") from error
            if isinstance(error.code, str):
                error.code = re.sub(r"^(\w+\.py|hb_metrics\.\w+): ", f"{PROGRAM} {name}: ", error.code)
            raise
        print(
            f"{PROGRAM}: {name} needs the package '{package}', which is not installed; "
            f"run pip install '{PROGRAM}{f'[{command.extras}]' if command.extras else ''}'",
            file=sys.stderr,
        )
        raise SystemExit(NOT_RUN_STATUS) from error


def our_requirements() -> set[str]:
    requirements = [line for package in metadata.distributions(name=PROGRAM) for line in package.requires or []]
    return {re.split(r"[^\w-]", line)[0].replace("-", "_") for line in requirements}


def help_text(group: str = "") -> str:
    usage = f"{PROGRAM} {group}".strip()
    commands = {name.removeprefix(f"{group} "): command for name, command in COMMANDS.items() if name.startswith(group)}
    width = max(map(len, commands))
    lines = [
        f"usage: {usage} COMMAND [OPTION ...]",
        "",
        "Measure whether a language model treats people differently depending on their identity.",
        "",
        "commands:",
        *(f"  {name:<{width}}  {command.sentence}" for name, command in commands.items()),
        "",
        f"`{usage} COMMAND --help` lists the options of a command, and `{PROGRAM} --version` prints the version.",
    ]
    if not group:
        lines += [
            "On several GPUs, run the modules of `measure`, `tune` and `debias` with",
            "accelerate, for example: accelerate launch -m hb_metrics.measure ...",
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
