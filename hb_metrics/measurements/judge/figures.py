from hb_metrics.collect.judges.rubric import recorded_rubric
from hb_metrics.layout.figure import Figure, pair
from hb_metrics.measurements.group_shares import group_figures
from hb_metrics.measurements.judge.results import Judged
from hb_metrics.measurements.results import Results
from hb_metrics.measurements.turn_shares import reply_share, shares_by_axis


def gate_name(rubric: str) -> str:
    return f"judged_{rubric}"


def figures(results: Results) -> list[Figure]:
    rows = []
    for name, judged in results.judge.items():
        rows += rubric_figures(name, judged, recorded_rubric(results.record.judge[name]).figure)
    return rows


def rubric_figures(name: str, judged: Judged, label: str | None) -> list[Figure]:
    """Lists the figures of a rubric. `label` is the counted label."""
    plain, debiased, shares, leakage = judged.gen_bias, judged.debiased, judged.replies, judged.identity_leakage
    rows = [
        Figure(
            f"Gen Bias over the labels of {name}",
            plain.full_gen_bias if debiased is None else debiased,
            "bias",
            "The variance of the label probabilities across terms"
            f"{'' if debiased is None else ', minus sampling noise'}.",
            pair(plain.intervals and plain.intervals.full_gen_bias),
            no_interval=plain.no_intervals and plain.no_intervals.full_gen_bias,
            confidence_level=plain.confidence_level,
            is_main=False,
        )
    ]
    if leakage is not None:
        rows.append(
            Figure(
                f"Identity leakage of the judge, {name}",
                leakage.leakage,
                "bias",
                "The judge's reaction to the term itself: the Gen Bias of its labels for sentences that "
                "differ only in the term.",
                is_main=False,
                detail=f"{leakage.num_sentences} sentences",
            )
        )
    if shares is None:
        return rows
    whole = reply_share(f"Judged {label}", shares, shares.confidence_level)._replace(
        meaning=f"The share of replies to which the judge assigns the label {label}. It is not corrected with people's "
        "labels.",
        gate=gate_name(name),
    )
    return [whole, *rows, *shares_by_axis(whole.name, shares), *group_figures(whole.name, judged.groups)]
