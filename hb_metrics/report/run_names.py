from collections.abc import Sequence

from hb_metrics.measurements.results import Run
from hb_metrics.run.run_record import model_title


def run_names(runs: Sequence[Run], names: Sequence[str] | None = None) -> list[str]:
    """Returns a different name for each run: its model, its model with the control tag, or its folder."""
    if names is not None:
        if len({name.strip() for name in names} - {""}) != len(runs) or len(names) != len(runs):
            raise ValueError(
                f"the names {', '.join(names)} do not match the runs; pass a different name for each of the "
                f"{len(runs)} runs"
            )
        return list(names)
    models = [model_title(run.record.model) for run in runs]
    tags = [run.record.tag for run in runs]
    tagged = [model if tag is None else f"{model} with tag {tag}" for model, tag in zip(models, tags, strict=True)]
    folders = [run.folder.resolve().name for run in runs]
    for candidates in (models, tagged, folders):
        if len(set(candidates)) == len(candidates):
            return candidates
    return [f"{number}. {folder}" for number, folder in enumerate(folders, start=1)]
