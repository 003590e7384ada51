"""Writes the task files for lm-evaluation-harness, and prints their folder.

    lm_eval run --include_path "$(holistic-bias lm-eval-path)" --tasks holistic_bias_gen_bias_v1.0-small ...

The folder contains a YAML file for each task.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from hb_dataset.command_line import CommandParser
from hb_dataset.prompts import config_vocabulary, measured_configs, version_of
from hb_dataset.whole_files import write_text

TASKS_FILE = Path(__file__).with_name("lm_eval_tasks.yaml")
_VERSION = 1  # the version of the tasks, which the harness displays; increase it when the figures change
# By kind of answers: the figures of a whole task, and those by axis.
_FIGURES = {
    "replies": (
        "full_gen_bias full_gen_bias_noise_floor full_gen_bias_debiased full_gen_bias_debiased_lowest "
        "full_gen_bias_debiased_highest num_skipped_templates num_replies num_empty_replies offensive_replies",
        "full_gen_bias full_gen_bias_debiased offensive_replies",
    ),
    "likelihoods": (
        "likelihood_bias likelihood_bias_adjusted likelihood_effect_size num_tests",
        "likelihood_bias",
    ),
    "decisions": (
        "decision_spread decision_spread_lowest decision_spread_highest num_answers",
        "decision_spread decision_gap",
    ),
}


class _Function(str):
    """The import path of a function, which YAML marks with the tag `!function`."""


class _Loader(yaml.SafeLoader):
    pass


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_FIGURE = _Function("hb_metrics.harnesses.lm_eval_tasks.figure")
_NUMBERS = ("num_replies", "num_tests", "num_answers")
_Loader.add_constructor("!function", lambda loader, node: _Function(node.value))
_Dumper.add_representer(_Function, lambda dumper, name: dumper.represent_scalar("!function", str(name)))


def main(argv: list[str] | None = None) -> None:
    parser = CommandParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--vocabulary_dir",
        help="The folder of your own vocabulary. Default: each version's vocabulary.",
    )
    given = parser.parse_args(argv)
    print(write_tasks(given.vocabulary_dir))


def write_tasks(vocabulary_dir: str | None = None, cache_dir: Path | None = None) -> Path:
    """Writes the task files of all versions and their small samples. Returns the folder, whose name is a digest."""
    from huggingface_hub.constants import HF_HOME

    own = None if vocabulary_dir is None else str(Path(vocabulary_dir).resolve())
    files = {}
    for config in task_configs():
        for task in tasks_of(config, own):
            text = yaml.dump(task, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
            files[f"{task['task']}.yaml"] = text
    digest = hashlib.sha256("\x1f".join(f"{name}\x1e{text}" for name, text in files.items()).encode()).hexdigest()
    folder = Path(cache_dir or HF_HOME) / "holistic_bias" / f"lm_eval-{digest[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            write_text(path, text)
    return folder


def task_configs() -> list[str]:
    return [name for name in measured_configs() if name in (version_of(name), f"{version_of(name)}-small")]


def tasks_of(config: str, vocabulary_dir: str | None = None) -> list[dict[str, object]]:
    axes = sorted({term.axis for term in config_vocabulary(config, vocabulary_dir).descriptors})
    own = {} if vocabulary_dir is None else {"vocabulary_dir": vocabulary_dir}
    prompts = {"dataset_config": config, **own}
    common = {"test_split": "test", "num_fewshot": 0, "metadata": {"version": _VERSION}}
    # The tasks do not form a group, because the harness would average the figures of a group.
    tasks = []
    for name, task in yaml.load(TASKS_FILE.read_text(encoding="utf-8"), _Loader).items():
        task["dataset_kwargs"] = {"prompts": prompts, **task["dataset_kwargs"]}
        task["metric_list"] = [
            {"metric": name, "aggregation": _FIGURE, "higher_is_better": name in _NUMBERS}
            for name in figure_names(task["metric_list"], axes)
        ]
        tasks.append({"task": f"holistic_bias_{name}_{config}", **task, **common})
    return tasks


def figure_names(kind: str, axes: Sequence[str]) -> list[str]:
    alone, by_axis = (names.split() for names in _FIGURES[kind])
    return [*alone, *(f"{name}/{axis}" for name in by_axis for axis in axes)]
