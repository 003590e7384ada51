"""Installs the dataset and the metrics on this machine under their bare names.

    holistic-bias install

Afterwards `load_dataset("holistic_bias")` and
`evaluate.load("likelihood_bias")` work in any folder and any process that
shares the Hugging Face caches (HF_HOME), online and with HF_HUB_OFFLINE=1.
"""

import hashlib
import os
import re
import shutil
import time
from pathlib import Path

from hb_dataset.command_line import CommandParser

ROOT = Path(__file__).parent.parent
METRICS_DIR = ROOT / "hb_metrics"
OUR_IMPORT = re.compile(r"^from (hb_metrics(?:\.\w+)+)\.(\w+) import ", re.MULTILINE)


def metric_folders() -> list[Path]:
    return sorted(folder for folder in METRICS_DIR.iterdir() if (folder / f"{folder.name}.py").is_file())


def module_files(folder: Path) -> dict[str, bytes]:
    """Returns the contents of a metric's own Python file and of all our files that it needs, by file name.

    A Space or the module cache of `evaluate` contains copies of these files in one folder, with relative imports.
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


DEFAULT_CONFIG_LEAD = 10 * 365 * 24 * 3600  # seconds


def install_dataset() -> Path:
    import datasets

    from hb_dataset.builder import DATASET_NAME, HolisticBias
    from hb_dataset.prompts import CONFIGS, DEFAULT_CONFIG

    cache = Path(datasets.config.HF_DATASETS_CACHE)
    for config in CONFIGS:
        builder = HolisticBias(config_name=config, cache_dir=str(cache))
        builder.download_and_prepare()
        # `datasets` loads the folder that changed last. For each config, this must be the folder of the current
        # vocabulary. If no config name is passed, it must be the folder of the default config, even if a `.map` of
        # another config was cached later.
        changed = time.time() + (DEFAULT_CONFIG_LEAD if config == DEFAULT_CONFIG else 0)
        os.utime(builder.cache_dir, (changed, changed))
    return cache / DATASET_NAME


def install_metrics() -> list[Path]:
    import evaluate

    root = Path(evaluate.config.HF_MODULES_CACHE) / "evaluate_modules" / "metrics"
    written = []
    for source in metric_folders():
        files = module_files(source)
        digest = hashlib.sha256(b"".join(name.encode() + content for name, content in files.items())).hexdigest()
        target = root / f"evaluate-metric--{source.name}" / digest
        # `evaluate` skips folders whose names are not digests, so it never loads a part of a metric.
        scratch = target.with_name(f"{digest}.tmp")
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        packages = [folder / "__init__.py" for folder in (root.parent, root, target.parent)]
        contents = dict.fromkeys(packages, b"") | {scratch / name: content for name, content in files.items()}
        for path, content in {**contents, scratch / "__init__.py": b""}.items():
            path.write_bytes(content)
        shutil.rmtree(target, ignore_errors=True)
        scratch.rename(target)
        written.append(target)
    return written


def main() -> None:
    parser = CommandParser(description=__doc__)
    parser.parse_args()
    import datasets

    datasets.disable_progress_bars()
    folder = install_dataset()
    print(f'load_dataset("holistic_bias")  from {folder}')
    for target in install_metrics():
        print(f'evaluate.load("{target.parent.name.removeprefix("evaluate-metric--")}")  from {target}')


if __name__ == "__main__":
    main()
