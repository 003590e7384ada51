"""The prompts that a harness gives a model: those of `measure.py` with the same options, as plain dictionaries."""

from typing import Any

from hb_metrics.arguments import settings_of
from hb_metrics.inference.replies.requests import select_prompts
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.runs.planning import read_prompts

# What is kept of a prompt; the terms of an intersection and plural forms are there only if the prompts have them.
COLUMNS = (
    "id",
    "text",
    "axis",
    "descriptor",
    "descriptor_plural",
    "template",
    "first_descriptor",
    "first_descriptor_plural",
    "second_descriptor",
    "second_descriptor_plural",
)

Row = dict[str, Any]

_WHOLE_NUMBERS = ("sample", "replies_per_cell", "seed")


def prompt_rows(*, replied: bool, **options: Any) -> list[Row]:
    """The prompts of a run of `measure.py`.

    Args:
        replied: Whether those are wanted that are replied to, or all, which likelihoods are measured of.
        **options: Options of `measure.py` by name; `None`: the default. Axes may be separated by commas.

    Returns:
        A row for each prompt with those of `COLUMNS` that are not null, in the order of the run.

    Raises:
        ValueError: An option is unknown or has an invalid value.
    """
    given = {name: value for name, value in options.items() if value is not None}
    # The command line of `measure.py` has read them; here they come as JSON or YAML has them.
    for name in _WHOLE_NUMBERS:
        if name in given and (isinstance(given[name], bool) or not isinstance(given[name], int)):
            raise ValueError(f"{name} is {given[name]!r}; set a whole number, without quotation marks")
    if "axes" in given:
        axes = given["axes"]
        names = axes.split(",") if isinstance(axes, str) else axes
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise ValueError(f'axes is {axes!r}; list names of axes, such as \'age,religion\' or ["age", "religion"]')
        given["axes"] = [name.strip() for name in names]
    settings = settings_of(given)
    prompts = read_prompts(settings)
    if replied:
        number = settings.of(GenerationOptions).replies_per_cell
        prompts = select_prompts(prompts, number or None, seed=settings.run.seed)
    kept = prompts.select([name for name in COLUMNS if name in prompts.column_names])
    return [{name: value for name, value in row.items() if value is not None} for row in kept.to_pylist()]
