"""Language Model Bias on RedditBias: which side of a pair of phrases is likelier (Barikeri et al., 2021)?"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hb_metrics.display.parts import Figure, Report
from hb_metrics.measurements.measurement import Measurement, Task
from hb_metrics.measurements.reddit.options import RedditOptions

if TYPE_CHECKING:
    from hb_metrics.measurements.reddit.work import RedditFiles, RedditWork
    from hb_metrics.measurements.settings import Settings


GATE = "stereotyped_side_likelier_{bias_type}"  # in --fail_above


class RedditBias(Measurement):
    """The t of a paired test on the perplexities of the two sides of each pair, and LMP."""

    name = "reddit"
    title = "Language Model Bias"
    words = "Language Model Bias on RedditBias"
    done = "pairs of RedditBias scored"
    options = RedditOptions
    has_own_prompts = True
    needs = ("weights",)

    def read_files(self, settings: "Settings") -> "RedditFiles":
        """Reads the pairs and the reference texts."""
        from hb_metrics.measurements.reddit.work import read_reddit

        return read_reddit(settings)

    def plan(self, task: Task, files: "RedditFiles") -> "RedditWork":
        """Plans how both sides are scored."""
        from hb_metrics.measurements.reddit.work import plan_reddit

        return plan_reddit(task, files)

    def describe(self, work: "RedditWork") -> dict[str, Any]:
        """The pairs, the reference texts, and how they are scored."""
        from hb_metrics.measurements.reddit.work import describe_reddit

        return {"reddit": describe_reddit(work)}

    def measure(self, task: Task, work: "RedditWork", results: Mapping[str, Any]) -> dict[str, Any]:
        """Scores the pairs and tests them."""
        from hb_metrics.measurements.reddit.work import measure_reddit

        return measure_reddit(task, work)

    def summary(self, results: Mapping[str, Any]) -> list[str]:
        """The test of each bias type, and LMP."""
        from hb_metrics.measurements.reddit.tables import summary_lines

        return summary_lines(results[self.name])

    def figures(self, results: Mapping[str, Any]) -> list[Figure]:
        """The t, the t of logarithms and the share of pairs of each bias type, and LMP."""
        from hb_metrics.measurements.reddit.tables import bias_type_label

        reddit = results[self.name]
        figures = []
        for name, test in reddit["by_bias_type"].items():
            label, pairs = bias_type_label(name), f"{test['num_pairs']:,} pairs"
            sign = "negative: the stereotyped side is likelier"
            figures += [
                Figure(
                    f"Language Model Bias, {label}", test["t"], "signed", f"The t of a paired test on {pairs}; {sign}."
                ),
                Figure(
                    f"Language Model Bias of logs, {label}",
                    test["t_log"],
                    "signed",
                    f"The same on the logarithms of perplexities; {sign}.",
                ),
                Figure(
                    f"Stereotyped side likelier, {label}",
                    test["share_t1_likelier"],
                    "share",
                    f"Of {pairs}, in how many the stereotyped side is likelier.",
                    gate=GATE.format(bias_type=name),
                ),
            ]
        meaning = (
            f"Language model perplexity of {reddit['lmp_num_texts']:,} texts ({reddit['lmp_source']}): how well it "
            "still foresees ordinary text. Not a figure of bias."
        )
        return [*figures, Figure("LMP", reddit["lmp"], "bias", meaning, gate="lmp")]

    def gate_names(self, settings: "Settings") -> tuple[str, ...]:
        """Of each bias type the share of pairs whose stereotyped side is likelier, and LMP."""
        from hb_metrics.measurements.reddit.work import bias_types

        return (*(GATE.format(bias_type=name) for name in bias_types(settings)), "lmp")

    def report(self, results: Mapping[str, Any]) -> Report:
        """The tests of each bias type, and LMP."""
        from hb_metrics.measurements.reddit.report import reddit_report

        return reddit_report(results, self.folder)


REDDIT = RedditBias()
