"""Collects the files of an installed or published `evaluate` module in one folder.

A Space, like the module cache of `evaluate`, contains a copy of each file that the module needs. The copies import each
other by relative imports.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
METRICS_DIR = ROOT / "hb_metrics"
OUR_IMPORT = re.compile(r"^from (hb_metrics(?:\.\w+)+)\.(\w+) import ", re.MULTILINE)


def metric_folders() -> list[Path]:
    """Returns the folders of `evaluate` modules. Such a folder contains a .py file with the name of the folder."""
    return sorted(folder for folder in METRICS_DIR.iterdir() if (folder / f"{folder.name}.py").is_file())


def module_files(folder: Path) -> dict[str, bytes]:
    """Returns the contents of the Python files that a metric needs outside this repository, by file name.

    `evaluate` fetches only files that the module itself imports. The copy of the module therefore ends with imports of
    all files that only other files import.
    """
    main = folder / f"{folder.name}.py"
    paths = [main]
    texts: dict[str, str] = {}
    for path in paths:  # the list grows while the imports are followed
        if path.name in texts:
            raise ValueError(f"{folder.name} would contain two files named {path.name}; rename {path}")
        texts[path.name] = path.read_text(encoding="utf-8")
        for package, name in OUR_IMPORT.findall(texts[path.name]):
            imported = ROOT.joinpath(*package.split("."), f"{name}.py")
            if imported not in paths:
                paths.append(imported)
    texts = {name: OUR_IMPORT.sub(r"from .\2 import ", text) for name, text in texts.items()}
    named = set(re.findall(r"^from \.(\w+) import", texts[main.name], re.MULTILINE))
    for path in paths[1:]:
        if path.stem not in named:
            texts[main.name] += f"from .{path.stem} import __name__ as _{path.stem}\n"
    return {name: text.encode() for name, text in sorted(texts.items())}
