"""Collects all files that an `evaluate` module needs outside this repository.

A Space or the module cache of `evaluate` contains copies of these files in one folder, with relative imports.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
METRICS_DIR = ROOT / "hb_metrics"
OUR_IMPORT = re.compile(r"^from (hb_metrics(?:\.\w+)+)\.(\w+) import ", re.MULTILINE)


def metric_folders() -> list[Path]:
    return sorted(folder for folder in METRICS_DIR.iterdir() if (folder / f"{folder.name}.py").is_file())


def module_files(folder: Path) -> dict[str, bytes]:
    """Returns the contents of a metric's own Python file and of all our files that it needs, by file name.

    `evaluate` loads only files that the metric's own file imports. Imports of all other needed files are therefore
    added at the end of the metric's file.
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
