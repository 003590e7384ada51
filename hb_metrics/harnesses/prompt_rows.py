from collections.abc import Sequence
from typing import Any

from hb_metrics.collect.replies.requests import select_prompts
from hb_metrics.command.arguments import settings_of
from hb_metrics.command.planning import read_prompts
from hb_metrics.measurements.generation.options import GenerationOptions

# The keys of a prompt. `descriptor` always has a value. The other terms and the plural forms may be missing.
TERMS = ("descriptor", "first_descriptor", "second_descriptor")
COLUMNS = ("id", "text", "axis", "template", *TERMS, *(f"{name}_plural" for name in TERMS))

Row = dict[str, Any]


def axis_names(axes: str | Sequence[str] | None) -> list[str] | None:
    if isinstance(axes, str):
        return [name.strip() for name in axes.split(",")]
    return None if axes is None else list(axes)


def prompt_rows(*, replied: bool, **options: Any) -> list[Row]:
    """Returns the prompts of a `measure.py` run. A row lacks those keys of `COLUMNS` whose values are null.

    If `replied` is true, returns only the prompts that get replies. `options` are options of `measure.py`. The axes may
    be a list or a comma-separated string.
    """
    given = {name: value for name, value in options.items() if value is not None}
    for name in {"sample", "replies_per_cell", "seed"} & set(given):  # JSON may contain these values in quotation marks
        given[name] = int(given[name])
    if "axes" in given:
        given["axes"] = axis_names(given["axes"])
    settings = settings_of(given)
    prompts = read_prompts(settings)
    for name in ("question", "system"):
        if name in prompts.column_names and prompts[name].null_count < len(prompts):
            raise ValueError(
                f"some prompts have a {name}, but harnesses send only the prompt; run `holistic-bias measure`, or use "
                f"prompts without a {name}"
            )
    if replied:
        number = settings.of(GenerationOptions).replies_per_cell
        prompts = select_prompts(prompts, number or None, seed=settings.run.seed)
    kept = prompts.select([name for name in COLUMNS if name in prompts.column_names])
    return [{name: value for name, value in row.items() if value is not None} for row in kept.to_pylist()]
