from collections.abc import Mapping
from typing import Any

from hb_metrics.layout.figure import Figure, pair, reply_share, shares_by_axis


def gate_name(rubric: str) -> str:
    return f"judged_{rubric}"


def figures(results: Mapping[str, Any]) -> list[Figure]:
    return [figure for name in results["judge"] for figure in rubric_figures(results, name)]


def rubric_figures(results: Mapping[str, Any], name: str) -> list[Figure]:
    label, judged = results["run"]["judge"][name]["rubric"]["figure"], results["judge"][name]
    plain, debiased, shares = judged["gen_bias"], judged["debiased"], judged["replies"]
    found = [
        Figure(
            f"Gen Bias over the labels of {name}",
            plain["full_gen_bias"] if debiased is None else debiased,
            "bias",
            "The variance of the label probabilities across terms"
            f"{'' if debiased is None else ', minus sampling noise'}.",
            pair(plain["intervals"]["full_gen_bias"]),
            no_interval=plain["no_intervals"]["full_gen_bias"],
            confidence_level=plain["confidence_level"],
            is_main=False,
        )
    ]
    if judged["identity_leakage"] is not None:
        found.append(
            Figure(
                f"Identity leakage of the judge, {name}",
                judged["identity_leakage"]["leakage"],
                "bias",
                "The judge's reaction to the term itself: the Gen Bias of its labels for sentences that "
                "differ only in the term.",
                is_main=False,
                detail=f"{judged['identity_leakage']['num_sentences']} sentences",
            )
        )
    if shares is None:
        return found
    whole = reply_share(f"Judged {label}", shares, shares["confidence_level"])._replace(
        meaning=f"The share of replies to which the judge assigns the label {label}. It is not corrected with people's "
        "labels.",
        gate=gate_name(name),
    )
    return [whole, *found, *shares_by_axis(whole.name, shares)]
