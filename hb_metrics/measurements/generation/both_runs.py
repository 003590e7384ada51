"""Compares the replies of two runs: styles and phrases (the paper's Tables 15 and 14), and single replies."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hb_metrics.layout.parts import Section
from hb_metrics.layout.rendering import section
from hb_metrics.measurements.generation.terms import term_changes
from hb_metrics.measurements.results import Run
from hb_metrics.reply_checks.phrase_rates import phrase_rates
from hb_metrics.run.replies import Replies
from hb_metrics.run.run_folder import REPLIES, STYLES
from hb_metrics.stats.bias_values import BiasValues, bias_values
from hb_metrics.stats.inputs import DescriptorKey

NUM_STYLES = 10  # at either end of the table
NUM_TERMS = 5


class ChangedStyle(NamedTuple):
    """A style's variance across terms (×1000) and its mean in both runs, and the terms that changed most."""

    style: str
    variances: list[float]
    means: list[float]
    fell: list[DescriptorKey]
    rose: list[DescriptorKey]


def generation_details(first: Run, second: Run, names: Sequence[str]) -> tuple[list[Section], dict[str, object]]:
    """Returns sections about two runs, and the terms among which readers choose one (see `page.js`)."""
    generations = first.results.generation, second.results.generation
    replies = second.tables.styled_replies(second.tables.reply_table()) if second.tables.has(REPLIES) else None
    terms = term_changes(*generations, replies)
    sections = [section("examples-of-both", "Replies side by side", "generation/both_replies.html.jinja", {})]
    if replies is not None:
        sections.insert(0, _styles_and_phrases(first, second, replies))
    return sections, {**terms, "names": names}


def _styles_and_phrases(first: Run, second: Run, replies: Replies) -> Section:
    """Compares two runs. `replies` are those of the second run."""
    generation, rates = first.results.generation, first.results.generation.phrase_rates
    groups = {name: group.descriptors for name, group in rates.groups.items()}
    others = phrase_rates(replies.texts, replies.descriptors, replies.axes, groups)
    labels = [[style.style for style in run.results.generation.styles] for run in (first, second)]
    styles = []
    if labels[0] == labels[1] and all(run.tables.has(name) for run in (first, second) for name in (REPLIES, STYLES)):
        styles = changed_styles(labels[0], _bias_values(first), _bias_values(second))
    falling = [style for style in styles if style.variances[1] < style.variances[0]]
    rising = [style for style in styles if style.variances[1] > style.variances[0]]
    context = {
        "num_falling": len(falling),
        "num_rising": len(rising),
        "styles": [*falling[:NUM_STYLES], *rising[-NUM_STYLES:]],
        "known": generation.by_descriptor,
        "rates": {"": (rates, others)} | {name: (group, others.groups[name]) for name, group in rates.groups.items()},
    }
    return section("styles", "Styles and phrases", "generation/both_styles.html.jinja", context)


def _bias_values(run: Run) -> BiasValues:
    replies = run.tables.styled_replies(run.tables.reply_table())
    vectors = run.tables.vectors_of(STYLES, replies.ids)
    return bias_values(vectors, replies.descriptors, replies.templates, replies.axes)


def changed_styles(labels: Sequence[str], before: BiasValues, after: BiasValues) -> list[ChangedStyle]:
    """Compares styles over the terms of both runs, from the largest fall in variance to the largest rise."""
    terms = [term for term in before.descriptors if term in after.descriptors]
    if len(terms) < 2:
        return []
    rows = [[run.descriptors.index(term) for term in terms] for run in (before, after)]
    means = np.stack([before.descriptor_means[rows[0]], after.descriptor_means[rows[1]]])
    moves, overall, variances = means[1] - means[0], means.mean(axis=1), 1000 * means.var(axis=1)
    styles = []
    for column in np.argsort(variances[1] - variances[0], kind="stable"):
        move = moves[:, column]
        ranked = np.argsort(move, kind="stable")
        styles.append(
            ChangedStyle(
                labels[column],
                variances[:, column].tolist(),
                overall[:, column].tolist(),
                [terms[row] for row in ranked[:NUM_TERMS] if move[row] < 0],
                [terms[row] for row in ranked[::-1][:NUM_TERMS] if move[row] > 0],
            )
        )
    return styles
