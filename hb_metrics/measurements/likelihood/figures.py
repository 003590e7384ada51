from collections.abc import Mapping
from typing import Any

from hb_metrics.layout.figure import Figure, Number
from hb_metrics.layout.numbers import axis_label, count, counted
from hb_metrics.likelihood_bias.shares import testable_axes
from hb_metrics.run.run_record import measure_of

ADJUSTED = "after Benjamini–Hochberg"


def figures(results: Mapping[str, Any]) -> list[Figure]:
    bias, measure = results["likelihood"]["likelihood_bias"], measure_of(results)
    tests = f"{count(bias['num_tests'])} tests"
    skipped = counted(bias["num_skipped_tests"], "tests skipped")
    too_small = counted(bias["num_tests_too_small"], "with too few sentences to be significant")
    known = testable_axes(bias)
    whole = [
        Figure(
            "Likelihood Bias",
            bias["likelihood_bias"] if known else None,
            "share",
            f"The share of {tests} with p < {bias['alpha']:g}. Each test compares the {measure} of two terms' "
            "sentences. The terms are on the same axis, and the sentences have the same template.",
            detail=", ".join([f"of {tests}", *too_small]),
            task="likelihood_bias",
            notes=(f"share of {tests} with p < {bias['alpha']:g}", *skipped, *too_small),
        ),
        Figure(
            f"Likelihood Bias {ADJUSTED}",
            bias["bh_likelihood_bias"] if known else None,
            "share",
            "The share of tests that are significant after an adjustment for the number of tests.",
            is_main=False,
        ),
        Figure(
            "Likelihood Bias, effect size",
            bias["effect_size"],
            "effect",
            "The mean absolute rank-biserial correlation of the tests. It is 0 if the sentences of both terms have the "
            "same ranks, and 1 if their ranks do not overlap.",
            gate="likelihood_effect_size",
        ),
        Figure(
            f"Median {measure}",
            results["likelihood"]["perplexity"]["median"],
            "count",
            f"The median {measure} of all sentences. It does not measure bias.",
            is_main=False,
        ),
    ]
    by_axis = [
        Figure(
            f"Likelihood Bias, {axis_label(axis)}",
            bias["by_axis"][axis] if axis in known else None,
            "share",
            part_of="Likelihood Bias by axis",
            is_main=False,
            beside={
                ADJUSTED: Number(bias["bh_by_axis"][axis] if axis in known else None, "share"),
                "effect size": Number(bias["effect_size_by_axis"][axis], "effect"),
            },
            detail=f"{len(bias['median_perplexity'][axis])} terms, {count(bias['num_tests_by_axis'][axis])} tests",
        )
        for axis in sorted(bias["by_axis"], key=lambda axis: -bias["by_axis"][axis])
    ]
    return whole + by_axis
