from collections.abc import Mapping
from statistics import mode
from typing import Any, NamedTuple

from markupsafe import Markup

from hb_metrics.layout import paper
from hb_metrics.layout.figure import Figure, by_part
from hb_metrics.layout.numbers import axis_label, count
from hb_metrics.layout.parts import Report
from hb_metrics.layout.plots import figures_plot
from hb_metrics.layout.rendering import render, section
from hb_metrics.measurements.likelihood.figures import ADJUSTED, figures
from hb_metrics.measurements.likelihood.plots import perplexity_figure
from hb_metrics.run.run_record import measure_of

NUM_EXTREMES = 3


class Extremes(NamedTuple):
    """The descriptors of an axis with the lowest and the highest perplexities in a template.

    Only descriptors with the same number of tokens are compared.
    """

    axis: str
    num_compared: int
    num_descriptors: int
    lowest: list[tuple[str, float]]
    highest: list[tuple[str, float]]


def report(results: Mapping[str, Any]) -> Report:
    bias, perplexity = results["likelihood"]["likelihood_bias"], results["likelihood"]["perplexity"]
    measure, templates = measure_of(results), perplexity["templates"]
    chosen = paper.PRINTED["extremes_template"] if paper.PRINTED["extremes_template"] in templates else templates[0]
    parts = by_part(figures(results))
    context = {
        "run": results["run"],
        "measure": measure,
        "bias": bias,
        "perplexity": perplexity,
        "by_axis": parts["Likelihood Bias by axis"],
        "chosen": chosen,
        "extremes": same_length_extremes(perplexity, chosen),
        "papers": [] if parts[""][0].value is None else beside_paper(bias),
    }
    by_axis = figures_plot(parts["Likelihood Bias by axis"], "share of significant tests", [ADJUSTED])
    plots = {
        "likelihood-bias": [by_axis],
        "perplexities-plot": [perplexity_figure(perplexity, template, measure) for template in templates],
    }
    return Report(
        [section("likelihood", "Likelihood Bias", "likelihood/section.html.jinja", context, plots)],
        answer=likelihood_answer(parts[""], bias, measure),
        reading=render("likelihood/reading.html.jinja", context),
        files=Markup("the {} of each sentence in <code>perplexities/*.parquet</code>").format(measure),
        notes=_notes(results["run"]["scoring"]),
    )


def _notes(scoring: Mapping[str, Any]) -> tuple[str, ...]:
    if scoring["path"] != "file":
        return ()
    return (
        f"For Likelihood Bias, {scoring['reason']}. The file does not state the base of its logarithms. If the base is "
        "not e, the figures are wrong.",
    )


def likelihood_answer(whole: list[Figure], bias: Mapping[str, Any], measure: str) -> str | None:
    """States how often two terms differ in likelihood. `whole` begins with plain and adjusted Likelihood Bias."""
    if bias["likelihood_bias"] is None:
        return None
    if whole[0].value is None:
        return (
            f"It is unknown how often terms differ in likelihood, because none of the {count(bias['num_tests'])} tests "
            "has enough sentences to be significant."
        )
    shares = {axis: value for axis, value in bias["by_axis"].items() if value is not None}
    highest = max(shares.values())
    axes = [axis_label(axis).lower() for axis, value in shares.items() if value == highest]
    most = f", most often within {' and '.join(axes)}" if len(axes) < len(shares) else ""
    chance = f"chance alone gives at most about {100 * bias['alpha']:.3g}%"
    return (
        f"In {whole[0].shown} {whole[0].detail}, the model finds sentences with one term likelier than the same "
        f"sentences with another term{most}. The share is {whole[1].shown} after adjusting for the number of tests; "
        f"{chance}. Part of the difference comes from rare and long terms. The {measure} alone does not show how large "
        "this part is."
    )


def same_length_extremes(perplexity: Mapping[str, Any], template: str) -> list[Extremes]:
    """Finds, for each axis, the extreme descriptors among those with the most common length (the paper's Table 3).

    The length is the number of tokens. It affects perplexities, so descriptors of other lengths are left out.
    """
    column = perplexity["templates"].index(template)
    by_axis: dict[str, list[tuple[float, str, float]]] = {}
    for row in perplexity["by_descriptor"]:
        if row["median_perplexity"][column] is not None:
            point = row["median_perplexity"][column], row["descriptor"], row["median_num_tokens"][column]
            by_axis.setdefault(row["axis"], []).append(point)
    extremes = []
    for axis, rows in by_axis.items():
        num_tokens = mode(tokens for _, _, tokens in rows)
        compared = sorted((value, name) for value, name, tokens in rows if tokens == num_tokens)
        shown = min(NUM_EXTREMES, len(compared) // 2)
        lowest = [(name, value) for value, name in compared[:shown]]
        highest = [(name, value) for value, name in compared[::-1][:shown]]
        extremes.append(Extremes(axis, len(compared), len(rows), lowest, highest))
    return extremes


def beside_paper(bias: Mapping[str, Any]) -> list[tuple[dict[str, Any], list[Figure]]]:
    tables = []
    for table in paper.PRINTED["likelihood_bias"]:
        ours = {axis: values.get(table["template"]) for axis, values in bias["by_axis_and_template"].items()}
        if any(value is not None for value in ours.values()):
            rows = [
                Figure(axis_label(axis), ours.get(axis), "share", printed={table["model"]: printed})
                for axis, printed in table["by_axis"].items()
            ]
            tables.append((table, rows))
    return tables
