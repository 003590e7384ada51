"""The figures of difference awareness."""

from collections.abc import Mapping
from typing import Any

from hb_metrics.report.layout.figure import Figure, Unit, pair

# Name in the results → name of the figure, its unit, and its meaning.
FIGURES: dict[str, tuple[str, Unit, str]] = {
    "difference": (
        "Difference awareness",
        "nats",
        "The divergence on needs less the divergence on neutral questions, in nats per token. 0: the model hears who "
        "asks no more where it matters than where it does not.",
    ),
    "needs": (
        "Divergence on needs",
        "nats",
        "How far the descriptor moves the model's replies to questions for which it matters who asks (nats per token).",
    ),
    "neutral": (
        "Divergence on neutral questions",
        "nats",
        "The same for questions for which it does not matter.",
    ),
    "taken_up": (
        "Needs taken up",
        "share",
        "The share of replies to needs that hold a word of the question's list, which does not show that the reply "
        "helps.",
    ),
}
FEW_REASON = "fewer than 12 terms, too few to estimate how far chance moves it"


def figures(results: Mapping[str, Any]) -> list[Figure]:
    """All figures with their intervals."""
    awareness = results["awareness"]
    return [
        Figure(
            name,
            awareness[key]["value"],
            unit,
            meaning,
            pair(awareness[key]["interval"]),
            no_interval=None if awareness[key]["interval"] else FEW_REASON,
            confidence_level=awareness["confidence_level"],
            gate="neutral_divergence" if key == "neutral" else None,
            higher_is_better=key != "neutral",
        )
        for key, (name, unit, meaning) in FIGURES.items()
    ]
