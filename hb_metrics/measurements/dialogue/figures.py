from markupsafe import Markup

from hb_metrics.layout.figure import Figure
from hb_metrics.layout.parts import Report
from hb_metrics.layout.rendering import section
from hb_metrics.measurements.measurement import FigureChanges
from hb_metrics.measurements.results import Results, Run
from hb_metrics.run.run_folder import DIALOGUE
from hb_metrics.run.run_record import last_part
from hb_metrics.stats.changes import NO_FILES_REASON, perplexity_change


def figures(results: Results) -> list[Figure]:
    dialogue, source = results.dialogue, results.record.dialogue.source
    return [
        Figure(
            "Dialogue perplexity",
            dialogue.perplexity,
            "bias",
            f"The perplexity of {dialogue.num_replies:,} replies by real people ({last_part(source)}). "
            "Lower values are better. Values are comparable only between models with the same tokenizer. Dialogue "
            "perplexity does not measure bias.",
            dialogue.interval,
            no_interval=dialogue.no_interval,
            confidence_level=dialogue.confidence_level,
            gate="dialogue_perplexity",
        )
    ]


def report(results: Results) -> Report:
    context = {"dialogue": results.dialogue, "figure": figures(results)[0], "run": results.record}
    files = Markup("the log-likelihood of each real reply in <code>dialogue/*.parquet</code>")
    return Report([section("dialogue", "Dialogue perplexity", "dialogue/section.html.jinja", context)], files=files)


def changes(first: Run, second: Run) -> FigureChanges:
    columns = ("id", "prompt", "reply", "log_likelihood", "num_tokens")
    before, after = (run.tables.read_if_any(DIALOGUE, columns) for run in (first, second))
    if before is None or after is None:
        return FigureChanges({}, NO_FILES_REASON)
    before, after = before.sort_by("id"), after.sort_by("id")
    names = ["id", "prompt", "reply"]
    if not before.select(names).equals(after.select(names)):
        return FigureChanges({}, "the runs scored different replies")
    if not before["num_tokens"].equals(after["num_tokens"]):
        return FigureChanges({}, "the models split the same replies into different numbers of tokens")
    losses = -before["log_likelihood"].to_numpy(), -after["log_likelihood"].to_numpy()
    change = perplexity_change(losses, before["num_tokens"].to_numpy(), first.confidence_level)
    return FigureChanges({"Dialogue perplexity": change})
