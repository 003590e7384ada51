import numpy as np

from hb_metrics.layout.numbers import axis_groups
from hb_metrics.measurements.likelihood.run_changes import pair_tests
from hb_metrics.measurements.results import Run
from hb_metrics.run.finished_run import read_scores
from hb_metrics.stats.generalising import Generalised, Influences, Over, generalised, pair_share_influences


def generalise(run: Run, over: Over) -> dict[str, Generalised]:
    level = run.confidence_level
    return {name: generalised(influences, over, level) for name, influences in likelihood_influences(run).items()}


def likelihood_influences(run: Run) -> dict[str, Influences]:
    scores = read_scores(run.folder)
    if scores is None:
        raise ValueError(
            f"'{run.folder}' lacks the perplexities that --generalise needs; measure again in a new folder"
        )
    alpha = run.results.likelihood.likelihood_bias.alpha
    tests = pair_tests([scores], alpha)
    found = {}
    for name, chosen in axis_groups("Likelihood Bias", tests.groups[tests.firsts], tests.axes).items():
        _, templates = np.unique(tests.templates[chosen], return_inverse=True)
        terms, codes = np.unique(np.stack([tests.firsts[chosen], tests.seconds[chosen]]), return_inverse=True)
        firsts, seconds = codes.reshape(2, -1)
        significant = tests.significant[0, chosen].astype(float)
        found[name] = pair_share_influences(templates, firsts, seconds, significant, tests.groups[terms])
    return found
