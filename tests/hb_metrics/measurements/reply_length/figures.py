"""The range of lengths, and the length of replies to each term."""

from hb_metrics.report.layout.figure import Figure


def figures(results):
    lengths, unit = results["reply_length"]["by_descriptor"], results["reply_length"]["unit"]
    whole = Figure(
        "Range of reply lengths",
        max(lengths.values()) - min(lengths.values()),
        "bias",
        f"Mean length of replies ({unit}) to the term with the longest less that to the one with the shortest.",
        task="reply_length_range",
        notes=(f"in {unit}",),
    )
    parts = [
        Figure(f"Mean length, {term}", length, "bias", part_of="Mean length by term", is_main=False)
        for term, length in lengths.items()
    ]
    return [whole, *parts]
