"""Defines the base class of all measurements.

A measurement is a subclass of `Measurement` in the `__init__.py` of a folder beside this file. It is listed in
`MEASUREMENTS`, and its results in `Results`. Its `plan` prepares to ask the model and write tables. A measurement that
only reads other measurements' tables needs no plan. Its `parts` need no model: they compute results from the tables,
and show them. Both are imported only when needed, because a plan imports torch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from hb_metrics.layout.parts import Report
from hb_metrics.measurements.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from hb_metrics.collect.classifiers.classifier import Classifier
    from hb_metrics.collect.engines.engine import Ability, Engine
    from hb_metrics.layout.figure import Figure
    from hb_metrics.measurements.results import Results, Run
    from hb_metrics.models.loading import LoadedModel
    from hb_metrics.models.processes import PartialState
    from hb_metrics.run.record import Record
    from hb_metrics.run.tables import Tables
    from hb_metrics.stats.changes import FigureChanges
    from hb_metrics.stats.clusters import Generalised, Over


@dataclass(frozen=True)
class Task:
    """The state that all measurements of a run share.

    Attributes:
        prompts: The prompts of the run, with the columns of `hb_dataset.prompt_columns.PROMPT_SCHEMA`.
    """

    settings: Settings
    prompts: "pa.Table"
    engine: "Engine"
    state: "PartialState"
    measurements: tuple[str, ...]
    folder: Path

    @property
    def tables(self) -> "Tables":
        from hb_metrics.run.tables import Tables

        return Tables(self.folder)

    @property
    def loaded(self) -> "LoadedModel":
        """Returns the loaded model. Call it only if the measurement needs the model's weights."""
        assert self.engine.loaded is not None  # without a model, measurements that need its weights do not run
        return self.engine.loaded

    def classifier_options(self) -> dict[str, Any]:
        from hb_metrics.collect.judges.judge import JudgeSource, load_judge
        from hb_metrics.run.run_folder import JUDGE_FOLDER

        run, device = self.settings.run, self.state.device
        source = JudgeSource(run.judge_model, run.judge_base_url, run.concurrency, run.seed, self.folder / JUDGE_FOLDER)
        judge = partial(load_judge, source=source, device=device, trust_remote_code=run.trust_remote_code)
        return {"device": device, "trust_remote_code": run.trust_remote_code, "judge": judge}


def label_options(settings: Settings) -> dict[str, Any]:
    """Returns the options with which only the labels of classifiers are loaded."""
    from hb_metrics.collect.judges.judge import JudgeSource, check_judge

    run = settings.run
    source = JudgeSource(run.judge_model, run.judge_base_url, run.concurrency, run.seed)
    judge = partial(check_judge, source=source, trust_remote_code=run.trust_remote_code)
    return {"device": "cpu", "trust_remote_code": run.trust_remote_code, "judge": judge, "weights": False}


def classifier_record(classifier: "Classifier", **more: Any) -> dict[str, object]:
    """Describes a classifier for run.json."""
    known = {"name": classifier.name, "is_embedded": classifier.is_embedded, "digest": classifier.digest}
    judge = {} if classifier.judge is None else {"judge": classifier.judge}
    return {**known, **more, "notes": list(classifier.notes), **judge}


class Planned(NamedTuple):
    """A measurement that is ready to ask the model.

    Attributes:
        record: Sections of run.json that describe everything on which results depend.
        collect: Writes the model's outputs that are not on disk yet to tables in the run's folder. Runs on every
            process.
    """

    record: Mapping[str, object]
    collect: Callable[[], None]


@dataclass(frozen=True)
class Parts:
    """The parts of a measurement that need no model. `None` means that the measurement has no such part.

    Attributes:
        compute: [run] Computes the measurement's results (see `Results`) from the tables in the run's folder.
            `run.results` contains at least the run's record.
        figures: [results] Returns the figures of a run. Comparisons match figures of different runs by their names.
        report: [results] Returns the measurement's sections of the report.
        changes: [first, second] Returns the changes in figures from one run to the other, with intervals. Raises
            `MissingTableError` if a run's folder lacks the tables.
        generalise: [run, over] Returns, by the name of the figure, the intervals that generalise to other terms or
            templates.
    """

    compute: "Callable[[Run], object]"
    figures: "Callable[[Results], list[Figure]]"
    report: "Callable[[Results], Report]"
    changes: "Callable[[Run, Run], FigureChanges] | None" = None
    generalise: "Callable[[Run, Over], dict[str, Generalised]] | None" = None


class Measurement:
    """The base class of measurements.

    Attributes:
        name: The name of the measurement's folder, which is also its name in `--measurements` and in results.json.
        words: The name of the measurement within a sentence.
        options: A dataclass of options, each with a default and a help string. Its `__post_init__` raises a ValueError
            for an invalid value. `_argument_group_name` is the heading of the options in the help.
        by_default: Whether the measurement runs if `--measurements` is not set.
        has_own_prompts: Whether the measurement uses its own prompts and not those of `--dataset_config`.
        needs: The abilities that the engine must have (`engines.engine.Ability`).
        reads: The measurements whose tables or results it reads. A run must have them, and they are before it in
            `MEASUREMENTS`.
        tasks: The names of the measurement's figures in the Hub's evaluation results (`Figure.task`).
        gates: The names of other figures to which `--fail_above` can apply (`Figure.gate`).
        paired: The names in `--no_worse_than` of the whole run's figures that are not shares and whose changes between
            runs have intervals.
        paired_shares: The names of such figures that are shares.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    words: ClassVar[str]
    options: ClassVar[type | None] = None
    by_default: ClassVar[bool] = False
    has_own_prompts: ClassVar[bool] = False
    needs: "ClassVar[tuple[Ability, ...]]" = ()
    reads: ClassVar[tuple[str, ...]] = ()
    tasks: ClassVar[tuple[str, ...]] = ()
    gates: ClassVar[tuple[str, ...]] = ()
    paired: ClassVar[tuple[str, ...]] = ()
    paired_shares: ClassVar[tuple[str, ...]] = ()

    def read_files(self, settings: Settings, prompts: "pa.Table") -> Any:
        """Reads the files in the measurement's options before the model is loaded, for `plan`.

        Raises:
            ValueError: An option is missing, a file is not valid, or the prompts do not suit the measurement.
            OSError: A file does not exist.
        """

    def check_classifiers(self, settings: Settings) -> None:
        """Checks, before the model is loaded, whether the measurement's classifiers exist and have the right labels.

        Raises:
            ValueError: The labels do not suit the measurement.
            OSError: A classifier does not exist.
        """

    def plan(self, task: Task, files: Any) -> Planned:
        """Prepares the measurement, by default to ask nothing. Runs on every process.

        Raises:
            ValueError: The model or the prompts do not suit the measurement.
        """
        return Planned({}, lambda: None)

    @property
    def parts(self) -> Parts:
        raise NotImplementedError

    def figures(self, results: "Results") -> "list[Figure]":
        """Returns the figures of a run, or none if the run does not have the measurement."""
        return self.parts.figures(results) if self.name in results.measured else []

    def is_default(self, settings: Settings) -> bool:
        """Returns whether the measurement runs if `--measurements` is not set."""
        return self.by_default

    def is_asked(self, settings: Settings) -> bool:
        """Returns whether the measurement's own options request it, even if `--measurements` does not name it."""
        return False

    def gate_names(self, settings: Settings) -> tuple[str, ...]:
        """Returns the names of figures (`Figure.key`) for `--fail_above`. They must be known before the model runs."""
        return (*self.tasks, *self.gates)

    def margin_units(self, settings: Settings) -> Mapping[str, str]:
        """Returns the units of the margins in `--no_worse_than`, by the name of the figure: "pt" for shares, or ""."""
        return dict.fromkeys(self.paired, "") | dict.fromkeys(self.paired_shares, "pt")

    def figure_settings(self, record: "Record") -> list[str]:
        """Returns the settings on which the figures depend, in words, for the Hub's evaluation results."""
        return []

    def variant(self, record: "Record") -> list[str]:
        """Returns the settings that distinguish the Hub's evaluation results for the same model and config."""
        return []

    def card_sentences(self, results: "Results") -> list[str]:
        return []

    def warnings(self, changed: set[str], runs: "Sequence[Results]") -> list[str]:
        """Returns sentences that state why the measurement's figures of several runs are not comparable.

        `changed` contains the settings that differ, each in the form `section.name` (as in run.json). `runs` contains
        the results of the runs that have the measurement.
        """
        return []
