"""The names of the runs of a comparison."""

from collections import Counter
from collections.abc import Sequence

from hb_metrics.runs.finished_run import Run
from hb_metrics.runs.run_record import model_title, tag_of


def run_names(runs: Sequence[Run], names: Sequence[str] | None = None) -> list[str]:
    """Names that distinguish the runs.

    Args:
        runs: The runs.
        names: [runs] the names to use; `None`: the names of the models if these are distinct, else with their control
            tags, else the names of the folders, numbered if they are not distinct.

    Raises:
        ValueError: There is not one name per run, a name is empty, or names are not distinct.
    """
    if names is not None:
        return _checked(names, len(runs))
    models = [model_title(run.results["run"]["model"]) for run in runs]
    tags = [tag_of(run.results) for run in runs]
    tagged = [model if tag is None else f"{model}, asked with {tag}" for model, tag in zip(models, tags, strict=True)]
    folders = [run.folder.resolve().name for run in runs]
    for candidates in (models, tagged, folders):
        if len(set(candidates)) == len(candidates):
            return candidates
    return [f"{number}. {folder}" for number, folder in enumerate(folders, start=1)]


def _checked(names: Sequence[str], num_runs: int) -> list[str]:
    if len(names) != num_runs:
        raise ValueError(f"{len(names)} names for {num_runs} runs; name each run, in the same order")
    if not all(name.strip() for name in names):
        raise ValueError("a run's name is empty; give each run a name")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise ValueError(f"'{name}' is the name of more than one run; give each run another name")
    return list(names)
