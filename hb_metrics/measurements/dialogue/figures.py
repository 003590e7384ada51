from hb_metrics.layout.figure import Figure
from hb_metrics.measurements.results import Results
from hb_metrics.run.run_record import last_part


def figures(results: Results) -> list[Figure]:
    dialogue = results.dialogue
    return [
        Figure(
            "Dialogue perplexity",
            dialogue.perplexity,
            "bias",
            f"The perplexity of {dialogue.num_replies:,} replies by real people ({last_part(dialogue.source)}). "
            "Lower values are better. Values are comparable only between models with the same tokenizer. Dialogue "
            "perplexity does not measure bias.",
            dialogue.interval,
            no_interval=dialogue.no_interval,
            confidence_level=dialogue.confidence_level,
            gate="dialogue_perplexity",
        )
    ]
