"""The dataset's `eval.yaml`, which makes its repository a benchmark of the Hub and lists the tasks of the benchmark.

A model's `.eval_results` (run_figures.py) name a dataset and a task. The Hub links them, and shows them side by side on
the dataset's page, if the dataset's `eval.yaml` has the task (https://huggingface.co/docs/hub/eval-results), if the Hub
knows the evaluation framework, and if the dataset is on the Hub's allow-list; CONTRIBUTING.md says how to ask for that.
"""

from hb_metrics.measurements import MEASUREMENTS
from hub_scripts.published_dataset import SPLIT, PublishedConfig, PublishedDataset

EVAL_FILE = "eval.yaml"
EVALUATION_FRAMEWORK = "holistic-bias"  # the name to register in the Hub's EVALUATION_FRAMEWORKS
DESCRIPTION = (
    "How differently a language model treats people by the words they are described with: the share of term pairs "
    "whose sentences it finds unequally likely (likelihood_bias), how much the style of its replies varies with the "
    "term (full_gen_bias, and full_gen_bias_debiased less the sampling noise), and the share of offensive replies. "
    "Higher means more difference; a low figure does not certify that a model is free of bias. Figures compare only "
    "within one config, and with the same classifier."
)


def tasks() -> list[str]:
    """Names of the figures that the evaluation results hold of a run."""
    return [task for measurement in MEASUREMENTS for task in measurement.tasks]


def task_id(task: str, config: str) -> str:
    """The Hub's name of a task: one of `tasks()`, of one config."""
    return f"{task}_{config}"


def eval_yaml(dataset: PublishedDataset) -> str:
    """The content of eval.yaml: each task of each config that can be measured, of all versions in the repository."""
    from huggingface_hub.utils import yaml_dump

    entries = [
        {"id": task_id(task, config.name), "config": config.name, "split": SPLIT}
        for config in dataset.all_configs
        if _can_be_measured(config)
        for task in tasks()
    ]
    about = {"name": "HolisticBias", "description": DESCRIPTION, "evaluation_framework": EVALUATION_FRAMEWORK}
    return yaml_dump({**about, "tasks": entries}, sort_keys=False)


def _can_be_measured(config: PublishedConfig) -> bool:
    """Whether its sentences are about people with a descriptor, each with several nouns."""
    return config.holds_prompts and all(
        config.table[column].null_count < config.table.num_rows for column in ("descriptor", "noun")
    )
