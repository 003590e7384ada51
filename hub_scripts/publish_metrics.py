"""Publishes each metric as a Space on the Hub, where users can load it and try it.

    holistic-bias publish metrics --org ORG
    holistic-bias publish metrics --org ORG --dry_run publish/

Afterwards `evaluate.load("ORG/full_gen_bias")` works without this project, wherever `evaluate` and the Space's
requirements are installed. Publishing the same metrics again changes nothing.

The script never deletes other people's files. If a Space contains such files, the script lists them and writes nothing
to that Space unless you pass `--among_other_files`.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from hub_scripts import hub, space_page
from hub_scripts.hub import CARD_FILE, publishing_parser, repo_id, write_files
from hub_scripts.install_local import metric_folders, module_files

# The release of gradio in which the Spaces run. Before you change it, try the pages with the new release.
GRADIO_VERSION = "6.31.0"
SDK_LINE = "sdk: gradio\n"


def main(argv: Sequence[str] | None = None) -> None:
    parser = publishing_parser(__doc__)
    parser.add_argument("--org", required=True, type=_owner, help="The Hub organisation or user that owns the Spaces.")
    options = parser.parse_args(argv)
    spaces = {folder.name: space_files(folder, options.org) for folder in metric_folders()}
    if options.dry_run is not None:
        write_files(
            options.dry_run,
            {f"{name}/{path}": content for name, files in spaces.items() for path, content in files.items()},
        )
        print(f"{len(spaces)} Spaces written to {options.dry_run}; nothing was published")
    else:
        api = hub.connect()
        for name, files in spaces.items():
            space = hub.open_repository(api, f"{options.org}/{name}", "space", space_sdk="gradio")
            done = hub.publish(space, files, message=f"Metric {name}", among_other_files=options.among_other_files)
            print(f"{space}: {done}")
    for name in spaces:
        print(f'evaluate.load("{options.dry_run or options.org}/{name}")')


def space_files(folder: Path, org: str) -> dict[str, bytes]:
    beside = {name: (folder / name).read_bytes() for name in ("tests.py", "requirements.txt")}
    card = space_card((folder / CARD_FILE).read_text(encoding="utf-8"), folder.name, org)
    page = Path(space_page.__file__).read_bytes()
    return {**module_files(folder), **beside, "app.py": page, CARD_FILE: card.encode()}


def space_card(card: str, metric: str, org: str) -> str:
    """Adds the release of gradio to a metric's card. The examples in the card then load the metric from `org`."""
    _, front_matter, text = card.split("---\n", 2)
    front_matter = front_matter.replace(SDK_LINE, f"{SDK_LINE}sdk_version: {GRADIO_VERSION}\n")
    text = re.sub(rf'(evaluate\.load\(")({metric}")', rf"\g<1>{org}/\g<2>", text)
    return f"---\n{front_matter}---\n{text}"


def _owner(text: str) -> str:
    owner, _, _ = repo_id(f"{text}/metric").partition("/")
    return owner
