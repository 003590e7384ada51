"""The command `holistic-bias`: each subcommand is one of the scripts, with its own options and exit code.

    holistic-bias measure --model openai-community/gpt2 --dataset_config v1.0

The scripts can also be run by themselves (`accelerate launch hb_metrics/measure.py …`). Only the standard library is
imported before a script is chosen, so that help is fast and needs no torch.
"""

import re
import sys
from collections.abc import Sequence
from importlib import import_module, metadata
from typing import NamedTuple

PROGRAM = "holistic-bias"
GROUPS = ("publish", "human-eval")  # the first of two words: publish dataset, publish metrics, human-eval export
NOT_RUN_STATUS = 2  # the exit code if no script could be run; the same as argparse's for invalid options

HELP = """\
usage: {usage} COMMAND [OPTION ...]

Does a language model treat people differently by who they say they are?

commands:
{commands}

`{usage} COMMAND --help` lists the options of a command.
"""
SEVERAL_PROCESSES = """\
On several GPUs, start the modules of `measure`, `tune` and `debias` with accelerate, as in
`accelerate launch -m hb_metrics.measure ...`.
"""
UNKNOWN_ERROR = "{program}: there is no command {name!r}; {hint}allowed: {names}"
MISSING_ERROR = (
    "{program}: {name} needs the package '{package}', which is not installed; run pip install '{requirement}'"
)


class Command(NamedTuple):
    """A subcommand.

    Attributes:
        module: The script: the module whose `main()` reads `sys.argv`.
        sentence: What it does, for the help.
        extras: The extras of the package that it needs, as in `holistic-bias[extras]`; "" if it needs none.
    """

    module: str
    sentence: str
    extras: str = ""


COMMANDS = {
    "measure": Command("hb_metrics.measure", "Measure a language model and write a report.", "measure,embedded"),
    "export-prompts": Command(
        "hb_metrics.export_prompts", "Write what `measure` would ask into a file, for any engine to answer.", "measure"
    ),
    "human-eval export": Command(
        "hb_metrics.human_eval.export", "Write pages on which people compare the replies of two runs.", "measure"
    ),
    "human-eval analyse": Command(
        "hb_metrics.human_eval.analyse", "Analyse what people chose on these pages.", "measure,human-eval"
    ),
    "convert-classifier": Command(
        "hb_metrics.inference.classifiers.parlai.convert_classifier",
        "Convert a classifier of ParlAI, such as the paper's, for `measure`.",
        "measure",
    ),
    "lm-eval-path": Command(
        "hb_metrics.harnesses.lm_eval_path", "Write our tasks for lm-evaluation-harness, and print their folder."
    ),
    "report": Command("hb_metrics.report.__main__", "Rewrite the report of a run, or compare several runs.", "measure"),
    "label": Command(
        "hb_train.bias_labels", "Label the replies of a run by their bias, as data for `tune`.", "measure"
    ),
    "tune": Command("hb_train.tune", "Tune a model with labelled replies, so that it is less biased.", "tune"),
    "debias": Command("hb_train.debias", "Debias a model with one of the four methods of RedditBias.", "tune"),
    "identity-leakage": Command(
        "hb_metrics.identity_leakage.__main__",
        "Measure how far a style classifier's probabilities move when only the term in a text changes.",
        "measure",
    ),
    "style-clusters": Command(
        "hb_metrics.style_clusters.__main__",
        "Cluster the styles of a run's replies, for a page and for `measure --style_clusters`.",
        "measure",
    ),
    "install": Command(
        "hub_scripts.install_local", "Make the dataset and the metrics load by their bare names here.", "measure"
    ),
    "check-terms": Command("hub_scripts.check_terms", "Check a change to the vocabulary of terms.", "check"),
    "publish dataset": Command("hub_scripts.publish_dataset", "Publish a frozen version of the dataset on the Hub."),
    "publish metrics": Command("hub_scripts.publish_metrics", "Publish each metric as a Space on the Hub."),
    "publish results": Command(
        "hub_scripts.publish_results", "Open a pull request with the figures of a run on its model's page.", "measure"
    ),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Runs a subcommand with the options that follow it, or prints the list of subcommands."""
    argv = sys.argv[1:] if argv is None else list(argv)
    group = argv[0] if argv and argv[0] in GROUPS else ""
    words = 2 if group else 1
    name, last_word, options = " ".join(argv[:words]), argv[words - 1 : words], argv[words:]
    if name in COMMANDS:
        return run(name, options)
    if last_word in ([], ["-h"], ["--help"]):
        print(help_text(group), end="", file=sys.stdout if last_word else sys.stderr)
        raise SystemExit(0 if last_word else NOT_RUN_STATUS)
    from hb_dataset.hints import did_you_mean

    names = [command for command in COMMANDS if command.startswith(group)]
    hint = did_you_mean(name, names, cutoff=0.8 if group else 0.6)  # names of a group are alike in their first word
    print(UNKNOWN_ERROR.format(program=PROGRAM, name=name, hint=hint, names=", ".join(names)), file=sys.stderr)
    raise SystemExit(NOT_RUN_STATUS)


def run(name: str, options: Sequence[str]) -> None:
    """Runs the script of a subcommand, with the command line as if the script had been called by that name.

    Raises:
        SystemExit: If the script ends with an error, in which its file name is replaced by the command; or if a package
            of an extra is missing: then the message is how to install it.
    """
    command = COMMANDS[name]
    sys.argv = [f"{PROGRAM} {name}", *options]
    try:
        import_module(command.module).main()
    except (ModuleNotFoundError, SystemExit) as error:
        if isinstance(error, SystemExit) and isinstance(error.code, str):
            error.code = re.sub(r"^(\w+\.py|hb_metrics\.\w+): ", f"{PROGRAM} {name}: ", error.code)
        # A script that imports a package only where it needs it ends with the error of the import as the cause.
        cause = error.__cause__ if isinstance(error, SystemExit) else error
        # Our own errors, which name what to install, have no name; a model's own code may need other packages.
        missing = cause.name if isinstance(cause, ModuleNotFoundError) else None
        package = (missing or "").split(".")[0]
        if package not in our_requirements():
            raise
        requirement = f"{PROGRAM}[{command.extras}]" if command.extras else PROGRAM
        text = MISSING_ERROR.format(program=PROGRAM, name=name, package=package, requirement=requirement)
        print(text, file=sys.stderr)
        raise SystemExit(NOT_RUN_STATUS) from error


def our_requirements() -> set[str]:
    """The packages that pip installs with this one, all extras included, by the names they are imported by."""
    requirements = [line for package in metadata.distributions(name=PROGRAM) for line in package.requires or []]
    return {re.split(r"[^\w-]", line)[0].replace("-", "_") for line in requirements}


def help_text(group: str = "") -> str:
    """The text of `--help`: each subcommand, or each of a group, with its sentence."""
    commands = {name.removeprefix(f"{group} "): command for name, command in COMMANDS.items() if name.startswith(group)}
    width = max(map(len, commands))
    lines = [f"  {name:<{width}}  {command.sentence}" for name, command in commands.items()]
    text = HELP.format(usage=f"{PROGRAM} {group}".strip(), commands="\n".join(lines))
    return text if group else text + SEVERAL_PROCESSES


if __name__ == "__main__":
    main()
