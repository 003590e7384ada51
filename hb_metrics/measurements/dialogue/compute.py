"""Computes the results of `dialogue` from the run's tables, and shows them."""

import numpy as np
import pyarrow as pa
from markupsafe import Markup

from hb_metrics.layout.figure import Figure
from hb_metrics.layout.parts import Report
from hb_metrics.layout.rendering import figures_section
from hb_metrics.measurements.dialogue.results import Dialogue
from hb_metrics.measurements.results import Results, Run
from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.run.run_folder import DIALOGUE_FOLDER
from hb_metrics.run.run_record import last_part
from hb_metrics.stats.changes import FigureChanges, perplexity_change
from hb_metrics.stats.clusters import loss_per_token, mean_bounds


def compute(run: Run) -> Dialogue:
    table = run.tables.read(DIALOGUE_FOLDER, ("log_likelihood", "num_tokens"))
    return dialogue_results(table, run.record.dialogue.num_replies)


def dialogue_results(table: pa.Table, num_pairs: int) -> Dialogue:
    """Returns the perplexity of the replies: exp(total negative log-likelihood / total number of tokens).

    The interval generalises to other pairs of the same kind. It is the interval of the mean loss per token, with both
    limits exponentiated. Pairs of the source (there are `num_pairs`) that are not in the table are counted as too long.
    """
    nll, tokens = -table["log_likelihood"].to_numpy(), table["num_tokens"].to_numpy()
    mean, of_mean, reason = loss_per_token(nll, tokens)
    bounds = None
    if reason is None:
        low, high = np.exp(mean_bounds(mean, of_mean, CONFIDENCE_LEVEL)).tolist()
        bounds = (low, high)
    return Dialogue(
        perplexity=float(np.exp(mean)),
        interval=bounds,
        no_interval=reason,
        num_replies=len(nll),
        num_tokens=int(tokens.sum()),
        num_too_long=num_pairs - len(nll),
    )


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
            gate="dialogue_perplexity",
        )
    ]


def report(results: Results) -> Report:
    dialogue, record, (figure,) = results.dialogue, results.record, figures(results)
    interval = f" ({figure.interval_words})" if figure.interval_words else ""
    tag = " and the same control tag" if record.tag else ""
    too_long = f" {dialogue.num_too_long:,} replies were too long and were left out." if dialogue.num_too_long else ""
    text = Markup(
        "The dialogue perplexity is <strong>{}</strong>{}. It is the model's perplexity per token on replies that real "
        "people wrote to each other. The dialogues have the same context format as the prompts{}. A lower value means "
        "that the model predicts real dialogue better. Values are comparable only between models with the same "
        "tokenizer. The model scored {:,} replies from {}.{}"
    ).format(figure.shown, interval, tag, dialogue.num_replies, record.dialogue.source, too_long)
    files = Markup("the log-likelihood of each real reply in <code>dialogue/*.parquet</code>")
    return Report([figures_section("dialogue", "Dialogue perplexity", [text])], files=files)


def changes(first: Run, second: Run) -> FigureChanges:
    columns = ("id", "prompt", "reply", "log_likelihood", "num_tokens")
    before, after = (run.tables.read(DIALOGUE_FOLDER, columns).sort_by("id") for run in (first, second))
    names = ["id", "prompt", "reply"]
    if not before.select(names).equals(after.select(names)):
        return FigureChanges({}, "the runs scored different replies")
    if not before["num_tokens"].equals(after["num_tokens"]):
        return FigureChanges({}, "the models split the same replies into different numbers of tokens")
    losses = -before["log_likelihood"].to_numpy(), -after["log_likelihood"].to_numpy()
    change = perplexity_change(losses, before["num_tokens"].to_numpy(), CONFIDENCE_LEVEL)
    return FigureChanges({"Dialogue perplexity": change})
