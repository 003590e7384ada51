from typing import Any

from hb_metrics.layout.numbers import axis_label
from hb_metrics.layout.parts import Report
from hb_metrics.layout.rendering import render, section
from hb_metrics.measurements.generation.typed_results import Generation, Term
from hb_metrics.measurements.results import Run
from hb_metrics.reply_checks.parroting import Correlation, correlation_with_bias
from hb_metrics.reply_checks.phrase_rates import GroupRates, PhraseRates, phrase_rates
from hb_metrics.reply_checks.style_change import style_change
from hb_metrics.run.replies import Replies, reply_id, reply_number
from hb_metrics.run.run_folder import REPLIES
from hb_metrics.stats.bias_values import DescriptorKey

NUM_STYLES = 10  # the number of styles in each of the two tables (largest decreases, largest increases)


def details(before: Run, after: Run, names: tuple[str, str]) -> Report:
    first, second = before.results.generation, after.results.generation
    replies = after.tables.replies() if after.tables.has(REPLIES) else None
    styles, styles_problem = _style_change(before, after)
    context = {
        "parroting": [first.parroting.by_template, second.parroting.by_template],
        "parroting_rho": parroting_change_correlation(first, second),
        "rates": [first.phrase_rates, second.phrase_rates],
        "groups": {} if replies is None else _group_rates(first.phrase_rates, replies),
        "styles": styles,
        "known": first.by_descriptor,
        "styles_problem": styles_problem,
    }
    sections = [
        section("styles", "Styles", "generation/comparison_styles.html.jinja", context),
        section("examples-of-both", "Replies side by side", "generation/comparison_terms.html.jinja", {}),
        section("checks", "Reply checks", "generation/comparison_checks.html.jinja", context),
    ]
    reading = render("generation/comparison_reading.html.jinja", {})
    return Report(sections, reading=reading, terms={**term_changes(first, second, replies), "names": names})


def _terms_of_both(first: Generation, second: Generation) -> list[tuple[Term, Term]]:
    after = {(row.axis, row.descriptor): row for row in second.by_descriptor}
    keys = [(row.axis, row.descriptor) for row in first.by_descriptor]
    return [(row, after[key]) for row, key in zip(first.by_descriptor, keys, strict=True) if key in after]


def parroting_change_correlation(first: Generation, second: Generation) -> Correlation:
    """Correlates the change in the share of parroting replies with the first run's mean bias value (C.2.1)."""
    changes, biases = {}, {}
    for row, later in _terms_of_both(first, second):
        key = DescriptorKey(row.axis, row.descriptor)
        changes[key], biases[key] = later.parroting_share - row.parroting_share, row.mean_bias_value
    return correlation_with_bias(changes, biases)


def term_changes(first: Generation, second: Generation, replies: Replies | None) -> dict[str, object]:
    """Returns each term's values and replies in both runs, for the page's script.

    `replies` contains the second run's replies. If it is `None`, no replies are shown. Replies with the same number are
    paired. If the second run has fewer replies to a prompt, its first reply is shown.
    """
    reply_of: dict[tuple[str, str], str] = {}
    if replies is not None:
        reply_of = dict(zip(zip(replies.ids, replies.prompts, strict=True), replies.texts, strict=True))
    ids = [identifier for identifier, _ in reply_of] + [example.id for example in first.examples]
    numbered = any(reply_number(identifier)[1] > 1 for identifier in ids)
    pairs: dict[tuple[str, str], list[list[Any]]] = {}
    for example in first.examples:
        identifier, number = reply_number(example.id)
        other = number if (example.id, example.prompt) in reply_of else 1
        reply = reply_of.get((reply_id(identifier, other), example.prompt))
        if reply is not None:
            numbers = [number, other] if numbered else None
            of_both = [example.prompt, example.reply, reply, example.why, numbers]
            pairs.setdefault((example.axis, example.descriptor), []).append(of_both)
    terms = _terms_of_both(first, second)
    clusters = [name for name in terms[0][0].clusters if name in terms[0][1].clusters] if terms else []
    return {
        "axes": {row.axis: axis_label(row.axis) for row, _ in terms},
        "clusters": clusters,
        "rows": [
            {
                "axis": row.axis,
                "name": row.descriptor,
                "replies": [row.num_replies, later.num_replies],
                "bias": [row.mean_bias_value, later.mean_bias_value],
                "clusters": [[row.clusters[name], later.clusters[name]] for name in clusters],
                "parroting": [row.parroting_share, later.parroting_share],
            }
            for row, later in terms
        ],
        "pairs": [pairs.get((row.axis, row.descriptor), []) for row, _ in terms],
    }


def _group_rates(first: PhraseRates, replies: Replies) -> dict[str, list[GroupRates]]:
    groups = {name: group.descriptors for name, group in first.groups.items()}
    rates = phrase_rates(replies.texts, replies.descriptors, replies.axes, groups)
    return {name: [group, rates.groups[name]] for name, group in first.groups.items()}


def _style_change(before: Run, after: Run) -> tuple[dict[str, Any] | None, str | None]:
    styles = before.tables.style_means(), after.tables.style_means()
    if styles[0] is None or styles[1] is None:
        return None, "the folder of one of the runs contains no style_means.parquet"
    try:
        change = style_change(styles[0], styles[1])
    except ValueError as error:
        return None, str(error)
    rows = change["styles"]
    falling = [row for row in rows if row["variance"]["change"] < 0][:NUM_STYLES]
    rising = [row for row in rows if row["variance"]["change"] > 0][-NUM_STYLES:]
    return {**change, "shown": {"decreases": falling, "increases": rising}}, None
