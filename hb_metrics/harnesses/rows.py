"""Makes the prompts that harnesses ask: those of `measure`, and the questions that ship, filled with people."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from hb_dataset.command_line import check_known
from hb_dataset.filled_prompts import default_noun_rows, own_prompt_table, people_of_terms
from hb_dataset.own_prompts import SHIPPED, Choice, read_own_prompts
from hb_dataset.prompts import config_vocabulary
from hb_metrics.collect.replies.requests import select_prompts
from hb_metrics.command.arguments import settings_of
from hb_metrics.command.run_prompts import read_prompts
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.own_prompts import orders_of, quick_sample


class PromptRow(NamedTuple):
    id: str
    text: str
    axis: str
    template: str
    descriptor: str
    first_descriptor: str | None = None
    second_descriptor: str | None = None
    descriptor_plural: str | None = None
    first_descriptor_plural: str | None = None
    second_descriptor_plural: str | None = None

    @property
    def terms(self) -> list[tuple[str, str | None]]:
        """Returns the terms in the prompt with their plural forms."""
        return [(term, plural) for term, plural in zip(self[4:7], self[7:], strict=True) if term is not None]


def axis_names(axes: str | Sequence[str] | None) -> list[str] | None:
    if isinstance(axes, str):
        return [name.strip() for name in axes.split(",")]
    return None if axes is None else list(axes)


def prompt_rows(*, replied: bool, **options: Any) -> list[PromptRow]:
    """Returns the prompts of a `measure.py` run.

    If `replied` is true, returns only the prompts that get replies. `options` are options of `measure.py`. The axes may
    be a list or a comma-separated string.
    """
    given = {name: value for name, value in options.items() if value is not None}
    for name in {"sample", "replies_per_cell", "seed"} & set(given):  # JSON may contain these values in quotation marks
        if not re.fullmatch(r"-?\d+(\.0)?", str(given[name])):
            raise ValueError(f"{name} is '{given[name]}'; set a whole number")
        given[name] = int(float(given[name]))
    if "axes" in given:
        given["axes"] = axis_names(given["axes"])
    settings = settings_of(given)
    prompts = read_prompts(settings)
    for name in ("question", "system"):
        if name in prompts.column_names and prompts[name].null_count < len(prompts):
            raise ValueError(f"some prompts have a {name}, which harnesses do not send; use prompts without a {name}")
    if replied:
        number = settings.of(GenerationOptions).replies_per_cell
        prompts = select_prompts(prompts, number or None, seed=settings.run.seed)
    kept = prompts.select([name for name in PromptRow._fields if name in prompts.column_names])
    return [PromptRow(**row) for row in kept.to_pylist()]


class DecisionRow(NamedTuple):
    id: str
    text: str
    axis: str
    descriptor: str
    order: int | None
    own_id: str
    question: str
    options: list[str]
    favourable: str

    @property
    def template(self) -> str:
        return self.question


def decision_rows(
    dataset_config: str = "v1.0-small",
    vocabulary_dir: str | None = None,
    axes: str | Sequence[str] | None = None,
    quick: bool = True,
) -> list[DecisionRow]:
    """Returns the filled questions, as `holistic-bias measure --measurements decisions` asks them.

    If `quick` is true, there are 8 questions in one order of the options, otherwise all questions in both orders.
    """
    prompts = read_own_prompts(SHIPPED)
    prompts = quick_sample(prompts) if quick else prompts
    vocabulary = config_vocabulary(dataset_config, vocabulary_dir)
    is_small = dataset_config.endswith("-small")
    for axis in axis_names(axes) or ():
        check_known(axis, vocabulary.axes, f"axis '{axis}' is not in {vocabulary_dir or dataset_config}")
    people = default_noun_rows(people_of_terms(vocabulary, axis_names(axes), small=is_small))
    by_id = {prompt.id: prompt for prompt in prompts}
    rows = []
    for order, of_order in orders_of(prompts, is_quick=quick).items():
        filled = own_prompt_table(of_order, people, order=order)
        for row in filled.select(DecisionRow._fields[:6]).to_pylist():
            prompt = by_id[row["own_id"]]
            assert isinstance(prompt.outcome, Choice)  # as in all questions that ship
            options, favourable = list(prompt.outcome.options), prompt.outcome.favourable
            rows.append(DecisionRow(**row, question=prompt.question, options=options, favourable=favourable))
    return rows
