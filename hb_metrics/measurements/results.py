"""Reads finished runs. Each measurement defines its own results, as dataclasses."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from hb_metrics.measurements.awareness.results import Awareness
from hb_metrics.measurements.decisions.results import Decisions
from hb_metrics.measurements.dialogue.results import Dialogue
from hb_metrics.measurements.generation.results import Generation
from hb_metrics.measurements.judge.results import Judged
from hb_metrics.measurements.likelihood.results import Likelihood
from hb_metrics.measurements.means import Means
from hb_metrics.measurements.offensiveness.results import Offensiveness
from hb_metrics.measurements.reddit.results import Reddit
from hb_metrics.measurements.regard.results import Regard
from hb_metrics.run.record import Record
from hb_metrics.run.run_folder import RESULTS_FILE, check_layout, read_json
from hb_metrics.run.tables import Tables
from hb_metrics.run.typed_json import from_json, to_json


# `MEASUREMENTS` does not replace this list: type checkers must know the attributes, and `--help` must not import the
# modules of all results. A test compares the lists.
class Results:
    """The results of a run: its record, and an attribute for each of its measurements. The others are not set.

    Attributes:
        judge: The results of the rubrics, by their names.
    """

    record: Record
    likelihood: Likelihood
    generation: Generation
    offensiveness: Offensiveness
    length: Means
    decisions: Decisions
    judge: dict[str, Judged]
    dialogue: Dialogue
    awareness: Awareness
    reddit: Reddit
    regard: Regard

    def __init__(self, record: Record, **measured: Any) -> None:
        vars(self).update(record=record, **measured)

    @property
    def measured(self) -> list[str]:
        """Returns the names of the run's measurements."""
        return [name for name in vars(self) if name != "record"]

    def with_(self, measurement: str, results: object) -> "Results":
        return Results(**{**vars(self), measurement: results})

    def without(self, left_out: Mapping[str, str]) -> "Results":
        """Adds sentences to the record that state why the run lacks measurements, by their names."""
        content, known = self.record.content, self.record.content.get("left_out", {})
        return Results(**{**vars(self), "record": Record({**content, "left_out": {**known, **left_out}})})

    def content(self) -> dict[str, Any]:
        """Returns the content of results.json."""
        return {"run": self.record.content, **{name: to_json(vars(self)[name]) for name in self.measured}}


class Run(NamedTuple):
    tables: Tables
    results: Results

    @property
    def folder(self) -> Path:
        return self.tables.folder

    @property
    def record(self) -> Record:
        return self.results.record


def results_from_json(content: dict[str, Any], place: str = "results") -> Results:
    """Makes the results from the content of results.json. `place` are the words for it in error messages.

    Raises:
        ValueError: A key is missing or unknown, or a value has another type. The message names the key.
    """
    kinds = get_type_hints(Results)
    measured = {}
    for name, part in content.items():
        if name != "run":
            if name not in kinds:
                raise ValueError(f"{place}.{name} is not a measurement of this release; analyse or measure again")
            measured[name] = from_json(kinds[name], part, f"{place}.{name}")
    return Results(Record(content["run"], f"{place}.run"), **measured)


def read_run(folder: Path) -> Run:
    path = folder / RESULTS_FILE
    if not path.is_file():
        raise ValueError(f"'{folder}' has no {RESULTS_FILE}; pass the folder of a finished run")
    content, place = read_json(path), f"'{path}': results"
    if not isinstance(content.get("run"), dict):
        raise ValueError(f"{place}.run is not an object; pass the folder of a finished run")
    check_layout(folder, content["run"])
    for name in ("settings", "model", "data"):
        if name not in content["run"]:
            raise ValueError(f"{place}.run.{name} is missing; pass the folder of a finished run")
    return Run(Tables(folder), results_from_json(content, place))
