"""The dialogue perplexity of a run."""

from collections.abc import Mapping
from typing import Any

from hb_metrics.report.layout.figure import Figure, pair
from hb_metrics.runs.run_record import last_part


def figures(results: Mapping[str, Any]) -> list[Figure]:
    """The perplexity with its interval."""
    dialogue = results["dialogue"]
    return [
        Figure(
            "Dialogue perplexity",
            dialogue["perplexity"],
            "bias",
            f"How well the model predicts what real people replied ({dialogue['num_replies']:,} replies of "
            f"{last_part(dialogue['source'])}); lower is better. It is comparable between models with the same "
            "tokenizer only, and does not measure bias.",
            pair(dialogue["interval"]),
            confidence_level=dialogue["confidence_level"],
            gate="dialogue_perplexity",
        )
    ]
