from hb_metrics.layout.parts import Report
from hb_metrics.layout.rendering import section
from hb_metrics.measurements.likelihood.compute import log_likelihoods, marked_pairs
from hb_metrics.measurements.likelihood.plots import contrast_figure
from hb_metrics.measurements.likelihood.run_changes import scored_prompts
from hb_metrics.measurements.results import Run
from hb_metrics.stats.contrasts import contrasts


def details(first: Run, second: Run, names: tuple[str, str]) -> Report:
    """Shows by how much the attitude contrast of each term changed: the contrasts of the change in log-likelihood."""
    scored = scored_prompts(first, second)
    if isinstance(scored, str):
        return Report([])
    before, after = map(log_likelihoods, scored)
    change = before._replace(values=after.values - before.values)
    found = contrasts(change, *marked_pairs(first.record), first.confidence_level)
    if found is None:
        return Report([])
    plots, context = {"contrast-changes-plot": [contrast_figure(found)]}, {"contrasts": found, "names": names}
    title = "Change in attitude contrasts"
    return Report([section("contrast-changes", title, "likelihood/comparison.html.jinja", context, plots)])
