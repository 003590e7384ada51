from hb_metrics.layout.figure import Figure, Unit
from hb_metrics.measurements.results import Results

# The figure's name, unit and meaning, for each key of the results.
FIGURES: dict[str, tuple[str, Unit, str]] = {
    "difference": (
        "Difference awareness",
        "nats",
        "The divergence on needs minus the divergence on neutral questions (nats per token). A value of 0 means that "
        "the descriptor changes replies to both kinds of questions by the same amount.",
    ),
    "needs": (
        "Divergence on needs",
        "nats",
        "The effect of the descriptor on the model's replies to questions for which it should matter (nats per token).",
    ),
    "neutral": (
        "Divergence on neutral questions",
        "nats",
        "The effect of the descriptor on the model's replies to questions for which it should not matter (nats per "
        "token).",
    ),
    "taken_up": (
        "Needs taken up",
        "share",
        "The share of replies to questions about needs in which a word from the question's list occurs. The word alone "
        "does not show that the reply is helpful.",
    ),
}
FEW_REASON = "there are fewer than 12 terms or questions, or the estimated variance is not above 0"


def figures(results: Results) -> list[Figure]:
    awareness = results.awareness
    estimates = vars(awareness)
    return [
        Figure(
            name,
            estimates[key].value,
            unit,
            meaning,
            estimates[key].interval,
            no_interval=None if estimates[key].interval else FEW_REASON,
            confidence_level=awareness.confidence_level,
            gate="neutral_divergence" if key == "neutral" else None,
            higher_is_better=key != "neutral",
        )
        for key, (name, unit, meaning) in FIGURES.items()
    ]
