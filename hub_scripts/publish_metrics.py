"""Publishes the metrics on the Hub: a Space for each, which `evaluate.load` reads and where people can try the metric.

    holistic-bias publish metrics --org ORG
    holistic-bias publish metrics --org ORG --metrics full_gen_bias likelihood_bias
    holistic-bias publish metrics --org ORG --dry_run publish/

Afterwards `evaluate.load("ORG/full_gen_bias")` works wherever `evaluate` and the Space's requirements are installed,
without this project. Publishing the same again changes nothing. With `--dry_run` the files of each Space are written
into a folder of its name.

A publication removes the files that an earlier one wrote (`.published_files.json` in the Space lists them) and that are
no longer published. Files that you added to a Space stay. If somebody else's file is at a path that is published, or a
Space has only other people's files, they are listed and nothing is written to it, unless you give
`--among_other_files`.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from hb_dataset.hints import did_you_mean
from hub_scripts import hub
from hub_scripts.addresses import is_repo_id
from hub_scripts.dry_run import add_dry_run_option, write_files
from hub_scripts.hub_contents import CARD_FILE
from hub_scripts.module_files import METRICS_DIR, metric_folders, module_files

# The release of gradio that the Spaces run on; their cards do not have it. Try the pages before changing it.
GRADIO_VERSION = "6.31.0"
PAGE_DIR = METRICS_DIR / "space_page"  # what every Space shows
REQUIREMENTS_FILE = "requirements.txt"
TESTS_FILE = "tests.py"
SDK_LINE = "sdk: gradio\n"

METRIC_ERROR = "there is no metric '{name}'; {hint}the metrics are: {names}"
ORG_ERROR = "org '{org}' is not the name of an organisation or a user; write it as in huggingface.co/ORG"
NO_FILE_ERROR = "the metric {metric} has no file {file}, which a Space needs; write one, as the other metrics have it"
CARD_ERROR = "the card of {metric} needs the line '{line}' in its front matter, exactly once"
SOME_DONE = ". Published before that: {names}."


def main(argv: Sequence[str] | None = None) -> None:
    """Publishes the metrics, or with --dry_run writes their files, and prints what was done and how to load them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--org", required=True, help="The organisation or user of the Hub that will own the Spaces.")
    parser.add_argument("--metrics", nargs="+", metavar="NAME", help="The metrics to publish. By default it is all.")
    add_dry_run_option(parser)
    hub.add_other_files_option(parser)
    arguments = parser.parse_args(argv)
    try:
        folders = chosen_folders(arguments.metrics)
        spaces = {repo_id(arguments.org, folder.name): space_files(folder, arguments.org) for folder in folders}
        if arguments.dry_run is None:
            _push(spaces, arguments.among_other_files)
            names = list(spaces)
        else:
            names = [str(folder) for folder in _write(arguments.dry_run, spaces)]
            print(f"{len(spaces)} Spaces written to {arguments.dry_run}, nothing was published")
    except (ValueError, OSError, RuntimeError) as error:
        raise SystemExit(f"publish_metrics.py: {error}") from error
    for name in names:
        print(f'evaluate.load("{name}")')


def chosen_folders(names: Sequence[str] | None = None) -> list[Path]:
    """The folders of the metrics with these names, or of all if it is `None`.

    Raises:
        ValueError: If there is no metric of a name.
    """
    folders = {folder.name: folder for folder in metric_folders()}
    if names is None:
        return list(folders.values())
    for name in names:
        if name not in folders:
            hint = did_you_mean(name, folders)
            raise ValueError(METRIC_ERROR.format(name=name, hint=hint, names=", ".join(folders)))
    return [folders[name] for name in dict.fromkeys(names)]


def repo_id(org: str, metric: str) -> str:
    """The name of a metric's Space.

    Raises:
        ValueError: If the name of the organisation is not valid.
    """
    if "/" in org or not is_repo_id(f"{org}/{metric}"):
        raise ValueError(ORG_ERROR.format(org=org))
    return f"{org}/{metric}"


def space_files(folder: Path, org: str) -> dict[str, bytes]:
    """All files of a metric's Space: the layout that `evaluate` expects, and the page.

    Args:
        folder: The metric's folder.
        org: The owner of the Space: the card describes how to load the metric from there.

    Returns:
        Contents by path.

    Raises:
        ValueError: If a file is missing, or the card has not the front matter of a Space.
    """
    module = f"{folder.name}.py"
    for name in (module, CARD_FILE, REQUIREMENTS_FILE, TESTS_FILE):
        if not (folder / name).is_file():
            raise ValueError(NO_FILE_ERROR.format(metric=folder.name, file=name))
    # `evaluate` makes packages of its own, so that a Space needs no __init__.py.
    beside = [file for file in PAGE_DIR.glob("*.py") if file.name != "__init__.py"]
    beside += [folder / TESTS_FILE, folder / REQUIREMENTS_FILE]
    files = {**module_files(folder), **{file.name: file.read_bytes() for file in beside}}
    files[CARD_FILE] = space_card((folder / CARD_FILE).read_text(encoding="utf-8"), folder.name, org).encode()
    return dict(sorted(files.items()))


def space_card(card: str, metric: str, org: str) -> str:
    """A metric's card, changed into that of its Space: with the release of gradio, and loading from the Space.

    Raises:
        ValueError: If the front matter is not that of a Space that runs on gradio.
    """
    start, front_matter, text = (*card.split("---\n", 2), "", "")[:3]
    if start or front_matter.count(SDK_LINE) != 1:
        raise ValueError(CARD_ERROR.format(metric=metric, line=SDK_LINE.strip()))
    front_matter = front_matter.replace(SDK_LINE, f"{SDK_LINE}sdk_version: {GRADIO_VERSION}\n")
    text = re.sub(rf'(evaluate\.load\(")({metric}")', rf"\g<1>{org}/\g<2>", text)
    return f"---\n{front_matter}---\n{text}"


def _write(folder: Path, spaces: Mapping[str, Mapping[str, bytes]]) -> list[Path]:
    names = {space: space.split("/")[1] for space in spaces}
    contents = {f"{names[space]}/{path}": files[path] for space, files in spaces.items() for path in files}
    write_files(folder, contents)
    return [folder / name for name in names.values()]


def _push(spaces: Mapping[str, Mapping[str, bytes]], among_other_files: bool) -> None:
    api = hub.connect()
    done: list[str] = []
    for space, files in spaces.items():
        try:
            pushed = hub.push(
                api,
                space,
                files,
                repo_type="space",
                message=f"Metric {space.split('/')[1]}",
                space_sdk="gradio",
                among_other_files=among_other_files,
            )
        except hub.HubError as error:
            raise hub.HubError(f"{error}{SOME_DONE.format(names=', '.join(done)) if done else ''}") from error
        if pushed.written or pushed.deleted:
            print(f"{space}: published as {pushed.url} ({pushed.summary()})")
        else:
            print(f"{space}: already published with the same content, nothing to do")
        done.append(space)


if __name__ == "__main__":
    main()
