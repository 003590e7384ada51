"""Installs the dataset and the metrics on this machine under their bare names.

    holistic-bias install

Afterwards `load_dataset("holistic_bias")` and
`evaluate.load("likelihood_bias")` work in any folder and any process that
shares the Hugging Face caches (HF_HOME), online and with HF_HUB_OFFLINE=1.
"""

import argparse
import hashlib
import os
import shutil
import time
from pathlib import Path

from hb_dataset.command_line import CommandParser
from hub_scripts.module_files import metric_folders, module_files

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
    for package in (root, root.parent):
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").touch()
    for source in metric_folders():
        files = module_files(source)
        digest = hashlib.sha256(b"".join(name.encode() + content for name, content in files.items())).hexdigest()
        named = root / f"evaluate-metric--{source.name}"
        target = named / digest
        scratch = (
            named / f"{digest}.{os.getpid()}"
        )  # `evaluate` ignores this folder, because its name is not 64 characters long
        scratch.mkdir(parents=True)
        (named / "__init__.py").touch()
        (scratch / "__init__.py").touch()
        for name, content in files.items():
            (scratch / name).write_bytes(content)
        if target.exists():
            shutil.rmtree(target)
        scratch.rename(target)
        written.append(target)
    return written


def main() -> None:
    parser = CommandParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    import datasets

    datasets.disable_progress_bars()
    folder = install_dataset()
    print(f'load_dataset("holistic_bias")  from {folder}')
    for target in install_metrics():
        print(f'evaluate.load("{target.parent.name.removeprefix("evaluate-metric--")}")  from {target}')


if __name__ == "__main__":
    main()
