from hb_metrics.layout.figure import Figure, by_part, missing_intervals
from hb_metrics.layout.parts import Section
from hb_metrics.layout.plots import figures_plot
from hb_metrics.layout.rendering import section
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.results import Run
from hb_metrics.run.finished_run import has_pairs_of_terms, read_prompts
from hb_metrics.stats.generalising import Over

_WORDS = {
    "terms": "other terms of the same axes",
    "templates": "other templates",
    "both": "other terms of the same axes in other templates",
}


def generalised_section(run: Run, over: Over) -> Section:
    """Returns a section with two intervals per figure.

    The first interval generalises to other replies. The second interval also generalises to other terms or templates.

    Raises:
        ValueError: The run lacks the files that are needed for the second interval, or its terms are pairs of terms.
    """
    if over != "templates" and has_pairs_of_terms(read_prompts(run.folder)):
        raise ValueError(
            f"'{run.folder}' has prompts with pairs of terms, and pairs with a term in common are not independent, so "
            "there are no intervals for other terms; set --generalise to templates"
        )
    listed: list[Figure] = []
    others: list[Figure] = []  # with the second interval
    for measurement in MEASUREMENTS:
        generalise = measurement.parts.generalise if measurement.name in run.results.measured else None
        found = {} if generalise is None else generalise(run, over)
        for figure in measurement.figures(run.results) if found else []:
            if figure.name in found and figure.value is not None:
                interval, reason = found[figure.name]
                listed.append(figure)
                others.append(figure._replace(interval=interval, no_interval=reason))
    if not listed:
        raise ValueError(
            f"'{run.folder}' lacks the files that --generalise needs; pass a run that measured likelihood, generation "
            "or offensiveness, and whose folder still contains the perplexities or replies"
        )
    wider = {figure.name: figure.interval for figure in others if figure.interval is not None}
    tables: list[tuple[str, list[tuple[Figure, str]]]] = []
    plots = []
    for part, rows in by_part(listed).items():
        tables.append((part, [(row, row._replace(interval=wider.get(row.name)).shown_interval) for row in rows]))
        if part and any(row.name in wider for row in rows):
            plots.append((part, figures_plot(rows, part, wider=(f"for {_WORDS[over]}", wider))))
    context = {
        "words": _WORDS[over],
        "tables": tables,
        "choices": [part for part, _ in plots],
        "reasons": missing_intervals(others),
    }
    drawn = {"generalised-plot": [plot for _, plot in plots]}
    return section("generalised", f"For {_WORDS[over]}", "report/generalised.html.jinja", context, drawn)
