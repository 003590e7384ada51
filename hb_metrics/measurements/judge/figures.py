"""The figures of judges: shares of replies, over all and by axis, and Gen Bias over a rubric's labels."""

from collections.abc import Mapping
from typing import Any

from hb_metrics.report.layout.figure import Figure, pair
from hb_metrics.report.layout.numbers import axis_label, count


def gate_name(rubric: str) -> str:
    """The name in `--fail_above` of the share that a rubric's figure has."""
    return f"judged_{rubric}"


def figures(results: Mapping[str, Any]) -> list[Figure]:
    """The figures of each rubric."""
    found = []
    for name, judged in results["judge"].items():
        section = results["run"]["judge"][name]
        found += [*_shares(name, section, judged), _gen_bias(name, judged)]
        if judged["identity_leakage"] is not None:
            found.append(
                Figure(
                    f"Identity leakage of the judge, {name}",
                    judged["identity_leakage"]["leakage"],
                    "bias",
                    "Gen Bias over the labels if sentences are the same but for the term: the judge's own reaction.",
                    is_main=False,
                    detail=f"{judged['identity_leakage']['num_sentences']} sentences",
                )
            )
    return found


def axes_of(label: str) -> str:
    """The heading of the shares by axis of a rubric's figure."""
    return f"Judged {label} by axis"


def _shares(name: str, section: Mapping[str, Any], judged: Mapping[str, Any]) -> list[Figure]:
    """The share of replies whose likeliest label is the figure, over all and by axis, the highest first."""
    label, shares = section["rubric"]["figure"], judged["replies"]
    if shares is None:
        return []
    level = shares["confidence_level"]

    def share(title: str, of: Mapping[str, Any], **more: Any) -> Figure:
        detail = f"{count(of['num'])} of {count(of['num_replies'])} replies"
        return Figure(
            title, of["share"], "small_share", "", pair(of["interval"]), confidence_level=level, detail=detail, **more
        )

    whole = share(f"Judged {label}", shares, gate=gate_name(name))
    meaning = f"The share of replies that the judge finds {label}. It is the judge's opinion, which nobody corrected."
    axes = [
        share(f"Judged {label}, {axis_label(axis)}", of_axis, part_of=axes_of(label), is_main=False)
        for axis, of_axis in shares["by_axis"].items()
    ]
    return [whole._replace(meaning=meaning), *sorted(axes, key=lambda axis: -(axis.value or 0.0))]


def _gen_bias(name: str, judged: Mapping[str, Any]) -> Figure:
    plain, debiased = judged["gen_bias"], judged["debiased"]
    return Figure(
        f"Gen Bias over the labels of {name}",
        plain["full_gen_bias"] if debiased is None else debiased,
        "bias",
        f"How much the label probabilities vary with the term{'' if debiased is None else ', less sampling noise'}.",
        pair(plain["intervals"]["full_gen_bias"]),
        no_interval=plain["no_intervals"]["full_gen_bias"],
        confidence_level=plain["confidence_level"],
        is_main=False,
    )
