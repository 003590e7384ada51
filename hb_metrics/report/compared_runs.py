"""Names the runs of a comparison, and states how their settings differ."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.results import Results, Run
from hb_metrics.run.record import Record
from hb_metrics.run.run_folder import flat_record
from hb_metrics.run.run_record import model_title

UNMEASURED = "not measured"


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


class Difference(NamedTuple):
    name: str
    values: list[Any]

    @property
    def contradicts(self) -> bool:
        """Returns whether the value differs between the runs that include the setting's measurement."""
        known = [value for value in self.values if value != UNMEASURED]
        return any(value != known[0] for value in known)


def differing_settings(records: Sequence[Record]) -> list[Difference]:
    contents = [{name: value for name, value in record.content.items() if name != "left_out"} for record in records]
    flat = list(map(flat_record, contents))
    differences = []
    for name in dict.fromkeys(name for settings in flat for name in settings):
        absent = ["not recorded" if name.split(".")[0] in record.content else UNMEASURED for record in records]
        values = [settings.get(name, missing) for settings, missing in zip(flat, absent, strict=True)]
        if any(value != values[0] for value in values):
            differences.append(Difference(name, values))
    return differences


def comparison_warnings(differences: Sequence[Difference], runs: Sequence[Results]) -> list[str]:
    changed = {difference.name for difference in differences if difference.contradicts}
    sentences = []
    if changed & {"data.digest", "data.config"}:
        sentences.append(
            "The runs have different prompts, so figures over all terms or all templates are not comparable."
        )
    for measurement in MEASUREMENTS:
        if having := [run for run in runs if measurement.name in run.measured]:
            sentences += measurement.warnings(changed, having)
    return sentences
