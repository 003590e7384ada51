from collections.abc import Mapping, Sequence
from statistics import mode
from typing import NamedTuple

from markupsafe import Markup

from hb_dataset.grouped import grouped
from hb_metrics.layout import paper
from hb_metrics.layout.figure import Figure, Number, by_part, estimated
from hb_metrics.layout.numbers import axis_label, count
from hb_metrics.layout.parts import Report, Section
from hb_metrics.layout.plots import Dot, Mark, Plot, Row, figures_plot, rows_plot, shortened, spread
from hb_metrics.layout.rendering import render, section
from hb_metrics.likelihood_bias.shares import testable_axes
from hb_metrics.measurements.likelihood.figures import (
    ADJUSTED,
    AGREEMENT,
    CONTRAST,
    CONTROL,
    SHARE,
    figures,
)
from hb_metrics.measurements.likelihood.results import LikelihoodBias, Perplexities
from hb_metrics.measurements.results import Results
from hb_metrics.stats.contrasts import NONCE_AXIS, Contrasts, TermContrast

NUM_EXTREMES = 3
OUTSIDE = 0.05  # the level at which terms are outside the range of nonce words


class Extremes(NamedTuple):
    """The descriptors of an axis with the lowest and the highest perplexities in a template.

    Only descriptors with the same number of tokens are compared.
    """

    axis: str
    num_compared: int
    num_descriptors: int
    lowest: list[tuple[str, float]]
    highest: list[tuple[str, float]]


def report(results: Results) -> Report:
    record, likelihood = results.record, results.likelihood
    bias, perplexity, contrasts = likelihood.likelihood_bias, likelihood.perplexity, likelihood.contrasts
    measure, templates = record.measure, perplexity.templates
    chosen = paper.PRINTED.extremes_template if paper.PRINTED.extremes_template in templates else templates[0]
    parts = by_part(figures(results))
    context = {
        "run": record,
        "measure": measure,
        "bias": bias,
        "perplexity": perplexity,
        "by_axis": parts["Likelihood Bias by axis"],
        "chosen": chosen,
        "extremes": same_length_extremes(perplexity, chosen),
        "testable": testable_axes(vars(bias)),
        "papers": beside_paper(bias),
    }
    by_axis = figures_plot(parts["Likelihood Bias by axis"], "share of significant tests", [ADJUSTED])
    plots = {
        "likelihood-bias": [by_axis],
        "perplexities-plot": [perplexity_figure(perplexity, template, measure) for template in templates],
    }
    sections = [section("likelihood", "Likelihood Bias", "likelihood/section.html.jinja", context, plots)]
    answer = likelihood_answer(parts[""], bias)
    if contrasts is not None:
        verdict = contrast_verdict(contrasts, parts[""])
        answer = f"{answer} {verdict}"
        if contrasts.by_axis:
            sections.append(_contrast_section(contrasts, parts, verdict))
    of_file = (
        f"For Likelihood Bias, {record.scoring.reason}. The file does not state the base of its logarithms. If the "
        "base is not e, the figures are wrong."
    )
    return Report(
        sections,
        answer=answer,
        reading=render("likelihood/reading.html.jinja", context),
        files=Markup("the {} of each sentence in <code>perplexities/*.parquet</code>").format(measure),
        notes=(of_file,) if record.scoring.path == "file" else (),
    )


def _contrast_section(contrasts: Contrasts, parts: Mapping[str, list[Figure]], verdict: str) -> Section:
    terms = [
        estimated(
            f"{term.term} ({axis_label(term.axis)})",
            term.contrast,
            "nats",
            beside={"adjusted p": Number(term.adjusted_p, "p_value")},
        )
        for term in sorted(contrasts.terms, key=lambda term: -(term.contrast.value or 0.0))
    ]
    context = {
        "verdict": verdict,
        "contrasts": contrasts,
        "whole": [figure for figure in parts[""] if figure.name in (CONTRAST, AGREEMENT, CONTROL)],
        "by_axis": parts[f"{CONTRAST} by axis"],
        "terms": terms,
    }
    plots = {"contrasts-plot": [contrast_figure(contrasts)]}
    return section("attitude-contrast", CONTRAST, "likelihood/contrasts.html.jinja", context, plots)


def contrast_verdict(contrasts: Contrasts, whole: list[Figure]) -> str:
    """States whether attitudes differ more than words without meaning do, if the pairs of templates agree."""
    if contrasts.agreement.interval is None:
        reason = contrasts.agreement.reason
        return (
            f"Do not read the attitude contrasts of single terms: whether the pairs agree is unknown, because {reason}."
        )
    agreement = next(figure for figure in whole if figure.name == AGREEMENT)
    if not contrasts.agree:
        return f"The pairs were not shown to agree: do not read single terms. Their agreement is {agreement.words}."
    verdict = f"The pairs of favourable and unfavourable sentences agree: {agreement.words}."
    if contrasts.nonce_range is None:
        return f"{verdict} Without nonce words, it is unknown whether terms differ more than words without meaning."
    ratios = {axis: of_axis.ratio for axis, of_axis in contrasts.by_axis.items() if of_axis.ratio is not None}
    above = [axis_label(axis) for axis, ratio in ratios.items() if ratio.interval and ratio.interval[0] > 1]
    tested = [term.adjusted_p for term in contrasts.terms if term.adjusted_p is not None]
    outside = sum(p < OUTSIDE for p in tested)
    return (
        f"{verdict} {count(outside)} of {count(len(tested))} terms are outside the range of nonce words. Attitudes "
        f"differ more than for nonce words on {len(above)} of {len(ratios)} axes{': ' if above else ''}"
        f"{', '.join(above)}."
    )


def likelihood_answer(whole: list[Figure], bias: LikelihoodBias) -> str:
    """States how often two terms differ in likelihood. `whole` contains plain and adjusted Likelihood Bias."""
    if whole[0].value is None:
        return (
            f"It is unknown how often terms differ in likelihood, because none of the {count(bias.num_tests)} tests "
            "has enough sentences to be significant."
        )
    highest = max(bias.by_axis.values())
    axes = [axis_label(axis).lower() for axis, value in bias.by_axis.items() if value == highest]
    most = f", most often within {' and '.join(axes)}" if len(axes) < len(bias.by_axis) else ""
    figure = {figure.name: figure for figure in whole}
    common = ""
    if figure[SHARE].value is not None:
        common = (
            f" Of the variance between terms in log-likelihood, {figure[SHARE].words} comes with the term itself: it "
            "is the same in all templates."
        )
    chance = f"chance alone gives at most about {100 * bias.alpha:.3g}%"
    return (
        f"In {whole[0].shown} {whole[0].detail}, the model finds sentences with one term likelier than the same "
        f"sentences with another term{most}. The share is {figure[f'Likelihood Bias {ADJUSTED}'].shown} after "
        f"adjusting for the number of tests; {chance}.{common}"
    )


def same_length_extremes(perplexity: Perplexities, template: str) -> list[Extremes]:
    """Finds, for each axis, the extreme descriptors among those with the most common length (the paper's Table 3).

    The length is the number of tokens. It affects perplexities, so descriptors of other lengths are left out.
    """
    column, extremes = perplexity.templates.index(template), []
    rows = [row for row in perplexity.by_descriptor if row.median_perplexity[column] is not None]
    for axis, of_axis in grouped((row.axis, row) for row in rows).items():
        num_tokens = mode(row.median_num_tokens[column] for row in of_axis)
        same = [row for row in of_axis if row.median_num_tokens[column] == num_tokens]
        ranked = sorted((row.median_perplexity[column] or 0.0, row.descriptor) for row in same)
        compared = [(name, value) for value, name in ranked]
        shown = min(NUM_EXTREMES, len(compared) // 2)
        extremes.append(Extremes(axis, len(compared), len(of_axis), compared[:shown], compared[::-1][:shown]))
    return extremes


def beside_paper(bias: LikelihoodBias) -> list[tuple[paper.PrintedLikelihoodBias, list[Figure]]]:
    """Returns the paper's tables for templates of this run, with the shares of both."""
    tables, testable = [], testable_axes(vars(bias))
    for table in paper.PRINTED.likelihood_bias:
        ours = {axis: bias.by_axis_and_template[axis].get(table.template) for axis in testable}
        if any(value is not None for value in ours.values()):
            rows = [
                Figure(axis_label(axis), ours.get(axis), "share", printed={table.model: printed})
                for axis, printed in table.by_axis.items()
            ]
            tables.append((table, rows))
    return tables


NUM_ENDS = 5


def perplexity_figure(perplexity: Perplexities, template: str, measure: str) -> Plot:
    """Plots the perplexities in a template: a point for each descriptor, and a box for each axis (paper, Figure 2)."""
    column = perplexity.templates.index(template)
    medians = [(row.axis, row.median_perplexity[column]) for row in perplexity.by_descriptor]
    points = grouped((axis, Dot(value, row)) for row, (axis, value) in enumerate(medians) if value is not None)
    quantiles = {
        axis: by_template[template]
        for axis, by_template in perplexity.quantiles_by_axis_and_template.items()
        if template in by_template
    }
    rows = []
    for axis, box in sorted(quantiles.items(), key=lambda item: -item[1][2]):
        highest = max(points[axis])
        name = perplexity.by_descriptor[highest.row].descriptor
        mark = Mark(highest.value, f"{name}: {count(highest.value)}", look=1, text=shortened(name))
        rows.append(Row(axis_label(axis), [mark], [dot for dot in points[axis] if dot != highest], box))
    legend = [("the highest of each axis", 1, False)]
    title = f"{measure} (log); boxes: 5, 25, 50, 75 and 95 % of sentences"
    return rows_plot(rows, title, "count", legend, height=36, is_log=True)


def contrast_figure(contrasts: Contrasts) -> Plot:
    """Plots the contrasts of terms. The five terms at either end have a row each, and the others share one."""
    ranked = sorted(contrasts.terms, key=lambda term: -(term.contrast.value or 0.0))
    terms = [term for term in ranked if term.axis != NONCE_AXIS]
    nonce = [term for term in ranked if term.axis == NONCE_AXIS]
    first = min(NUM_ENDS, len(terms) // 2)
    last = len(terms) - first
    own = [Row(term.term, [_contrast_mark(term)]) for term in terms]
    others = _shared_row(f"{last - first} other terms", terms[first:last])
    rows = [*own[:first], others, _shared_row("nonce words", nonce, is_soft=True), *own[last:]]
    title = "favourable minus unfavourable, in nats (grey: the range of nonce words)"
    return rows_plot(rows, title, "nats", band=contrasts.nonce_range)


def _shared_row(label: str, terms: Sequence[TermContrast], *, is_soft: bool = False) -> Row:
    marks = [_contrast_mark(term)._replace(interval=None, is_soft=is_soft) for term in terms]
    ups = spread(len(marks), width=20)  # in pixels
    return Row(label, [mark._replace(up=up) for mark, up in zip(marks, ups, strict=True)])


def _contrast_mark(term: TermContrast) -> Mark:
    value = term.contrast.value or 0.0
    return Mark(value, f"{term.term} ({axis_label(term.axis)}): {value:.2f}", term.contrast.interval)
