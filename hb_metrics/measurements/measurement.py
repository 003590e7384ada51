"""The base class of all measurements; every folder beside this file is one of them.

A measurement is something that `measure.py --measurements NAME` computes. It is a subclass of `Measurement` in a folder
of its own, and an entry of `MEASUREMENTS`; nothing else knows it by name. In the order in which they are called:

    options       a dataclass: the fields become command-line options
    read_files    reads the files that options name, before a model is loaded
    plan          loads what else is needed and plans the work
    describe      the parts of the plan that results depend on, for run.json
    measure       does the work, on all processes, and returns what becomes results["NAME"]
    summary       the lines that the terminal prints
    figures       the main numbers of the run: on the Hub, on a model's card, in overviews of several runs
    report        its part of report.html
    overview, compare, changes, overview_figures, warnings
                  its part of a page with several runs; made from its figures unless it has more to show

The last four groups start from results.json and the run folder alone, without a model.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hb_metrics.display.parts import Comparison, Figure, Report, Section
from hb_metrics.measurements.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from hb_metrics.display.run_changes import FigureChanges
    from hb_metrics.inference.engines.engine import Ability, Engine
    from hb_metrics.inference.models.loading import LoadedModel
    from hb_metrics.inference.processes import PartialState
    from hb_metrics.runs.finished_run import Run


@dataclass(frozen=True)
class Task:
    """What all measurements of a run share.

    Attributes:
        settings: The options of the run.
        prompts: The prompts of `--dataset_config`, with the columns of `hb_dataset.prompt_table.PROMPT_SCHEMA`.
        engine: What answers: the model, wherever it is.
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
        assert self.engine.loaded is not None  # else they would not be measured
        return self.engine.loaded


class Measurement:
    """A measurement; each is a subclass.

    Attributes:
        name: Its name in `--measurements` and in results.json.
        title: The title of its sections.
        words: What it measures, in the subtitle of a report.
        done: What `measure` has done, to print with the seconds it took.
        options: A dataclass of options, each with a default and a help; `None`: it has none. Its `__post_init__` raises
            a ValueError for an impossible value. `_argument_group_name` heads them in the help.
        by_default: Whether it is measured without being asked for.
        has_own_prompts: Whether it measures other prompts than those of `--dataset_config`.
        needs: What it needs of the engine (`engines.engine.Ability`): "replies", which masked models do not give,
            "likelihoods" of the prompts, or "weights", the model itself.
        requires: Measurements whose results it starts from: they are measured too, as far as the model can.
        tasks: Names of its figures among the Hub's evaluation results.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    words: ClassVar[str]
    done: ClassVar[str]
    options: ClassVar[type | None] = None
    by_default: ClassVar[bool] = False
    has_own_prompts: ClassVar[bool] = False
    needs: "ClassVar[tuple[Ability, ...]]" = ()
    requires: ClassVar[tuple[str, ...]] = ()
    tasks: ClassVar[tuple[str, ...]] = ()

    @property
    def folder(self) -> Path:
        """Where its files are, such as the templates of its sections."""
        return Path(inspect.getfile(type(self))).parent

    def read_files(self, settings: Settings) -> Any:
        """Reads the files that its options name, so that faults in them show before the model runs.

        Only called if it is asked for, or required by what is.

        Returns:
            Anything that `plan` would otherwise have to read again.

        Raises:
            ValueError: An option is missing, or a file is not valid.
            OSError: There is no such file.
        """

    def plan(self, task: Task, files: Any) -> Any:
        """Plans the work and loads what it needs beside the model. Called on every process.

        Args:
            task: What all measurements share.
            files: What `read_files` returned.

        Returns:
            What `describe` and `measure` are given.

        Raises:
            ValueError: The model or the prompts cannot do what was asked.
        """

    def describe(self, work: Any) -> dict[str, Any]:
        """Everything in the plan that results depend on: sections for run.json, by name."""
        return {}

    def measure(self, task: Task, work: Any, results: Mapping[str, Any]) -> dict[str, Any]:
        """Does the work that is not on disk yet. Called on every process.

        Args:
            task: What all measurements share.
            work: What `plan` returned.
            results: The results of the measurements before it, by name; empty on all processes but the main one.

        Returns:
            Plain values for results.json; empty on all processes but the main one.
        """
        raise NotImplementedError

    def summary(self, results: Mapping[str, Any]) -> list[str]:
        """The lines that the terminal prints.

        Args:
            results: The content of results.json, here and below.
        """
        return [f"{figure.name}  {figure.shown}" for figure in self.figures(results)]

    def figures(self, results: Mapping[str, Any]) -> list[Figure]:
        """The main numbers of the run. Figures of two runs are compared if they have the same name."""
        raise NotImplementedError

    def gate_names(self, settings: Settings) -> tuple[str, ...]:
        """The names of its figures (`Figure.key`) that `--fail_above` can limit, known before the model runs."""
        return self.tasks

    def figure_settings(self, results: Mapping[str, Any]) -> list[str]:
        """The settings that its figures depend on, for the notes of the Hub's evaluation results."""
        return []

    def variant(self, results: Mapping[str, Any]) -> list[str]:
        """The settings in which evaluation results of the same model and config differ, such as the classifier."""
        return []

    def card_sentences(self, results: Mapping[str, Any]) -> list[str]:
        """Sentences on how it was measured, for readers of a model's card, in plain text."""
        return []

    def overview_notes(self, results: Mapping[str, Any]) -> list[str]:
        """Sentences on how it was measured, for readers of an overview of several runs."""
        return self.card_sentences(results)

    def report(self, results: Mapping[str, Any]) -> Report:
        """Its part of the report of a run."""
        raise NotImplementedError

    def overview_figures(self, runs: "Sequence[Mapping[str, Any]]") -> list[list[Figure]]:
        """[runs][figures] the figures that an overview shows of each run: those that compare between runs.

        Args:
            runs: Contents of results.json; those that did not measure it have no figures.
        """
        return [self.figures(run) if self.name in run else [] for run in runs]

    def overview(self, runs: "Sequence[Run]", names: Sequence[str]) -> Section | None:
        """Its part of the overview of several runs; `None`: fewer than two of them have it.

        Args:
            runs: All runs of the page.
            names: [runs] what they are called.
        """
        from hb_metrics.display import figures_of_runs

        return figures_of_runs.overview_section(
            self.name, self.title, self.overview_figures([run.results for run in runs]), names
        )

    def tuned(self, runs: "Sequence[Run]", names: Sequence[str], labels: Path | None) -> Section | None:
        """What became of a model that was tuned on labels; `None`: the measurement has nothing to do with labels.

        Args:
            runs: All runs of the page, that before tuning first.
            names: [runs] what they are called.
            labels: The folder of the labels; `None`: not given.
        """
        return None

    def compare(self, first: "Run", second: "Run", names: tuple[str, str]) -> Comparison:
        """Two runs that both measured it, in detail."""
        from hb_metrics.display import figures_of_runs

        figures = self.overview_figures([first.results, second.results])
        return figures_of_runs.comparison(self.name, self.title, figures[0], figures[1], names)

    def changes(self, first: "Run", second: "Run") -> "FigureChanges | None":
        """How its figures change from one run to another, with intervals, or why that is not known.

        Both runs measured it. `None`: its changes have no intervals.
        """
        return None

    def warnings(self, changed: set[str], runs: "Sequence[Mapping[str, Any]]") -> list[str]:
        """Why figures of several runs do not compare.

        Args:
            changed: Settings that differ between runs that have them, as `section.name` of run.json.
            runs: Contents of results.json.
        """
        return []
