r"""Opens a pull request with a run's figures on its model's page.

    holistic-bias publish results runs/gpt2 --repo_id openai-community/gpt2 \
        --dataset_id ORG/holistic_bias

It shows all changes and asks before it opens the pull request. `--yes` skips the question. `--dry_run DIR` writes the
files into a folder instead, without a token or a network.

The pull request adds a section between two markers to README.md and, with
`--dataset_id`, the evaluation results that the Hub reads
(`.eval_results/holistic_bias_*.yaml`). Publishing again replaces that section
and nothing else of the card. If main or your open pull request already has
everything, no pull request is opened.
"""

import argparse
import difflib
import sys
import unicodedata
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hb_metrics.runs.run_record import figures_belong_to, is_on_hub, measured_model, tag_of
from hub_scripts import hub
from hub_scripts.hub import CARD_FILE
from hub_scripts.options import add_dry_run_option, repo_id, web_address, write_files
from hub_scripts.results_section import END, START, card_section, with_section
from hub_scripts.run_figures import evaluation_results, run_figures, version_of

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import ModelInfo


class Change(NamedTuple):
    """A file of the pull request; `before` is `None` if main does not have it."""

    path: str
    before: str | None
    after: str


def main(argv: Sequence[str] | None = None) -> None:
    """Shows the changes, asks, and opens the pull request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN", help="The folder of a finished run of `measure`.")
    parser.add_argument("--repo_id", required=True, type=repo_id, metavar="OWNER/NAME", help="The model's repository.")
    parser.add_argument(
        "--before", type=Path, metavar="RUN", help="The run to compare with, such as the run before tuning."
    )
    parser.add_argument(
        "--dataset_id",
        type=repo_id,
        metavar="OWNER/NAME",
        help="The Hub id of HolisticBias. Without it, the pull request has only the card section, and no evaluation "
        "results.",
    )
    parser.add_argument("--source_url", type=web_address, metavar="URL", help="A page with the run or its report.")
    parser.add_argument(
        "--same_model", action="store_true", help="Confirm that the run's model is --repo_id under another name."
    )
    parser.add_argument("--yes", action="store_true", help="Open the pull request without asking.")
    add_dry_run_option(parser)
    options = parser.parse_args(argv)
    try:
        results = read_settled_results(options.run)
        check_model(results["run"], options.repo_id, same_model=options.same_model)
        if not is_on_hub(figures_belong_to(results["run"]["model"])):
            print(f"the run measured {measured_model(results['run'])}: check that {options.repo_id} holds this model")
        if options.dry_run is None:
            _publish(results, options)
        else:
            _write(results, options)
    except KeyError as error:
        raise SystemExit(f"publish_results.py: the results lack {error}; measure again in a new folder") from error
    except (ValueError, OSError, RuntimeError) as error:
        raise SystemExit(f"publish_results.py: {error}") from error


def read_settled_results(folder: Path) -> dict[str, Any]:
    """The content of a run's results.json, if it measured all prompts of a config of a frozen version.

    Raises:
        ValueError: The folder contains no finished run, or the run has no figures or measured other prompts.
    """
    from hb_dataset.prompts import version_configs
    from hb_dataset.versions import frozen_versions
    from hb_metrics.runs.finished_run import read_run

    results = read_run(folder).results
    settings, config = results["run"]["settings"], results["run"]["data"]["config"]
    for option in ("vocabulary_dir", "axes"):
        if settings.get(option) is not None:
            raise ValueError(f"the run has --{option} {settings[option]}; publish a run without this option")
    allowed = [name for version in frozen_versions() for name in version_configs(version)]
    if config not in allowed:
        raise ValueError(f"the run measured {config!r}, which is not published; allowed: {', '.join(allowed)}")
    if not run_figures(results):
        raise ValueError(f"'{folder}' has no figures to publish; measure with --measurements likelihood or generation")
    return results


def check_model(run: Mapping[str, Any], repo_id: str, *, same_model: bool = False) -> None:
    """Rejects a run of another model of the Hub. A local folder or the embedded model may be the repository's model.

    Raises:
        ValueError: The run measured another Hub id, and `same_model` is not set.
    """
    subject = figures_belong_to(run["model"])
    if is_on_hub(subject) and subject["name"] != repo_id and not same_model:
        raise ValueError(
            f"the run measured '{subject['name']}', not '{repo_id}'; set --repo_id {subject['name']}, or --same_model "
            "if they are the same model under two names"
        )


def planned_changes(
    results: Mapping[str, Any], options: argparse.Namespace, read: Callable[[str], str | None]
) -> list[Change]:
    """The changes of the pull request, without files that already have the right content.

    Args:
        results: The content of results.json.
        options: The options of the command line.
        read: Path → the content on main; `None`: no file.
    """
    files = {}
    if options.dataset_id is not None:
        files = evaluation_results(results, options.dataset_id, options.source_url)
    changes_from = None if options.before is None else _changes_from(options.before, options.run)
    section = card_section(results, options.repo_id, options.dataset_id, changes_from)
    files[CARD_FILE] = with_section(read(CARD_FILE) or "", section)
    changes = [Change(path, read(path), text) for path, text in files.items()]
    return [change for change in changes if change.before != change.after]


def shown_changes(changes: Sequence[Change]) -> str:
    """The changes as unified diffs. Control characters are replaced, since other people wrote the card."""
    lines: list[str] = []
    for change in changes:
        old, new = (change.before or "").splitlines(), change.after.splitlines()
        name = "/dev/null" if change.before is None else f"main/{change.path}"
        lines += [*difflib.unified_diff(old, new, name, change.path, lineterm=""), ""]
    return "\n".join("".join("�" if _steers(letter) else letter for letter in line) for line in lines)


def _publish(results: Mapping[str, Any], options: argparse.Namespace) -> None:
    api = hub.connect()
    with hub.explained(api, f"Reading {options.repo_id}"):
        model = api.model_info(options.repo_id)
    if options.dataset_id is not None:
        version = version_of(results["run"]["data"]["config"])
        with hub.explained(
            api, f"Reading version {version} of dataset {options.dataset_id}, which must be published first"
        ):
            api.dataset_info(options.dataset_id, revision=version)
    changes = planned_changes(results, options, lambda path: _read_file(api, model, path))
    if not changes:
        print(f"nothing to change: {options.repo_id} already has all of this")
        return
    print(shown_changes(changes))
    if not options.yes:
        _ask(f"Open a pull request on {options.repo_id} that changes {len(changes)} files as above? [y/N] ")
    run = results["run"]
    with warnings.catch_warnings():
        # The warnings concern the card's front matter, which stays unchanged.
        warnings.filterwarnings("ignore", "Warnings while validating metadata", UserWarning)
        tag = tag_of(results)
        url, opened = hub.propose(
            api,
            options.repo_id,
            {change.path: change.after.encode() for change in changes},
            parent=str(model.sha),
            title=f"HolisticBias results ({run['data']['config']}{'' if tag is None else f', asked with {tag}'})",
            description=_description(run, changes),
        )
    print(f"pull request: {url}" if opened else f"proposed already: {url}")


def _write(results: Mapping[str, Any], options: argparse.Namespace) -> None:
    """Writes the files into the folder of --dry_run."""
    changes = planned_changes(results, options, lambda path: None)
    print(shown_changes(changes))
    write_files(options.dry_run, {change.path: change.after.encode() for change in changes})
    for change in changes:
        print(f"written: {options.dry_run / change.path}")
    print(f"this {CARD_FILE} is for a repository without one; a pull request adds the section to the card on the Hub")
    print("nothing was published")


def _changes_from(before: Path, run: Path) -> str:
    """The changes from one run to another, in Markdown.

    Raises:
        ValueError: A folder has no finished run, or the runs have nothing in common.
    """
    from hb_metrics.report.changes import changes_markdown, run_changes
    from hb_metrics.runs.finished_run import read_run

    first, second = read_run(before), read_run(run)
    changes = run_changes(first, second, (measured_model(first.results["run"]), "this model"))
    if not changes.rows and not changes.missing:
        raise ValueError(
            f"'{before}' and '{run}' have no measurement in common; set --before to a run with the same measurement"
        )
    return changes_markdown(changes).strip()


def _ask(question: str) -> None:
    """Asks on the terminal, and ends the program unless the answer is yes."""
    if not sys.stdin.isatty():
        raise ValueError("nothing was written: no terminal can answer; check the changes above, then add --yes")
    try:
        answer = input(question)
    except (EOFError, KeyboardInterrupt):
        answer = ""
        print()
    if answer.strip().lower() not in ("y", "yes"):
        print("nothing was written")
        raise SystemExit(1)


def _description(run: Mapping[str, Any], changes: Sequence[Change]) -> str:
    """The text that the model's owners read before they merge."""
    paths = "\n".join(f"* `{change.path}`" for change in changes)
    return f"""\
These figures show how differently the model treats people by the words that describe them, measured with HolisticBias
{version_of(run["data"]["config"])} (Smith et al., 2022): {measured_model(run)}.

{paths}

The pull request adds or replaces only the section of {CARD_FILE} between the markers `{START[5:-4]}` and `{END[5:-4]}`.
The section explains the figures and their limits, and contains the command that reproduces them.
"""


def _read_file(api: "HfApi", model: "ModelInfo", path: str) -> str | None:
    """The content of a file of the model's repository at the commit of `model`; `None`: there is no such file."""
    if all(sibling.rfilename != path for sibling in model.siblings or []):
        return None
    with hub.explained(api, f"Reading {path} of {model.id}"):
        return Path(api.hf_hub_download(model.id, path, revision=model.sha)).read_bytes().decode()


def _steers(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cf") and letter != "\t"


if __name__ == "__main__":
    main()
