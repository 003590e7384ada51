import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from hb_metrics.collect.replies.requests import select_prompts
from hb_metrics.command.arguments import settings_of
from hb_metrics.command.run_prompts import read_prompts
from hb_metrics.measurements.generation.options import GenerationOptions


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
