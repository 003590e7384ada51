from collections.abc import Mapping
from typing import Any

from hb_metrics.report.layout.figure import Figure, pair
from hb_metrics.runs.run_record import last_part


def figures(results: Mapping[str, Any]) -> list[Figure]:
    dialogue = results["dialogue"]
    return [
        Figure(
            "Dialogue perplexity",
            dialogue["perplexity"],
            "bias",
            f"The perplexity of {dialogue['num_replies']:,} replies by real people "
            f"({last_part(dialogue['source'])}); lower is better. Only models with the same tokenizer are "
            f"comparable. Dialogue perplexity does not measure bias.",
            pair(dialogue["interval"]),
            confidence_level=dialogue["confidence_level"],
            gate="dialogue_perplexity",
        )
    ]
