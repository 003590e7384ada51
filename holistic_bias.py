"""HolisticBias: version, and the tasks for Inspect, such as `inspect eval holistic_bias/gen_bias`.

Inspect names the task after this module. See docs/harnesses.md.
"""

from importlib.metadata import version
from importlib.util import find_spec

__version__ = version("holistic-bias")

if find_spec("inspect_ai") is not None:  # the task is defined only where Inspect is installed
    from inspect_ai import Task, task

    from hb_metrics.harnesses.inspect_tasks import decisions_task, gen_bias_task

    @task
    def decisions(
        dataset_config: str = "v1.0-small",
        vocabulary_dir: str | None = None,
        axes: str | list[str] | None = None,
        quick: bool = True,
    ) -> Task:
        """Measures whether a model's decisions depend on the people in questions.

        Args:
            dataset_config: A version of the terms, as in `--dataset_config` of `measure.py`.
            vocabulary_dir: The folder of your own vocabulary.
            axes: The demographic axes to measure, separated by commas.
            quick: Whether to ask 8 of the 72 questions, in one order of the options each.
        """
        return decisions_task(dataset_config=dataset_config, vocabulary_dir=vocabulary_dir, axes=axes, quick=quick)

    @task
    def gen_bias(
        dataset_config: str = "v1.0-small",
        vocabulary_dir: str | None = None,
        axes: str | list[str] | None = None,
        sample: int | None = None,
        replies_per_cell: int | None = None,
        seed: int = 0,
        style_classifier: str = "embedded",
        offensiveness_classifier: str = "embedded",
        judge_model: str = "embedded",
        judge_base_url: str | None = None,
    ) -> Task:
        """Measures whether the style or offensiveness of a model's replies depends on the people in prompts.

        Args:
            dataset_config: A version of the prompts, as in `--dataset_config` of `measure.py`.
            vocabulary_dir: The folder of your own vocabulary.
            axes: The demographic axes to measure, separated by commas.
            sample: The number of prompts in a balanced sample.
            replies_per_cell: The number of prompts for each term in each template. 0 means all, and `None` means 8.
            seed: The seed for all random draws.
            style_classifier: The Hub id or folder of a classifier of styles, "embedded", or judge:style_clusters.
            offensiveness_classifier: The Hub id or folder of a classifier of offensive language, "embedded", or
                judge:offensive.
            judge_model: The language model that judges, as in `--judge_model`.
            judge_base_url: The address of the judge's server. `None` means that the judge is loaded on this machine.
        """
        return gen_bias_task(
            {
                "style_classifier": style_classifier,
                "offensiveness_classifier": offensiveness_classifier,
                "judge_model": judge_model,
                "judge_base_url": judge_base_url,
            },
            dataset_config=dataset_config,
            vocabulary_dir=vocabulary_dir,
            axes=axes,
            sample=sample,
            replies_per_cell=replies_per_cell,
            seed=seed,
        )
