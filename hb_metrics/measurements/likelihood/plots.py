from collections.abc import Sequence

from hb_metrics.layout.numbers import axis_label, count
from hb_metrics.layout.plots import Dot, Mark, Plot, Row, rows_plot, shortened, spread
from hb_metrics.measurements.likelihood.results import Perplexities
from hb_metrics.stats.contrasts import NONCE_AXIS, Contrasts, TermContrast

NUM_ENDS = 5


def perplexity_figure(perplexity: Perplexities, template: str, measure: str) -> Plot:
    """Plots the perplexities in a template: a point for each descriptor, and a box for each axis (paper, Figure 2)."""
    column = perplexity.templates.index(template)
    points: dict[str, list[Dot]] = {}
    for index, row in enumerate(perplexity.by_descriptor):
        value = row.median_perplexity[column]
        if value is not None:
            points.setdefault(row.axis, []).append(Dot(value, index))
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
    shown = min(NUM_ENDS, len(terms) // 2)
    others = terms[shown : len(terms) - shown]
    ends = [Row(term.term, [_contrast_mark(term)]) for term in [*terms[:shown], *terms[len(terms) - shown :]]]
    between = [_shared_row(f"{len(others)} other terms", others), _shared_row("nonce words", nonce, is_soft=True)]
    title = "favourable minus unfavourable, in nats (grey: the range of nonce words)"
    return rows_plot([*ends[:shown], *between, *ends[shown:]], title, "nats", band=contrasts.nonce_range)


def _shared_row(label: str, terms: Sequence[TermContrast], *, is_soft: bool = False) -> Row:
    marks = [_contrast_mark(term)._replace(interval=None, is_soft=is_soft) for term in terms]
    ups = spread(len(marks), width=20)  # in pixels
    return Row(label, [mark._replace(up=up) for mark, up in zip(marks, ups, strict=True)])


def _contrast_mark(term: TermContrast) -> Mark:
    value = term.contrast.value or 0.0
    return Mark(value, f"{term.term} ({axis_label(term.axis)}): {value:.2f}", term.contrast.interval)
