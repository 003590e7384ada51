from typing import Any

from hb_metrics.layout.figure import Figure, FigureUnit, Number, estimated
from hb_metrics.layout.numbers import axis_label, count, counted
from hb_metrics.likelihood_bias.shares import testable_axes
from hb_metrics.measurements.results import Results
from hb_metrics.stats.clusters import Estimate
from hb_metrics.stats.contrasts import NONCE_AXIS, Contrasts

ADJUSTED = "after Benjamini–Hochberg"
SHARE, CONTRAST, AGREEMENT = "Differences that come with the term", "Attitude contrast", "Agreement of the pairs"
CONTROL = "Contrast of the controls"


def figures(results: Results) -> list[Figure]:
    likelihood, measure = results.likelihood, results.record.measure
    bias, term_share, found = likelihood.likelihood_bias, likelihood.term_share, likelihood.contrasts
    tests = f"{count(bias.num_tests)} tests"
    skipped = counted(bias.num_skipped_tests, "tests skipped")
    too_small = counted(bias.num_tests_too_small, "with too few sentences to be significant")
    known = testable_axes(vars(bias))
    of_terms = (
        "Of the variance between the terms of an axis in log-likelihood, the share that is the same in all "
        "templates. The interval generalises to other nouns."
    )
    whole = [
        Figure(
            "Likelihood Bias",
            bias.likelihood_bias if known else None,
            "share",
            f"The share of {tests} with p < {bias.alpha:g}. Each test compares the {measure} of two terms' "
            "sentences. The terms are on the same axis, and the sentences have the same template.",
            detail=", ".join([f"of {tests}", *too_small]),
            task="likelihood_bias",
            notes=(f"share of {tests} with p < {bias.alpha:g}", *skipped, *too_small),
        ),
        _figure(SHARE, term_share.whole, "share", meaning=of_terms),
        Figure(
            f"Likelihood Bias {ADJUSTED}",
            bias.bh_likelihood_bias if known else None,
            "share",
            "The share of tests that are significant after an adjustment for the number of tests.",
            is_main=False,
        ),
        Figure(
            "Likelihood Bias, effect size",
            bias.effect_size,
            "effect",
            "The mean absolute rank-biserial correlation of the tests. It is 0 if the sentences of both terms have the "
            "same ranks, and 1 if their ranks do not overlap.",
            gate="likelihood_effect_size",
        ),
        Figure(
            f"Median {measure}",
            likelihood.perplexity.median,
            "count",
            f"The median {measure} of all sentences. It does not measure bias.",
            is_main=False,
        ),
    ]
    by_axis = [
        Figure(
            f"Likelihood Bias, {axis_label(axis)}",
            bias.by_axis[axis] if axis in known else None,
            "share",
            part_of="Likelihood Bias by axis",
            is_main=False,
            beside={
                ADJUSTED: Number(bias.bh_by_axis[axis] if axis in known else None, "share"),
                "effect size": Number(bias.effect_size_by_axis[axis], "effect"),
                "comes with the term": _number(term_share.by_axis.get(axis), "share"),
            },
            detail=f"{len(bias.median_perplexity[axis])} terms, {count(bias.num_tests_by_axis[axis])} tests",
        )
        for axis in sorted(bias.by_axis, key=lambda axis: -bias.by_axis[axis])
    ]
    return whole + by_axis if found is None else [*whole, *_contrast_figures(found), *by_axis, *_by_axis(found)]


def _contrast_figures(contrasts: Contrasts) -> list[Figure]:
    meaning = (
        "The standard deviation between the terms of an axis, beyond noise, in the log-likelihood of a favourable "
        "sentence minus that of its unfavourable counterpart. The interval generalises to other nouns."
    )
    pairs = f"{len(contrasts.pairs)} pair{'s' if len(contrasts.pairs) > 1 else ''} of templates"
    num_terms = sum(term.axis != NONCE_AXIS for term in contrasts.terms)
    about = {"detail": f"{count(num_terms)} terms, {pairs}", "gate": "attitude_contrast"}
    rows = [_figure(CONTRAST, contrasts.spread, "nats", meaning=meaning, **about)]
    if contrasts.agreement.value is not None:
        meaning = "The mean correlation between two pairs' contrasts of terms. The interval generalises to other terms."
        rows.append(_figure(AGREEMENT, contrasts.agreement, "effect", meaning=meaning, higher_is_better=True))
    if contrasts.control is not None:
        meaning = "The same standard deviation for sentences that differ in meaning, but not in attitude."
        rows.append(_figure(CONTROL, contrasts.control, "nats", meaning=meaning, is_main=False))
    return rows


def _by_axis(contrasts: Contrasts) -> list[Figure]:
    rows = []
    for axis, of_axis in contrasts.by_axis.items():
        beside = {"ratio to nonce words": _number(of_axis.ratio, "effect")}
        if of_axis.control is not None:
            beside["controls"] = _number(of_axis.control, "nats")
        about = {"part_of": f"{CONTRAST} by axis", "is_main": False, "detail": f"{of_axis.num_terms} terms"}
        rows.append(_figure(f"{CONTRAST}, {axis_label(axis)}", of_axis.spread, "nats", beside=beside, **about))
    return sorted(rows, key=lambda row: -(row.value or 0.0))


def _figure(name: str, estimate: Estimate, unit: FigureUnit, **more: Any) -> Figure:
    figure = estimated(name, estimate, unit, **more)
    return figure if figure.value is not None else figure._replace(no_interval=None)


def _number(estimate: Estimate | None, unit: FigureUnit) -> Number:
    return Number(None, unit) if estimate is None else Number(estimate.value, unit, estimate.interval)
