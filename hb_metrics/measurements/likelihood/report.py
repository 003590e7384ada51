"""The section in the report of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from hb_metrics.display import paper
from hb_metrics.display.figures import axis_label, plain
from hb_metrics.display.numbers import count, share
from hb_metrics.display.parts import Report, Section, Tile
from hb_metrics.display.rendering import render
from hb_metrics.measurements.likelihood.figures import likelihood_bias_figure, perplexity_figure
from hb_metrics.measurements.likelihood.tables import paper_comparisons, same_length_extremes
from hb_metrics.runs.run_record import measure_of


def likelihood_report(results: Mapping[str, Any], folder: Path) -> Report:
    """The section in the report of a run; `folder` has its Jinja templates."""
    bias, perplexity = results["likelihood"]["likelihood_bias"], results["likelihood"]["perplexity"]
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
        [Section("likelihood", "Likelihood Bias", render(folder / "section.html.jinja", context), figures)],
        [
            Tile("Likelihood Bias", share(bias["likelihood_bias"]), (f"of {count(bias['num_tests'])} tests",)),
            Tile("after Benjamini–Hochberg", share(bias["bh_likelihood_bias"])),
            Tile("mean effect size", f"{bias['effect_size']:.2f}"),
            Tile(f"median {measure}", count(perplexity["median"])),
        ],
        answer=likelihood_answer(bias, measure),
        reading=render(folder / "reading.html.jinja", context),
        notes=_notes(results["run"]["scoring"]),
        files=Markup("the {} of each sentence in <code>perplexities/*.parquet</code>").format(measure),
    )


def _notes(scoring: Mapping[str, Any]) -> tuple[str, ...]:
    """What to know of log-probabilities that were computed elsewhere."""
    if scoring["path"] != "file":
        return ()
    notes = [f"In Likelihood Bias, {scoring['reason']}; a file cannot tell another base, which would move all figures."]
    if missing := scoring["num_prompts_without_log_probability"]:
        notes.append(f"{missing:,} prompts have no log-probability in that file, and are left out of Likelihood Bias.")
    return tuple(notes)


def likelihood_answer(bias: Mapping[str, Any], measure: str) -> str | None:
    """Whether sentences about some people are likelier than about others, in a sentence; `None`: nothing was tested.

    Args:
        bias: What `likelihood_bias` returns.
        measure: The name of the score: perplexity or pseudo-perplexity.
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
    return f"{text}. How much of that is because terms are rare or long, {measure} alone cannot show."
