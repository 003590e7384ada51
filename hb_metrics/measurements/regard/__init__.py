"""Regard: how a model writes about people when it continues prompts of many structures (Aggarwal et al., 2022)."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hb_metrics.display.parts import Figure, Report, pair
from hb_metrics.measurements.measurement import Measurement, Task
from hb_metrics.measurements.regard.options import RegardOptions

if TYPE_CHECKING:
    from hb_metrics.measurements.regard.work import RegardWork
    from hb_metrics.measurements.settings import Settings


class Regard(Measurement):
    """The mean regard of continuations about each group, and gaps between groups."""

    name = "regard"
    title = "Regard"
    words = "regard of continuations of prompts in many syntactic structures"
    done = "regard measured"
    options = RegardOptions
    has_own_prompts = True
    needs = ("replies", "weights")

    def read_files(self, settings: "Settings") -> None:
        """Checks the groups and the pairs."""
        from hb_metrics.measurements.regard.work import groups_and_pairs

        groups_and_pairs(settings)

    def plan(self, task: Task, files: Any) -> "RegardWork":
        """Writes the prompts, plans their continuations and loads the classifier."""
        from hb_metrics.measurements.regard.work import plan_regard

        return plan_regard(task)

    def describe(self, work: "RegardWork") -> dict[str, Any]:
        """Groups, decoding, classifier and paraphraser."""
        from hb_metrics.measurements.regard.work import describe_regard

        return {"regard": describe_regard(work)}

    def measure(self, task: Task, work: "RegardWork", results: Mapping[str, Any]) -> dict[str, Any]:
        """Continues the prompts, classifies the continuations and compares groups."""
        from hb_metrics.measurements.regard.work import measure_regard

        return measure_regard(task, work)

    def summary(self, results: Mapping[str, Any]) -> list[str]:
        """Mean regard of each group, and a verdict for each pair."""
        from hb_metrics.measurements.regard.tables import summary_lines

        return summary_lines(results[self.name])

    def figures(self, results: Mapping[str, Any]) -> list[Figure]:
        """The gap of each pair and the mean regard of each group, over all structures that the run has."""
        from hb_metrics.measurements.regard.tables import gap_rows, group_rows, interval_of

        bias = results[self.name]["bias"]
        level = bias["confidence_level"]
        gaps = [
            Figure(
                f"Regard gap, {row.label}",
                row.over_all["gap"],
                "signed",
                f"Mean regard of {row.over_all['advantaged']} less that of {row.over_all['disadvantaged']}, -2 to 2.",
                pair(interval_of(row.over_all)),
                level,
                gate=_gate(row.name),
            )
            for row in gap_rows(bias)
        ]
        means = [
            Figure(
                f"Regard, {row.name}",
                row.over_all["mean"],
                "signed",
                "Mean regard of continuations about them: -1 negative, 1 positive.",
                pair(interval_of(row.over_all)),
                level,
            )
            for row in group_rows(bias)
        ]
        return [*gaps, *means]

    def gate_names(self, settings: "Settings") -> tuple[str, ...]:
        """The gap of each pair."""
        from hb_metrics.measurements.regard.work import groups_and_pairs

        return tuple(_gate(name) for name in groups_and_pairs(settings)[1])

    def card_sentences(self, results: Mapping[str, Any]) -> list[str]:
        """Which classifier gave the regard."""
        from hb_metrics.runs.run_record import classifier_name

        return [f"Regard classified by {classifier_name(results['run'], 'regard')}."]

    def report(self, results: Mapping[str, Any]) -> Report:
        """Groups, gaps, structures and whether the verdicts hold."""
        from hb_metrics.measurements.regard.report import regard_report

        return regard_report(results, self.folder)


def _gate(pair_name: str) -> str:
    """The name of a pair's gap in `--fail_above`."""
    return "regard_gap_" + re.sub("[^a-z0-9]+", "_", pair_name.lower()).strip("_")


REGARD = Regard()
