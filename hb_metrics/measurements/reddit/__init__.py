"""Language Model Bias on RedditBias: which side of a pair of phrases is likelier (Barikeri et al., 2021)?"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from hb_metrics.display.figures import plain
from hb_metrics.display.numbers import MISSING, bias, fixed, share
from hb_metrics.display.parts import Figure, Report, Section, Tile
from hb_metrics.display.rendering import render
from hb_metrics.measurements.measurement import Measurement, Task
from hb_metrics.measurements.reddit.options import RedditOptions

if TYPE_CHECKING:
    from hb_metrics.measurements.reddit.work import RedditFiles, RedditWork
    from hb_metrics.measurements.settings import Settings


class RedditBias(Measurement):
    """The t of a paired test on the perplexities of both sides of each pair, and LMP."""

    name = "reddit"
    title = "Language Model Bias"
    words = "Language Model Bias on RedditBias"
    done = "pairs of RedditBias scored"
    options = RedditOptions
    has_own_prompts = True

    def read_files(self, settings: "Settings") -> "RedditFiles":
        """The pairs and the reference texts."""
        from hb_metrics.measurements.reddit.work import read_reddit

        return read_reddit(settings)

    def plan(self, task: Task, files: "RedditFiles") -> "RedditWork":
        """How both sides are scored."""
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
        """Of each bias type the t, the t of logarithms and the share of pairs; and LMP."""
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
                ),
            ]
        meaning = (
            f"Language model perplexity of {reddit['lmp_num_texts']:,} texts ({reddit['lmp_source']}): how well it "
            "still foresees ordinary text. Not a figure of bias."
        )
        return [*figures, Figure("LMP", reddit["lmp"], "bias", meaning)]

    def report(self, results: Mapping[str, Any]) -> Report:
        """The tests of each bias type, and LMP."""
        from hb_metrics.measurements.reddit import figures, tables

        reddit = results[self.name]
        rows = tables.reddit_rows(reddit)
        context = {
            "reddit": {
                "rows": rows,
                "split": rows[0].found["split"],
                "filtered": rows[0].found["outliers"] == "pair",
                "lmp": reddit["lmp"],
                "lmp_num_texts": reddit["lmp_num_texts"],
                "lmp_source": reddit["lmp_source"],
                "lmp_left_out": sum(reddit["lmp_num_skipped"].values()),
            }
        }
        plots = {"reddit-t": [plain(figures.t_figure(rows))], "reddit-share": [plain(figures.share_figure(rows))]}
        tiles = [
            Tile(
                f"Language Model Bias, {label}",
                MISSING if test["t"] is None else f"t {fixed(test['t'], 2)}",
                (f"of logs {MISSING if test['t_log'] is None else fixed(test['t_log'], 2)}",),
            )
            for label, test in rows
        ]
        return Report(
            [Section("reddit", "Language Model Bias", render(self.folder / "section.html.jinja", context), plots)],
            [*tiles, Tile("LMP", bias(reddit["lmp"]))],
            answer=reddit_answer(reddit),
            reading=render(self.folder / "reading.html.jinja", {}),
            files=Markup("the perplexity of both sides of each pair, by id, in <code>reddit/pairs/*/*.parquet</code>"),
        )


def reddit_answer(reddit: Mapping[str, Any]) -> str:
    """Of each bias type, whether the stereotyped side is likelier by more than chance.

    By the test on logarithms of perplexities, which no few pairs decide. Where outliers were left out, a test finds
    differences by chance more often than its level says, and the answer says so.
    """
    from hb_metrics.measurements.reddit.tables import bias_type_label

    parts, filtered = [], False
    for name, test in reddit["by_bias_type"].items():
        label, number = bias_type_label(name), test["num_pairs"]
        if test["t_log"] is None:
            parts.append(f"{label}: cannot be known from {number:,} pair{'s' * (number != 1)}")
            continue
        numbers = (
            f"(t of logs {fixed(test['t_log'], 2)}; the stereotyped side is likelier in "
            f"{share(test['share_t1_likelier'])} of {number:,} pairs)"
        )
        if test["p_value_log"] >= test["alpha"]:
            parts.append(f"{label}: no difference stands out from chance {numbers}")
            continue
        side = "stereotyped" if test["t_log"] < 0 else "other"
        filtered |= test["outliers"] == "pair"
        beyond = "by a test without outliers" if test["outliers"] == "pair" else "by more than chance"
        parts.append(f"{label}: the {side} side is likelier {beyond} {numbers}")
    caution = " Leaving out outliers makes such a test find a difference by chance more often than its level says."
    return (
        "Phrases that say something stereotyped of a group, beside the same of another group. "
        f"{'; '.join(parts)}.{caution if filtered else ''}"
    )


REDDIT = RedditBias()
