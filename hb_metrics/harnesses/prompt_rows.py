"""The prompts of a harness's tasks, as plain dictionaries. They equal those of `measure` with the same options."""

from typing import Any

from hb_metrics.arguments import settings_of
from hb_metrics.inference.replies.requests import select_prompts
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.runs.planning import read_prompts

# The columns of a prompt. The terms of intersections and the plural forms are included only if the prompts have them.
_TERMS = ("descriptor", "first_descriptor", "second_descriptor")
COLUMNS = ("id", "text", "axis", "template", *_TERMS, *(f"{name}_plural" for name in _TERMS))

Row = dict[str, Any]


def prompt_rows(*, replied: bool, **options: Any) -> list[Row]:
    """Returns the prompts of a run of `measure.py`, with their non-null `COLUMNS`, in the order of the run.

    If `replied` is true, returns only the prompts that get replies. `options` are those of `measure.py`; axes may be
    separated by commas.
    """
    given = {name: value for name, value in options.items() if value is not None}
    for name in {"sample", "replies_per_cell", "seed"} & set(given):  # JSON may contain these values in quotation marks
        given[name] = int(given[name])
    if isinstance(given.get("axes"), str):
        given["axes"] = [name.strip() for name in given["axes"].split(",")]
    settings = settings_of(given)
    prompts = read_prompts(settings)
    if replied:
        number = settings.of(GenerationOptions).replies_per_cell
        prompts = select_prompts(prompts, number or None, seed=settings.run.seed)
    kept = prompts.select([name for name in COLUMNS if name in prompts.column_names])
    return [{name: value for name, value in row.items() if value is not None} for row in kept.to_pylist()]
