"""The base class of all measurements. Every folder beside this file contains a measurement.

`measure.py --measurements NAME` runs a measurement. It is a subclass of `Measurement` in the `__init__.py` of a
folder, and an entry of `MEASUREMENTS`; nothing else knows it by name. Its folder has these modules, which are imported
only when needed, because some of them import torch or plotly:

    options.py        a dataclass, whose fields become command-line options
    work.py           `plan`, `describe` and `measure`, which run the model
    figures.py        `figures`: the numbers of the run, for the terminal, pages, cards, the Hub and comparisons
    page.py           `report`: its part of report.html
    run_changes.py    `changes`: the intervals of changes between two runs; optional
    generalised.py    `generalise`: intervals for other terms and templates; optional

`figures` and `report` start from results.json alone, without a model.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from hb_metrics.measurements.settings import Settings
from hb_metrics.report.layout.figure import Figure
from hb_metrics.report.layout.parts import Details, Report, Section
from hb_metrics.runs.run_folder import JUDGE

if TYPE_CHECKING:
    import pyarrow as pa

    from hb_metrics.inference.classifiers.named import NamedOptions
    from hb_metrics.inference.engines.engine import Ability, Engine
    from hb_metrics.inference.models.loading import LoadedModel
    from hb_metrics.inference.processes import PartialState
    from hb_metrics.paired_changes.paired_change import PairedChange
    from hb_metrics.runs.finished_run import Run
    from hb_metrics.stats.generalising import Generalised, Over


@dataclass(frozen=True)
class Task:
    """The state that all measurements of a run share.

    Attributes:
        settings: The options of the run.
        prompts: The prompts of `--dataset_config`, with the columns of `hb_dataset.prompt_table.PROMPT_SCHEMA`.
        engine: The engine that answers: a model here, a server, or files.
        state: The processes.
        measurements: Names of the run's measurements, in their order.
        folder: The run folder.
    """

    settings: Settings
    prompts: "pa.Table"
    engine: "Engine"
    state: "PartialState"
    measurements: tuple[str, ...]
    folder: Path

    @property
    def loaded(self) -> "LoadedModel":
        """The model, for measurements that need its `weights`."""
        assert self.engine.loaded is not None  # planning left out measurements that need it
        return self.engine.loaded

    def classifier_options(self) -> "NamedOptions":
        """The options for loading a classifier or a judge."""
        from hb_metrics.inference.judges.judge import JudgeSource, load_judge

        run, device = self.settings.run, self.state.device
        source = JudgeSource(run.judge_model, run.judge_base_url, run.concurrency, run.seed, self.folder / JUDGE)
        judge = partial(load_judge, source=source, device=device, trust_remote_code=run.trust_remote_code)
        return {"device": device, "trust_remote_code": run.trust_remote_code, "judge": judge}


class FigureChanges(NamedTuple):
    """The changes of a measurement's figures between two runs.

    Attributes:
        by_name: Name of a figure → its change, with an interval or the reason why there is none.
        reason: Why changes that `by_name` lacks have no interval; `None` if no other change should have one.
        confidence_level: The confidence level of the intervals; `None` if there are none.
    """

    by_name: "dict[str, PairedChange]"
    reason: str | None = None
    confidence_level: float | None = None


class Measurement:
    """The base class of measurements.

    Attributes:
        name: Its name in `--measurements` and in results.json, and that of its folder.
        title: The title of its sections.
        words: Its name in the subtitle of a report.
        done: The work of `measure`, printed with the seconds it took.
        options: A dataclass of options, each with a default and a help, or `None`. Its `__post_init__` raises
            a ValueError for an impossible value. `_argument_group_name` heads them in the help.
        by_default: Whether it is measured by default.
        has_own_prompts: Whether it measures other prompts than those of `--dataset_config`.
        needs: The abilities that the engine must have (`engines.engine.Ability`): "replies", which masked models lack,
            "likelihoods" of the prompts, or "weights", the model itself.
        tasks: Names of its figures among the Hub's evaluation results.
        gates: Names of other figures that `--fail_above` can limit (`Figure.gate`).
    """

    name: ClassVar[str]
    title: ClassVar[str]
    words: ClassVar[str]
    done: ClassVar[str]
    options: ClassVar[type | None] = None
    by_default: ClassVar[bool] = False
    has_own_prompts: ClassVar[bool] = False
    needs: "ClassVar[tuple[Ability, ...]]" = ()
    tasks: ClassVar[tuple[str, ...]] = ()
    gates: ClassVar[tuple[str, ...]] = ()

    @property
    def folder(self) -> Path:
        """The folder of its files, such as the templates of its sections."""
        return Path(inspect.getfile(type(self))).parent

    def module(self, name: str) -> ModuleType:
        """A module of its folder."""
        return import_module(f"{type(self).__module__}.{name}")

    def is_asked(self, settings: Settings) -> bool:
        """Whether its own options ask for it, without `--measurements`."""
        return False

    def read_files(self, settings: Settings) -> Any:
        """Reads the files that its options name, so that their faults show before the model runs.

        Called only for measurements of the run.

        Returns:
            Anything that `plan` would otherwise have to read again.

        Raises:
            ValueError: An option is missing, or a file is not valid.
            OSError: There is no such file.
        """

    def own_prompts(self, settings: Settings) -> "pa.Table | None":
        """The prompts that its options put in place of those of `--dataset_config`, or `None`.

        Raises:
            ValueError: A file that the options name is not valid.
        """
        return None

    def plan(self, task: Task, files: Any) -> Any:
        """Plans the work and loads everything but the model that it needs. Called on every process.

        Args:
            task: The state that all measurements share.
            files: The result of `read_files`.

        Returns:
            The plan, for `describe` and `measure`.

        Raises:
            ValueError: The model or the prompts do not suit the measurement.
        """
        return self.module("work").plan(task, files)

    def describe(self, work: Any) -> dict[str, Any]:
        """Returns the parts of the plan that results depend on, as sections of run.json."""
        sections: dict[str, Any] = self.module("work").describe(work)
        return sections

    def measure(self, task: Task, work: Any, results: Mapping[str, Any]) -> dict[str, Any]:
        """Does the work that is not on disk yet. Called on every process.

        Args:
            task: The state that all measurements share.
            work: The result of `plan`.
            results: The results of the measurements before it, by name; empty on all processes but the main one.

        Returns:
            Plain values for results.json; empty on all processes but the main one.
        """
        measured: dict[str, Any] = self.module("work").measure(task, work, results)
        return measured

    def figures(self, results: Mapping[str, Any]) -> list[Figure]:
        """The numbers of the run. Figures of two runs are compared if they have the same name.

        Args:
            results: The content of results.json, here and below.
        """
        listed: list[Figure] = self.module("figures").figures(results)
        return listed

    def report(self, results: Mapping[str, Any]) -> Report:
        """Its part of the report of a run."""
        part: Report = self.module("page").report(results)
        return part

    def gate_names(self, settings: Settings) -> tuple[str, ...]:
        """The names of its figures (`Figure.key`) that `--fail_above` can limit, known before the model runs."""
        return (*self.tasks, *self.gates)

    def figure_settings(self, results: Mapping[str, Any]) -> list[str]:
        """The settings that its figures depend on, for the notes of the Hub's evaluation results."""
        return []

    def variant(self, results: Mapping[str, Any]) -> list[str]:
        """The settings in which evaluation results of the same model and config differ, such as the classifier."""
        return []

    def card_sentences(self, results: Mapping[str, Any]) -> list[str]:
        """Sentences on the measurement for readers of a model's card, in plain text."""
        return []

    def changes(self, first: "Run", second: "Run") -> FigureChanges:
        """The changes of its figures between two runs that measured it."""
        if not (self.folder / "run_changes.py").is_file():
            return FigureChanges({})
        changes: FigureChanges = self.module("run_changes").changes(first, second)
        return changes

    def generalise(self, run: "Run", over: "Over") -> "dict[str, Generalised]":
        """Name of a figure → its interval for other terms or templates; empty without such intervals or their files."""
        if not (self.folder / "generalised.py").is_file():
            return {}
        intervals: dict[str, Generalised] = self.module("generalised").generalise(run, over)
        return intervals

    def details(self, first: "Run", second: "Run", names: tuple[str, str]) -> Details:
        """Its part of the page of two runs that both measured it, beside their figures."""
        return Details([])

    def together(self, runs: "Sequence[Run]", names: Sequence[str], labels: Path | None) -> list[Section]:
        """The measurement's sections on all runs of a page together, such as the effect of cues or tuning.

        Args:
            runs: All runs of the page; the run before tuning comes first.
            names: [runs] their names.
            labels: The folder of the labels, or `None`.
        """
        return []

    def warnings(self, changed: set[str], runs: "Sequence[Mapping[str, Any]]") -> list[str]:
        """Reasons why figures of several runs are not comparable.

        Args:
            changed: Settings that differ between runs that have them, as `section.name` of run.json.
            runs: Contents of results.json.
        """
        return []
