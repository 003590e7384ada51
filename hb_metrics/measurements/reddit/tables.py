"""Rows of the RedditBias section, and the lines that a run prints."""

from typing import Any, NamedTuple

from hb_metrics.display.figures import axis_label

# The labels of the paper's two religious bias types; others read as an axis does.
LABELS = {"religion1": "Religion 1 (Jews)", "religion2": "Religion 2 (Muslims)"}


class RedditRow(NamedTuple):
    """Language Model Bias of a bias type: a label and what results.json has of it."""

    label: str
    found: dict[str, Any]


def reddit_rows(reddit: dict[str, Any]) -> list[RedditRow]:
    """Bias types, those whose stereotyped side is likeliest on logarithms first; undefined ones last."""
    rows = [RedditRow(bias_type_label(name), found) for name, found in reddit["by_bias_type"].items()]
    return sorted(rows, key=lambda row: (row.found["t_log"] is None, row.found["t_log"] or 0.0, row.label))


def bias_type_label(name: str) -> str:
    """A bias type as people read it."""
    return LABELS.get(name) or axis_label(name)


def summary_lines(reddit: dict[str, Any]) -> list[str]:
    """What a run prints of it."""
    lines = ["Language Model Bias (negative: the stereotyped side is likelier)"]
    for label, found in reddit_rows(reddit):
        numbers = [("t", found["t"]), ("t of logs", found["t_log"])]
        told = ", ".join(f"{name} {'none' if value is None else format(value, '.2f')}" for name, value in numbers)
        likelier = f"t1 likelier in {found['share_t1_likelier']:.1%} of {found['num_pairs']:,} pairs"
        lines.append(f"  {label:<22} {told}, {likelier}")
    return [*lines, "", f"LMP  {reddit['lmp']:.2f}  of {reddit['lmp_num_texts']:,} texts"]
