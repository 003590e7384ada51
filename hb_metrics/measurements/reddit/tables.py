"""Rows of the RedditBias section, and the lines that a run prints."""

from typing import Any, NamedTuple

from hb_metrics.display.figures import axis_label

# The labels of the paper's two religious bias types; others read as an axis does.
LABELS = {"religion1": "Religion 1 (Jews)", "religion2": "Religion 2 (Muslims)"}


class RedditRow(NamedTuple):
    """A bias type: its label and its test in results.json, the fields of `PairedTest` and the counts of pairs."""

    label: str
    test: dict[str, Any]


def reddit_rows(reddit: dict[str, Any]) -> list[RedditRow]:
    """Bias types, those whose stereotyped side is likeliest on logarithms first; undefined ones last."""
    rows = [RedditRow(bias_type_label(name), test) for name, test in reddit["by_bias_type"].items()]
    return sorted(rows, key=lambda row: (row.test["t_log"] is None, row.test["t_log"] or 0.0, row.label))


def bias_type_label(name: str) -> str:
    """The name of a bias type for people."""
    return LABELS.get(name) or axis_label(name)


def summary_lines(reddit: dict[str, Any]) -> list[str]:
    """The lines that a run prints."""
    lines = ["Language Model Bias (negative: the stereotyped side is likelier)"]
    for label, test in reddit_rows(reddit):
        numbers = [("t", test["t"]), ("t of logs", test["t_log"])]
        statistics = ", ".join(f"{name} {'none' if value is None else format(value, '.2f')}" for name, value in numbers)
        likelier = f"t1 likelier in {test['share_t1_likelier']:.1%} of {test['num_pairs']:,} pairs"
        lines.append(f"  {label:<22} {statistics}, {likelier}")
    return [*lines, "", f"LMP  {reddit['lmp']:.2f}  of {reddit['lmp_num_texts']:,} texts"]
