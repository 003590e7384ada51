"""Checks a change to the vocabulary, and reports faults, possible mistakes and new sentences.

    holistic-bias check-terms [--vocabulary DIR] [--against REV] [--seed N]

The exit code is 0 if there are no faults, 1 if there are faults, and 2 if the check failed.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hb_dataset.command_line import CommandParser
from hb_dataset.decisions import question_faults
from hb_dataset.names import name_faults
from hb_dataset.versions import NEXT, version_folder
from hb_dataset.vocabulary import VOCABULARIES
from hub_scripts.folder_checks import frozen_faults, link_faults, newly_frozen, shown_path, subfolder_faults
from hub_scripts.term_changes import compare, effect
from hub_scripts.term_checks import source_faults, things_to_look_at
from hub_scripts.term_entries import AgainstError, Contents, read_against, read_contents
from hub_scripts.term_report import Report, as_text

ENTRIES_TO_READ = 25


def check(folder: Path, against: str | None = None, *, seed: int = 0, show: int = ENTRIES_TO_READ) -> Report:
    """Checks a vocabulary folder, and compares it with another folder or a git revision.

    `against` is the other folder or revision. `None` means the newest frozen version. The report includes example
    sentences, drawn with `seed`, for at most `show` added or changed entries.
    """
    if not folder.is_dir():
        raise NotADirectoryError(
            f"the vocabulary folder {folder} does not exist; set --vocabulary to an existing folder"
        )
    name, before = read_against(folder, against)
    links, subfolders = link_faults(folder), subfolder_faults(folder)
    after = Contents((), frozenset(), (), unread=before.files) if links else read_contents(folder)
    changes = compare(before, after)
    faults = [*links, *subfolders, *after.faults, *source_faults(before, changes), *frozen_faults(folder)]
    if folder.resolve().parent == VOCABULARIES:
        faults += [fault._replace(file=f"../{fault.file}") for fault in name_faults()]
        faults += [fault._replace(file=f"../../decisions/{fault.file}") for fault in question_faults()]
    return Report(
        folder=folder,
        against=name,
        faults=sorted(faults),
        to_look_at=sorted([*things_to_look_at(after, changes), *newly_frozen(folder)]),
        before=before,
        after=after,
        changes=changes,
        effect=effect(before, after, changes, seed=seed, most=show),
        seed=seed,
    )


def main(argv: Sequence[str] | None = None) -> None:
    default = Path(shown_path(version_folder(NEXT)))
    parser = CommandParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--vocabulary",
        type=Path,
        default=default,
        metavar="DIR",
        help="The vocabulary folder to check. Default: %(default)s.",
    )
    parser.add_argument(
        "--against",
        metavar="REV",
        help="The folder, git branch, git tag or commit to compare with. Default: the newest frozen version.",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="The random seed for drawing the example sentences. Default: %(default)s.",
    )
    parser.add_argument(
        "--show",
        type=int,
        default=ENTRIES_TO_READ,
        metavar="N",
        help="The maximum number of added or changed entries for which sentences are shown. Default: %(default)s.",
    )
    options = parser.parse_args(argv)
    try:
        report = check(options.vocabulary, options.against, seed=options.seed, show=options.show)
    except (NotADirectoryError, AgainstError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    print(as_text(report), end="")
    sys.exit(1 if report.faults else 0)


if __name__ == "__main__":
    main()
