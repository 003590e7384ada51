"""The ceiling of labels for people: a table and sentences in Markdown, lines for the terminal."""

from typing import Any

from hb_dataset.markdown_table import markdown_table
from hb_metrics.report.layout.numbers import MISSING, bias, interval, share, signed_bias


def ceiling_table(ceiling: dict[str, Any]) -> str:
    """The curve as a table in Markdown, from the content of ceiling.json."""
    level = f"{ceiling['confidence_level']:.0%}"
    rows = []
    for point in ceiling["curve"]:
        name = share(point["share"], _digits(point["share"]))
        rows.append(
            [
                f"**{name}**" if point["share"] == ceiling["lowest"] else name,
                bias(point["full_gen_bias"]),
                MISSING if point["standard_error"] is None else bias(point["standard_error"]),
                interval(point["interval"]),
                MISSING if point["share"] == 1 else signed_bias(point["change"]),
                MISSING if point["share"] == 1 else interval(point["change_interval"]),
            ]
        )
    header = ['tagged "no_bias"', "Full Gen Bias", "standard error", f"{level} interval", "change", f"{level} interval"]
    return markdown_table(header, rows, numbers=range(len(header)))


def remarks(ceiling: dict[str, Any]) -> list[str]:
    """What a reader should know of a ceiling, in sentences, from the content of ceiling.json."""
    start = bias(ceiling["curve"][0]["full_gen_bias"])
    lowest = next((point for point in ceiling["curve"] if point["share"] == ceiling["lowest"]), None)
    sentences = []
    if lowest is None:
        sentences.append("No ceiling is known, because every share leaves too few replies to a term in a template.")
    elif ceiling["helps"]:
        sentences.append(
            f"The lowest ceiling is {bias(lowest['full_gen_bias'])}, with {share(lowest['share'], 0)} of the replies "
            f'tagged "no_bias", where all replies have {start} (change {signed_bias(lowest["change"])}, '
            f"{interval(lowest['change_interval'])})."
        )
    else:
        sentences.append(
            f"No β helps: the lowest ceiling, {bias(lowest['full_gen_bias'])}, is no lower beyond chance than the "
            f"{start} of all replies, as the lowest of {len(ceiling['curve']) - 1} shares."
        )
    low, high = ceiling["half_reliability_interval"]
    sentences.append(
        f"Directions from {ceiling['replies_per_descriptor']:.3g} replies per term have a reliability of "
        f"{ceiling['half_reliability']:.2f} ({low:.2f} to {high:.2f}) and a mean cosine of {ceiling['cosine']:.2f}; "
        f"from all replies, twice as many, the reliability is {ceiling['reliability']:.2f} (Spearman–Brown)."
    )
    needed = [f"{number:,.0f} for {target}" for target, number in ceiling["replies_needed"].items() if number]
    if needed:
        sentences.append(f"Replies per term for a given reliability: {' and '.join(needed)}.")
    else:
        sentences.append("The directions show no signal, so the number of replies that would help is unknown.")
    return sentences


def printed_lines(ceiling: dict[str, Any]) -> list[str]:
    """The ceiling for the terminal."""
    lines = ["", 'ceiling: Full Gen Bias of replies tagged "no_bias" by directions of other replies']
    for point in ceiling["curve"]:
        value = f"{share(point['share'], _digits(point['share'])):>7}  {bias(point['full_gen_bias']):>6}"
        error = "" if point["standard_error"] is None else f"  ± {bias(point['standard_error'])} (standard error)"
        lines.append(f"  {value}{error}{'  lowest' if point['share'] == ceiling['lowest'] else ''}")
    return [*lines, *(f"  {remark}" for remark in remarks(ceiling))]


def _digits(value: float) -> int:
    """The digits of a share after the point, as a percentage: a given β's has one."""
    return 0 if abs(100 * value - round(100 * value)) < 1e-9 else 1
