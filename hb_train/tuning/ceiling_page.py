"""The ceiling of labels as a table and sentences in Markdown, for the terminal and the card of labels."""

from typing import Any

from hb_dataset.markdown_table import markdown_table
from hb_metrics.report.layout.numbers import MISSING, bias, interval, share, signed_bias


def ceiling_text(ceiling: dict[str, Any]) -> str:
    level = f"{ceiling['confidence_level']:.0%}"
    rows = []
    for point in ceiling["curve"]:
        whole = abs(100 * point["share"] - round(100 * point["share"])) < 1e-9
        name = share(point["share"], 0 if whole else 1)  # a user-set β's share has one decimal
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
        sentences.append("There is no ceiling, because every share leaves too few replies per term and template.")
    elif ceiling["helps"]:
        sentences.append(
            f"The lowest ceiling is {bias(lowest['full_gen_bias'])}, with {share(lowest['share'], 0)} of the replies "
            f'tagged "no_bias", against {start} for all replies (change {signed_bias(lowest["change"])}, '
            f"{interval(lowest['change_interval'])})."
        )
    else:
        sentences.append(
            f"No β helps. The lowest ceiling, {bias(lowest['full_gen_bias'])}, is not significantly below the "
            f"{start} of all replies, after a correction for choosing among {len(ceiling['curve']) - 1} shares."
        )
    low, high = ceiling["half_reliability_interval"]
    sentences.append(
        f"Bias directions estimated from {ceiling['replies_per_descriptor']:.3g} replies per term have a reliability "
        f"of {ceiling['half_reliability']:.2f} ({low:.2f} to {high:.2f}). With all replies, which are twice as many, "
        f"the reliability is {ceiling['reliability']:.2f} (Spearman–Brown)."
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
