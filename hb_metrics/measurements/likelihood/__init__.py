"""Likelihood Bias: are sentences about some people likelier than about others (Smith et al., 2022, 3.1)?"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from hb_metrics.display.figures import axis_label, plain
from hb_metrics.display.numbers import count, share
from hb_metrics.display.parts import Comparison, Figure, Report, Section, Tile
from hb_metrics.display.rendering import render
from hb_metrics.measurements.likelihood.options import LikelihoodOptions
from hb_metrics.measurements.measurement import Measurement, Task

if TYPE_CHECKING:
    from hb_metrics.finished_run import Run
    from hb_metrics.inference.units import ScoringPlan


class Likelihood(Measurement):
    """The share of pairs of terms whose sentences a test finds unequally likely."""

    name = "likelihood"
    title = "Likelihood Bias"
    words = "Likelihood Bias"
    done = "prompts scored"
    options = LikelihoodOptions
    by_default = True
    tasks = ("likelihood_bias",)

    def plan(self, task: Task, files: Any) -> "ScoringPlan":
        """How each prompt is scored."""
        from hb_metrics.measurements.likelihood.scoring import plan_scoring

        return plan_scoring(task)

    def describe(self, work: "ScoringPlan") -> dict[str, Any]:
        """How the model is run."""
        from hb_metrics.measurements.likelihood.scoring import describe_scoring

        return {"scoring": describe_scoring(work)}

    def measure(self, task: Task, work: "ScoringPlan", results: Mapping[str, Any]) -> dict[str, Any]:
        """Scores the prompts and tests all pairs of terms."""
        from hb_metrics.measurements.likelihood.scoring import measure_likelihood

        return measure_likelihood(task, work)

    def summary(self, results: Mapping[str, Any]) -> list[str]:
        """Likelihood Bias, and by axis."""
        bias = results[self.name]["likelihood_bias"]
        lines = [f"Likelihood Bias  {bias['likelihood_bias']:6.1%}  of {bias['num_tests']:,} tests"]
        known = [(axis, value) for axis, value in bias["by_axis"].items() if value is not None]
        return lines + [f"  {axis:<22} {value:6.1%}" for axis, value in sorted(known, key=lambda item: -item[1])]

    def figures(self, results: Mapping[str, Any]) -> list[Figure]:
        """Likelihood Bias, also adjusted for so many tests, and the mean effect size."""
        bias = results[self.name]["likelihood_bias"]
        left_out = _counted(bias["num_skipped_tests"], "tests skipped") + _counted(
            len(bias["left_out_descriptors"]), "terms left out"
        )
        return [
            Figure(
                "Likelihood Bias",
                bias["likelihood_bias"],
                "share",
                f"Of {bias['num_tests']:,} tests between two terms of one axis in one template, how many find the "
                f"sentences' {measure_of(results)} to differ (p < {bias['alpha']:g}).",
                task="likelihood_bias",
                notes=(f"share of {bias['num_tests']:,} tests with p < {bias['alpha']:g}", *left_out),
            ),
            Figure(
                "Likelihood Bias, effect size",
                bias["effect_size"],
                "effect",
                "How far those sentences lie apart: mean absolute rank-biserial correlation, 0 to 1.",
            ),
        ]

    def figure_settings(self, results: Mapping[str, Any]) -> list[str]:
        """What sentences were scored by, and whether terms were left out."""
        gendered = results["run"]["settings"]["include_gendered"]
        return [measure_of(results)] + ([] if gendered else ["without terms for one gender"])

    def report(self, results: Mapping[str, Any]) -> Report:
        """Likelihood Bias by axis, and perplexities by axis and template."""
        from hb_metrics.display import paper
        from hb_metrics.measurements.likelihood.figures import likelihood_bias_figure, perplexity_figure
        from hb_metrics.measurements.likelihood.tables import paper_comparisons, same_length_extremes

        bias, perplexity = results[self.name]["likelihood_bias"], results[self.name]["perplexity"]
        measure, templates = measure_of(results), perplexity["templates"]
        chosen = paper.EXTREMES_TEMPLATE if paper.EXTREMES_TEMPLATE in templates else templates[0]
        context = {
            "run": results["run"],
            "measure": measure,
            "likelihood": {
                "bias": bias,
                "perplexity": perplexity,
                "extremes_template": chosen,
                "extremes": same_length_extremes(perplexity, chosen),
                "papers": paper_comparisons(bias),
            },
        }
        figures = {
            "likelihood-bias": [plain(likelihood_bias_figure(bias))],
            "perplexities-plot": [plain(perplexity_figure(perplexity, template, measure)) for template in templates],
        }
        return Report(
            [Section("likelihood", "Likelihood Bias", render(self.folder / "section.html.jinja", context), figures)],
            [
                Tile("Likelihood Bias", share(bias["likelihood_bias"]), (f"of {count(bias['num_tests'])} tests",)),
                Tile("after Benjamini–Hochberg", share(bias["bh_likelihood_bias"])),
                Tile("mean effect size", f"{bias['effect_size']:.2f}"),
                Tile(f"median {measure}", count(perplexity["median"])),
            ],
            answer=likelihood_answer(bias, measure),
            reading=render(self.folder / "reading.html.jinja", context),
            files=Markup("the {} of each sentence in <code>perplexities/*.parquet</code>").format(measure),
        )

    def compare(self, first: "Run", second: "Run", names: tuple[str, str]) -> Comparison:
        """Likelihood Bias of both runs, by axis."""
        from hb_metrics.display.change_figure import change_figure
        from hb_metrics.measurements.likelihood.tables import likelihood_changes

        changes = likelihood_changes(*(run.results[self.name]["likelihood_bias"] for run in (first, second)))
        html = render(self.folder / "comparison.html.jinja", {"changes": changes})
        figures = {"likelihood-change": [plain(change_figure(changes, "Likelihood Bias", names, ".0%"))]}
        tile = Tile("Likelihood Bias", f"{share(changes[0].first)} → {share(changes[0].second)}")
        return Comparison([Section("likelihood", "Likelihood Bias", html, figures)], [tile])

    def warnings(self, changed: set[str], runs: Sequence[Mapping[str, Any]]) -> list[str]:
        """Tests with other settings do not compare."""
        if changed & {"settings.alpha", "settings.include_gendered"}:
            return ["Likelihood Bias was tested with different settings."]
        return []


def measure_of(results: Mapping[str, Any]) -> str:
    """What sentences were scored by: the perplexity, of a masked model the pseudo-perplexity."""
    return "pseudo-perplexity" if results["run"]["model"]["kind"] == "masked" else "perplexity"


def likelihood_answer(bias: Mapping[str, Any], measure: str) -> str | None:
    """Whether sentences about some people are likelier than about others, in a sentence; `None`: nothing was tested.

    Args:
        bias: What `likelihood_bias` returns.
        measure: What sentences were scored by.
    """
    if bias["likelihood_bias"] is None:
        return None
    by_chance = f"at most about {100 * bias['alpha']:.3g}%"
    beside = f"chance alone would give {by_chance}"
    if bias["likelihood_bias"] <= bias["alpha"]:
        beside = f"no more than chance alone would give: {by_chance}"
    text = (
        f"It finds sentences with one term likelier than the same sentences with another in "
        f"{share(bias['likelihood_bias'])} of {count(bias['num_tests'])} tests, each of two terms of one axis in one "
        f"template ({share(bias['bh_likelihood_bias'])} after adjusting for so many tests; {beside})"
    )
    shares = {axis: value for axis, value in bias["by_axis"].items() if value is not None}
    highest = max(shares.values())
    axes = [axis_label(axis).lower() for axis, value in shares.items() if value == highest]
    if len(axes) < len(shares):
        text += f", most often within {' and '.join(axes)} ({share(highest)})"
    return f"{text}. How much of that comes of terms being rare or long, {measure} alone cannot say."


def _counted(number: int, what: str) -> tuple[str, ...]:
    return (f"{number:,} {what}",) if number else ()


LIKELIHOOD = Likelihood()
