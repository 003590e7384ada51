import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hb_dataset
from hb_dataset.names import NAMES_FILE
from hb_dataset.versions import (
    CHANGELOG_FILE,
    FROZEN_FILE,
    NEXT,
    VERSION_NAME,
    FrozenError,
    read_frozen,
    verify_version,
    version_number,
)
from hb_dataset.yaml_lines import Fault

LICENCE = Path(hb_dataset.__file__).parent / "LICENSE"  # the vocabulary's licence


def link_faults(folder: Path) -> list[Fault]:
    """Reports links as faults without following them, because a link in a pull request could point anywhere."""
    names = [path.name for path in sorted(folder.iterdir()) if path.is_symlink()]
    return [
        Fault(name, 1, "is a link; replace it with the file itself")
        for name in (["."] if folder.is_symlink() else []) + names
    ]


def subfolder_faults(folder: Path) -> list[Fault]:
    """Reports folders that the vocabulary's reader ignores, because their names begin with "." or end in ".md"."""
    folders = (path for path in sorted(folder.iterdir()) if path.is_dir() and path.name != ".git")
    names = [path.name for path in folders if path.name.startswith(".") or path.suffix == ".md"]
    return [Fault(name, 1, "is a folder, but a vocabulary consists of files; remove the folder") for name in names]


def frozen_faults(folder: Path) -> list[Fault]:
    root = folder.absolute().parent
    # In a checkout, a folder with this name contains the versions even if their record is missing.
    in_checkout = root.resolve().parts[-2:] == (LICENCE.parent.name, "vocabulary")
    if not (root / FROZEN_FILE).is_file() and not in_checkout:
        return []
    own, recorded, faults = read_frozen(), _recorded(root), []
    newest = max(own, key=version_number)
    for version, record in {**recorded, **own}.items():
        if version in own and recorded.get(version) != record:
            message = (
                f"the record of the frozen version {version} was changed; a version's record never changes, so undo "
                f"the change (git checkout -- {shown_path(root / FROZEN_FILE)})"
            )
            faults.append(Fault(f"../{FROZEN_FILE}", 1, message))
        is_later = VERSION_NAME.fullmatch(version) is not None and version_number(version) > version_number(newest)
        if version in own or is_later:
            faults += _version_faults(root, version, record)
        else:
            message = (
                f"{version!r} is not a valid name for a version after {newest}; use a name such as v2.0, and freeze "
                "versions only with hub_scripts/terms/freeze_version.py"
            )
            faults.append(Fault(f"../{FROZEN_FILE}", 1, message))
    licence = root.parent / LICENCE.name
    text = licence.read_bytes() if licence.is_file() else None
    if text != LICENCE.read_bytes() and (text is not None or in_checkout):
        faults.append(Fault(f"../../{LICENCE.name}", 1, "is the vocabulary's licence; undo the change (git checkout)"))
    known = {NEXT, *own, *recorded, FROZEN_FILE, CHANGELOG_FILE, NAMES_FILE.name}
    for path in root.iterdir():
        if path.name not in known and not (path.name.startswith(".") and path.is_file()):  # systems create such files
            message = "is neither a frozen version nor a file of the vocabulary; remove it"
            faults.append(Fault(f"../{path.name}", 1, message))
    return faults


def newly_frozen(folder: Path) -> list[Fault]:
    root = folder.absolute().parent
    new = sorted(_recorded(root).keys() - read_frozen())
    about = (
        "is newly frozen and can never change; ask a maintainer to compare it with the output of "
        "hub_scripts/terms/freeze_version.py"
    )
    return [Fault(f"../{FROZEN_FILE}", 1, f"{version!r} {about}") for version in new]


def shown_path(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _version_faults(root: Path, version: str, record: Mapping[str, Any]) -> list[Fault]:
    path = root / version
    reason = "its folder is missing"
    if path.is_dir() and (links := link_faults(path)):
        reason = str(links[0])
    elif path.is_dir():
        try:
            verify_version(version, root, record=record)
            return []
        except ValueError as error:
            reason = error.reason if isinstance(error, FrozenError) else str(error)
    message = (
        f"{version} is frozen and was changed ({reason}); undo the change (git checkout -- {shown_path(path)}), and "
        f"edit `{NEXT}`"
    )
    return [Fault(f"../{version}", 1, message)]


def _recorded(root: Path) -> dict[str, dict[str, Any]]:
    try:
        return read_frozen(root)
    except (ValueError, OSError):
        return {}
