"""Defines and computes the results that depend on styles.

Bias values and variances are multiplied by 1000. Shares and probabilities are from 0 to 1.
"""

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hb_dataset.grouped import grouped
from hb_metrics.reply_checks.parroting import Parroting, is_parroting, parroting
from hb_metrics.reply_checks.phrase_rates import PhraseRates, most_biased_descriptors, phrase_rates
from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.run.replies import Replies
from hb_metrics.stats.bias_values import BiasValues, bias_values, right_shares, telling
from hb_metrics.stats.clusters import Estimate
from hb_metrics.stats.gen_bias import CellSums, GenBias, cluster_columns, plain_and_debiased
from hb_metrics.stats.inputs import DescriptorKey, text_codes

# For each descriptor, the page shows this many replies with the highest bias values, and this many random replies.
NUM_CHARACTERISTIC = 2
NUM_DRAWN = 3


@dataclass(frozen=True, kw_only=True)
class Biases:
    """Gen Bias values: plain ones (with sampling noise) with the intervals, and values without this noise.

    Attributes:
        debiased: `None` if there is a template in which no term has a second reply.
    """

    gen_bias: GenBias
    debiased: GenBias | None


@dataclass(frozen=True)
class PairSide:
    """A reply of `MedianPair`. `style_means` are the mean probabilities of `style` for this term and the other one."""

    descriptor: str
    prompt: str
    reply: str
    style: str
    style_means: tuple[float, float]


@dataclass(frozen=True)
class MedianPair:
    """Two replies to the same template (see `median_pair`).

    Attributes:
        share: How often style tells their terms apart.
        axis: The axis whose pairs of terms were compared, or `None` if those of all axes were.
    """

    share: float
    sides: tuple[PairSide, PairSide]
    axis: str | None = None


@dataclass(frozen=True)
class Style:
    """The mean of a style over descriptors, and its variance ×1000 (the paper's Table 15)."""

    style: str
    mean: float
    variance: float


@dataclass(frozen=True)
class TermStyle:
    """A descriptor. `clusters` contains the mean probability of each cluster's styles."""

    axis: str
    descriptor: str
    num_replies: int
    mean_bias_value: float
    clusters: dict[str, float]
    parroting_share: float

    @property
    def key(self) -> DescriptorKey:
        return DescriptorKey(self.axis, self.descriptor)


@dataclass(frozen=True)
class Example:
    """A reply to a prompt about a descriptor, with its likeliest style."""

    id: str
    axis: str
    descriptor: str
    why: Literal["characteristic", "drawn"]
    prompt: str
    reply: str
    style: str
    style_probability: float
    parroting: bool
    template: str = ""


@dataclass(frozen=True, kw_only=True)
class StyleResults(Biases):
    """The results that depend on styles."""

    telling: Estimate
    pair: MedianPair | None
    styles: list[Style]
    by_descriptor: list[TermStyle]
    parroting: Parroting
    phrase_rates: PhraseRates
    examples: list[Example]


def style_results(
    replies: Replies,
    style_probabilities: np.ndarray,
    labels: Sequence[str],
    *,
    clusters: Mapping[str, Sequence[str]] | None = None,
    asked: Sequence[str] | None = None,
    nouns: Sequence[object] | None = None,
) -> tuple[StyleResults, BiasValues]:
    """Computes the results that depend on styles, and the bias values of all replies.

    `asked` [replies] contains the user's last turn, by default the prompt. Replies that repeat it are counted as
    parroting. `nouns` [replies] contains the noun of each prompt, with the order of its options.
    """
    gen_bias = gen_biases(style_probabilities, replies, labels, clusters)
    biases = bias_values(style_probabilities, replies.descriptors, replies.templates, replies.axes)
    mean_bias = dict(zip(biases.descriptors, biases.mean_values.tolist(), strict=True))
    columns = cluster_columns(labels, clusters) if clusters else {}
    asked = replies.prompts if asked is None else asked
    parrots, parroting_shares = parroting(asked, replies, CONFIDENCE_LEVEL)
    rates = phrase_rates(replies.texts, replies.descriptors, replies.axes, most_biased_descriptors(mean_bias))
    shares = right_shares(style_probabilities, biases.descriptor_codes, text_codes("template", replies.templates)[0])
    nouns, axis = nouns or [None] * len(replies.ids), clearest_axis(gen_bias)
    results = StyleResults(
        **vars(gen_bias),
        telling=telling(shares, CONFIDENCE_LEVEL),
        pair=median_pair(replies, nouns, style_probabilities, biases, shares, labels, axis),
        styles=_styles(biases, labels),
        by_descriptor=_by_descriptor(replies, biases, columns, parroting_shares),
        parroting=parrots,
        phrase_rates=rates,
        examples=_examples(replies, asked, biases, labels, style_probabilities),
    )
    return results, biases


def gen_biases(
    vectors: np.ndarray,
    replies: Replies,
    labels: Sequence[str] | None = None,
    clusters: Mapping[str, Sequence[str]] | None = None,
) -> Biases:
    cells = CellSums(labels, clusters, keep_replies=True)
    cells.add(vectors, replies.descriptors, replies.templates, replies.axes)
    plain, debiased = plain_and_debiased(cells, CONFIDENCE_LEVEL)
    return Biases(gen_bias=plain, debiased=debiased)


def median_pair(
    replies: Replies,
    nouns: Sequence[object],
    vectors: np.ndarray,
    biases: BiasValues,
    shares: np.ndarray,
    labels: Sequence[str],
    axis: str | None,
) -> MedianPair | None:
    """Selects two replies that show a difference as it usually is.

    The terms are the two terms of an axis (`None`: of all axes) that style tells apart most often in other templates
    (`shares`, see `right_shares`), so noise alone seldom selects them. Their replies to the same template and noun are
    sorted by how far they differ in the direction in which the terms differ, and the pair in the middle is selected.
    For each term, `style` is the style that is likelier for this term than for the other one by most.

    Returns `None` if no two terms can be compared.
    """
    codes = [code for code, key in enumerate(biases.descriptors) if axis in (None, key.axis)]
    of_axis = shares[np.ix_(codes, codes)]
    if np.isnan(of_axis).all():
        return None
    terms = sorted(codes[index] for index in np.unravel_index(np.nanargmax(of_axis), of_axis.shape))
    rows = [np.flatnonzero(biases.descriptor_codes == term).tolist() for term in terms]
    roots = np.sqrt(vectors)
    direction = roots[rows[0]].mean(axis=0) - roots[rows[1]].mean(axis=0)
    along = np.einsum("ij,j->i", roots, direction)  # the same for equal rows, unlike with `@`
    cells = list(zip(replies.templates, nouns, strict=True))
    pairs = np.concatenate(_pairs_within(cells, *rows) or _pairs_within(replies.templates, *rows))
    ranked = np.lexsort((pairs[:, 1], pairs[:, 0], along[pairs[:, 0]] - along[pairs[:, 1]]))
    middle = pairs[ranked[(len(ranked) - 1) // 2]]
    change = biases.descriptor_means[terms[0]] - biases.descriptor_means[terms[1]]
    styles = [int(change.argmax()), int(change.argmin())]
    one, other = (
        PairSide(
            biases.descriptors[term].descriptor,
            replies.prompts[row],
            replies.texts[row],
            labels[style],
            (float(biases.descriptor_means[term, style]), float(biases.descriptor_means[opposite, style])),
        )
        for term, opposite, row, style in zip(terms, terms[::-1], middle, styles, strict=True)
    )
    return MedianPair(float(shares[terms[0], terms[1]]), (one, other), axis)


def _pairs_within(cells: Sequence[Hashable], firsts: list[int], seconds: list[int]) -> list[np.ndarray]:
    """Pairs the rows of two terms within each cell that they share: [pairs, 2]. `cells` is [replies]."""
    first, second = (grouped((cells[row], row) for row in rows) for rows in (firsts, seconds))
    shared = [cell for cell in first if cell in second]
    return [np.stack(np.meshgrid(first[cell], second[cell]), axis=-1).reshape(-1, 2) for cell in shared]


def clearest_axis(biases: Biases) -> str | None:
    """Returns the axis with the highest debiased value among the axes whose interval is above 0."""
    plain, debiased = biases.gen_bias, biases.debiased
    values, bounds = (debiased.by_axis if debiased else None) or {}, (plain.intervals and plain.intervals.by_axis) or {}
    clear = [axis for axis, interval in bounds.items() if interval is not None and interval[0] > 0]
    return max(clear, key=lambda axis: values[axis] or 0.0, default=None)


def _styles(biases: BiasValues, labels: Sequence[str]) -> list[Style]:
    """Computes the mean and the variance (×1000) of each style over descriptors (the paper's Table 15)."""
    variances = 1000 * biases.descriptor_means.var(axis=0)
    return [
        Style(label, mean, variance)
        for label, mean, variance in zip(labels, biases.overall_mean.tolist(), variances.tolist(), strict=True)
    ]


def _by_descriptor(
    replies: Replies,
    biases: BiasValues,
    columns: Mapping[str, Sequence[int]],
    parroting_shares: Mapping[DescriptorKey, float],
) -> list[TermStyle]:
    counts = np.bincount(biases.descriptor_codes, minlength=len(biases.descriptors)).tolist()
    return [
        TermStyle(
            str(key.axis),
            key.descriptor,
            num_replies=counts[index],
            mean_bias_value=float(biases.mean_values[index]),
            clusters={name: float(biases.descriptor_means[index, styles].sum()) for name, styles in columns.items()},
            parroting_share=parroting_shares[key],
        )
        for index, key in enumerate(biases.descriptors)
    ]


def _examples(
    replies: Replies, asked: Sequence[str], biases: BiasValues, labels: Sequence[str], vectors: np.ndarray
) -> list[Example]:
    """Selects, for each descriptor, the replies with the highest bias values, and a random sample of replies."""
    examples = []
    for code, key in enumerate(biases.descriptors):
        rows = np.flatnonzero(biases.descriptor_codes == code).tolist()
        rows.sort(key=lambda row: (-biases.values[row], replies.ids[row]))
        drawn = sorted(rows[NUM_CHARACTERISTIC:], key=lambda row: random_key(replies.ids[row]))[:NUM_DRAWN]
        for place, row in enumerate(rows[:NUM_CHARACTERISTIC] + drawn):
            examples.append(
                Example(
                    replies.ids[row],
                    str(key.axis),
                    key.descriptor,
                    why="characteristic" if place < NUM_CHARACTERISTIC else "drawn",
                    prompt=replies.prompts[row],
                    reply=replies.texts[row],
                    style=labels[int(vectors[row].argmax())],
                    style_probability=float(vectors[row].max()),
                    parroting=bool(is_parroting([asked[row]], [replies.texts[row]])[0]),
                    template=replies.templates[row],
                )
            )
    return examples


def random_key(identifier: str) -> bytes:
    """Returns a random sort key.

    The ids are also random, but they cannot replace this key: replies to the same prompt have similar ids.
    """
    return hashlib.sha256(identifier.encode()).digest()
