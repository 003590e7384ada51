"""Publishes a run's figures on its model's page: opens a pull request with evaluation results and a card section.

    holistic-bias publish results runs/gpt2-v1.0 --repo_id openai-community/gpt2 --dataset_id ORG/holistic_bias

It shows all that it will write and asks first; `--yes` answers for you, `--dry_run DIR` writes the files there instead,
without a token or a network. The pull request adds `.eval_results/holistic_bias_*.yaml`, what the Hub reads (see
run_figures.py), if --dataset_id names the dataset they are about, and to README.md a section between two markers.
Publishing again replaces that section and nothing else of the card; where main already has everything, or a pull
request of yours that is open, no other one is opened.
"""

import argparse
import difflib
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hb_metrics.runs.run_record import figures_belong_to, is_on_hub, measured_model, tag_of
from hub_scripts import hub
from hub_scripts.addresses import check_address, check_repo_id
from hub_scripts.dry_run import check_empty, write_files
from hub_scripts.results_section import END, START, card_section, with_section
from hub_scripts.run_figures import evaluation_results, run_figures, version_of

if TYPE_CHECKING:
    from huggingface_hub import HfApi, ModelInfo

CARD_FILE = "README.md"

NOT_A_RUN_ERROR = "'{folder}' is not a run folder: it has no {file}; give the --output_dir of measure.py"
NOT_FINISHED_ERROR = (
    "'{folder}' has no {file}: a run of measure.py in it is not finished, and the same command again finishes it; or "
    "it is the folder of another script"
)
NO_FIGURES_ERROR = (
    "the run in '{folder}' has no figures to publish; measure with --measurements likelihood or generation"
)
OWN_VOCABULARY_ERROR = (
    "the run measured a vocabulary of its own ({folder}), so that its figures are not those of {config}"
)
AXES_ERROR = "the run measured only {axes}, so that its figures are not those of {config}; measure without --axes"
NOT_FROZEN_ERROR = "the run measured '{config}', which is of no published version; measure one of {versions}"
OTHER_MODEL_ERROR = (
    "the run measured '{measured}', not '{repo_id}'; give --repo_id {measured}, or --same_model if they are the same "
    "model under two names"
)

ENCODING_ERROR = "{path} is not UTF-8 ({error}); correct it first"
NO_MODEL_ERROR = "there is no model repo {repo_id}, or the token in use cannot see it; check its name"
NO_DATASET_ERROR = (
    "the dataset {dataset_id} has no version {version} on the Hub, which the results have to name; publish it first "
    "(publish_dataset.py), or leave --dataset_id out to write the card section alone"
)
READING_ERROR = "{repo_id} cannot be read ({reason}); nothing was written, try again"
CHANGED_ERROR = (
    "{repo_id} was changed meanwhile, so that what was shown is out of date; nothing was written, start again"
)
ASK_ERROR = "nothing was written: there is no terminal to ask on; read what is shown above, then give --yes"

NOTHING_TO_COMPARE_ERROR = "'{before}' and '{run}' have no measurement in common; give a run of the same measurements"

FOLDER_NOTE = "the run measured {measured}: see for yourself that this is what {repo_id} holds"
NO_DATASET_NOTE = "without --dataset_id ORG/holistic_bias only the card section is written, and no evaluation results"


class Change(NamedTuple):
    """A file of the pull request; `before` is `None` if main does not have it."""

    path: str
    before: str | None
    after: str


def main(argv: Sequence[str] | None = None) -> None:
    """Shows what is to be written, asks, and opens the pull request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a finished run of measure.py")
    parser.add_argument("--repo_id", required=True, help="model repo, OWNER/NAME")
    parser.add_argument("--before", type=Path, metavar="RUN", help="run to show changes from, such as before tuning")
    parser.add_argument("--dataset_id", help="dataset repo of HolisticBias; without it no evaluation results")
    parser.add_argument("--source_url", help="where the run or its report can be looked at")
    parser.add_argument("--same_model", action="store_true", help="the run's Hub id is another name of --repo_id")
    parser.add_argument("--yes", action="store_true", help="open the pull request without asking")
    parser.add_argument("--dry_run", type=Path, metavar="DIR", help="write the files here and push nothing")
    parser.add_argument("--card", type=Path, metavar="FILE", help="with --dry_run: the README.md that the repo has")
    options = parser.parse_args(argv)
    if options.card is not None and options.dry_run is None:
        parser.error("--card goes with --dry_run; otherwise the card is the one on the Hub")
    try:
        check_repo_id(options.repo_id)
        if options.dataset_id is not None:
            check_repo_id(options.dataset_id, "dataset_id")
        if options.source_url is not None:
            check_address(options.source_url, "source_url")
        results = read_settled_results(options.run)
        check_model(results["run"], options.repo_id, same_model=options.same_model)
        if not is_on_hub(figures_belong_to(results["run"]["model"])):
            print(FOLDER_NOTE.format(measured=measured_model(results["run"]), repo_id=options.repo_id))
        if options.dataset_id is None:
            print(NO_DATASET_NOTE)
        if options.dry_run is None:
            _publish(results, options)
        else:
            _write(results, options)
    except (ValueError, OSError, RuntimeError) as error:
        raise SystemExit(f"publish_results.py: {error}") from error


def read_settled_results(folder: Path) -> dict[str, Any]:
    """The content of a run's results.json, if its figures are those of a config that others can measure too.

    Raises:
        ValueError: It is no finished run, has no figures, or is about prompts that are not those of a frozen version.
    """
    from hb_metrics.runs.finished_run import read_run
    from hb_metrics.runs.run_folder import RESULTS_FILE, RUN_FILE

    if not (folder / RESULTS_FILE).is_file():
        if (folder / RUN_FILE).is_file():
            raise ValueError(NOT_FINISHED_ERROR.format(folder=folder, file=RESULTS_FILE))
        raise ValueError(NOT_A_RUN_ERROR.format(folder=folder, file=RUN_FILE))
    results = read_run(folder).results
    check_settled(results)
    if not run_figures(results):
        raise ValueError(NO_FIGURES_ERROR.format(folder=folder))
    return results


def check_settled(results: Mapping[str, Any]) -> None:
    """Checks that a run measured all prompts of a config of a frozen version.

    Args:
        results: The content of its results.json.

    Raises:
        ValueError: It measured a vocabulary of its own, only some axes, or a version that is not frozen.
    """
    from hb_dataset.versions import frozen_versions

    settings, config = results["run"]["settings"], results["run"]["data"]["config"]
    if settings.get("vocabulary_dir") is not None:
        raise ValueError(OWN_VOCABULARY_ERROR.format(folder=settings["vocabulary_dir"], config=config))
    if settings.get("axes") is not None:
        raise ValueError(AXES_ERROR.format(axes=", ".join(settings["axes"]), config=config))
    if version_of(config) not in frozen_versions():
        raise ValueError(NOT_FROZEN_ERROR.format(config=config, versions=", ".join(frozen_versions())))


def check_model(run: Mapping[str, Any], repo_id: str, *, same_model: bool = False) -> None:
    """Refuses a run of another model of the Hub. A folder or the embedded model may be what the repo holds.

    Raises:
        ValueError: The run measured another Hub id, and nobody says that it is the same model.
    """
    subject = figures_belong_to(run["model"])
    measured = subject["name"]
    if is_on_hub(subject) and measured != repo_id and not same_model:
        raise ValueError(OTHER_MODEL_ERROR.format(measured=measured, repo_id=repo_id))


def planned_changes(
    results: Mapping[str, Any],
    repo_id: str,
    read: Callable[[str], str | None],
    *,
    dataset_id: str | None = None,
    source_url: str | None = None,
    changes_from: str | None = None,
) -> list[Change]:
    """What the pull request changes: no file that is as it should be already.

    Args:
        results: The content of results.json.
        repo_id: The model's Hub id.
        read: Path → what main holds there; `None`: nothing.
        dataset_id: The dataset's Hub id; `None`: only the card section is written.
        source_url: Where the run can be looked at.
        changes_from: The changes from an earlier run, in Markdown; `None`: not shown.
    """
    files = {} if dataset_id is None else evaluation_results(results, dataset_id, source_url)
    changes = [Change(path, read(path), text) for path, text in files.items()]
    card = read(CARD_FILE)
    changes.append(
        Change(CARD_FILE, card, with_section(card or "", card_section(results, repo_id, dataset_id, changes_from)))
    )
    return [change for change in changes if change.before != change.after]


def shown_changes(changes: Sequence[Change]) -> str:
    """The changes as unified diffs. What could steer a terminal is replaced, since the card is other people's text."""
    lines = []
    for change in changes:
        old, new = ((text or "").splitlines() for text in (change.before, change.after))
        name = "/dev/null" if change.before is None else f"main/{change.path}"
        lines += [*difflib.unified_diff(old, new, name, change.path, lineterm=""), ""]
    return "\n".join("".join("�" if _steers(letter) else letter for letter in line) for line in lines)


def _publish(results: Mapping[str, Any], options: argparse.Namespace) -> None:
    api, repo_id = hub.connect(), options.repo_id
    model = _model_info(api, repo_id)
    if options.dataset_id is not None:
        _check_dataset(api, options.dataset_id, version_of(results["run"]["data"]["config"]))
    changes = _planned(results, options, lambda path: _read_file(api, model, path))
    if not changes:
        print(f"nothing to change: {repo_id} already has all of this")
        return
    print(shown_changes(changes))
    if not options.yes:
        _ask(f"Open a pull request on {repo_id} that changes {len(changes)} files as above? [y/N] ")
    if _model_info(api, repo_id).sha != model.sha:
        raise ValueError(CHANGED_ERROR.format(repo_id=repo_id))
    with warnings.catch_warnings():
        # Of the card's front matter, which is not touched.
        warnings.filterwarnings("ignore", "Warnings while validating metadata", UserWarning)
        pushed = hub.push(
            api,
            repo_id,
            {change.path: change.after.encode() for change in changes},
            repo_type="model",
            message=_title(results["run"]),
            description=_description(results["run"], changes),
            pull_request=True,
        )
    print(f"pull request: {pushed.url}" if pushed.written else f"proposed already: {pushed.url}")


def _write(results: Mapping[str, Any], options: argparse.Namespace) -> None:
    """Writes the files into the folder of --dry_run."""
    check_empty(options.dry_run)
    card = None if options.card is None else _text(options.card.read_bytes(), str(options.card))
    changes = _planned(results, options, {CARD_FILE: card}.get)
    print(shown_changes(changes))
    write_files(options.dry_run, {change.path: change.after.encode() for change in changes})
    print("".join(f"written: {options.dry_run / change.path}\n" for change in changes), end="")
    if card is None:
        print(f"{CARD_FILE} is what a repo without one gets; give --card FILE for a repo that has one")
    print("nothing was pushed")


def _planned(
    results: Mapping[str, Any], options: argparse.Namespace, read: Callable[[str], str | None]
) -> list[Change]:
    return planned_changes(
        results,
        options.repo_id,
        read,
        dataset_id=options.dataset_id,
        source_url=options.source_url,
        changes_from=None if options.before is None else _changes_from(options.before, options.run),
    )


def _changes_from(before: Path, run: Path) -> str:
    """The changes from one run to another, in Markdown.

    Raises:
        ValueError: A folder is not that of a finished run, or the runs have nothing in common.
    """
    from hb_metrics.report.changes import changes_markdown, run_changes
    from hb_metrics.runs.finished_run import read_run

    first, second = read_run(before), read_run(run)
    changes = run_changes(first, second, (measured_model(first.results["run"]), "this model"))
    if not changes.rows and not changes.missing:
        raise ValueError(NOTHING_TO_COMPARE_ERROR.format(before=before, run=run))
    return changes_markdown(changes).strip()


def _ask(question: str) -> None:
    """Asks on the terminal, and ends the program unless the answer is yes."""
    if not sys.stdin.isatty():
        raise ValueError(ASK_ERROR)
    try:
        answer = input(question)
    except (EOFError, KeyboardInterrupt):
        answer = ""
        print()
    if answer.strip().lower() not in ("y", "yes"):
        print("nothing was written")
        raise SystemExit(1)


def _title(run: Mapping[str, Any]) -> str:
    tag = tag_of({"run": run})
    return f"HolisticBias results ({run['data']['config']}{'' if tag is None else f', asked with {tag}'})"


def _description(run: Mapping[str, Any], changes: Sequence[Change]) -> str:
    """What the owners of the model read before they merge."""
    paths = "\n".join(f"* `{change.path}`" for change in changes)
    return f"""\
Figures of how differently the model treats people by the words they are described with, measured with HolisticBias
{version_of(run["data"]["config"])} (Smith et al., 2022): {measured_model(run)}.

{paths}

In {CARD_FILE} only the section between the markers `{START[5:-4]}` and `{END[5:-4]}` is added or replaced. It
says what the figures mean, what they do not, and the command that measures them again.
"""


def _model_info(api: "HfApi", repo_id: str) -> "ModelInfo":
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        with _readable(repo_id):
            return api.model_info(repo_id)
    except RepositoryNotFoundError as error:
        raise ValueError(NO_MODEL_ERROR.format(repo_id=repo_id)) from error


def _read_file(api: "HfApi", model: "ModelInfo", path: str) -> str | None:
    """What a file of the model repo holds; `None`: there is no such file."""
    if all(sibling.rfilename != path for sibling in model.siblings or []):
        return None
    # At the commit: without one, where the Hub does not answer, it would be what was downloaded once before.
    with _readable(model.id):
        content = Path(api.hf_hub_download(model.id, path, revision=model.sha)).read_bytes()
    return _text(content, f"{model.id}/{path}")


def _check_dataset(api: "HfApi", dataset_id: str, version: str) -> None:
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    try:
        with _readable(dataset_id):
            api.dataset_info(dataset_id, revision=version)
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise ValueError(NO_DATASET_ERROR.format(dataset_id=dataset_id, version=version)) from error


@contextmanager
def _readable(repo_id: str) -> Iterator[None]:
    """Says in one line why a repo cannot be read. A repo or revision that is not there is for the caller."""
    from huggingface_hub.errors import HfHubHTTPError, HTTPError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        yield
    except (RepositoryNotFoundError, RevisionNotFoundError):
        raise
    except (HTTPError, OSError) as error:
        reason = type(error).__name__
        if isinstance(error, HfHubHTTPError):
            reason = f"HTTP {error.response.status_code}"
        raise ValueError(READING_ERROR.format(repo_id=repo_id, reason=reason)) from None


def _text(content: bytes, path: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(ENCODING_ERROR.format(path=path, error=error)) from error


def _steers(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cf") and letter != "\t"


if __name__ == "__main__":
    main()
