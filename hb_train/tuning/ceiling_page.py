from typing import Any

from hb_dataset.markdown_table import markdown_table
from hb_metrics.report.layout.numbers import MISSING, bias, interval, share, signed_bias


def ceiling_text(ceiling: dict[str, Any]) -> str:
    level = f"{ceiling['confidence_level']:.0%}"
    rows = []
    for point in ceiling["curve"]:
        whole = abs(100 * point["share"] - round(100 * point["share"])) < 1e-9
        name = share(point["share"], 0 if whole else 1)  # the share of a β that the user set has one decimal
        rows.append(
            [
                f"**{name}**" if point["share"] == ceiling["lowest"] else name,
                bias(point["full_gen_bias"]),
                interval(point["interval"]),
                MISSING if point["share"] == 1 else signed_bias(point["change"]),
                MISSING if point["share"] == 1 else interval(point["change_interval"]),
            ]
        )
    header = ['tagged "no_bias"', "Full Gen Bias", f"{level} interval", "change", f"{level} interval"]
    return f"{markdown_table(header, rows, numbers=range(len(header)))}\n\n{' '.join(_remarks(ceiling))}"


def _remarks(ceiling: dict[str, Any]) -> list[str]:
    start = bias(ceiling["curve"][0]["full_gen_bias"])
    lowest = next((point for point in ceiling["curve"] if point["share"] == ceiling["lowest"]), None)
    sentences = []
    if lowest is None:
        sentences.append(
            'There is no ceiling: for every share, too few replies per term and template are tagged "no_bias".'
        )
    elif ceiling["helps"]:
        sentences.append(
            f"The lowest ceiling is {bias(lowest['full_gen_bias'])}. It is reached when {share(lowest['share'], 0)} of "
            f'the replies are tagged "no_bias". The value for all replies is {start} '
            f"(change {signed_bias(lowest['change'])}, {interval(lowest['change_interval'])})."
        )
    else:
        sentences.append(
            f"No β lowers the bias. The lowest of the {len(ceiling['curve']) - 1} ceilings is "
            f"{bias(lowest['full_gen_bias'])}. After a correction for choosing the lowest ceiling, this value is not "
            f"significantly below the value for all replies ({start})."
        )
    sentences.append(
        f"If bias directions are estimated from {ceiling['replies_per_descriptor']:.3g} replies per term, their "
        f"reliability is {ceiling['half_reliability']:.2f}. With all replies (twice as many), the reliability is "
        f"{ceiling['reliability']:.2f} (Spearman–Brown)."
    )
    needed = [
        f"{number:,.0f} replies per term for a reliability of {target}"
        for target, number in ceiling["replies_needed"].items()
        if number
    ]
    if needed:
        sentences.append(f"The directions need {' and '.join(needed)}.")
    else:
        sentences.append("The directions show no signal, so the required number of replies is unknown.")
    return sentences
