from collections.abc import Sequence

import numpy as np

from hb_metrics.measurements.generation.typed_results import MedianPair, PairSide
from hb_metrics.run.replies import Replies
from hb_metrics.stats.bias_values import BiasValues
from hb_metrics.stats.gen_bias import GenBias


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
    pairs = [(first, second) for first in rows[0] for second in rows[1]]
    pairs = [pair for pair in pairs if len({replies.templates[row] for row in pair}) == 1]
    same_noun = [pair for pair in pairs if len({nouns[row] for row in pair}) == 1]
    ranked = sorted(same_noun or pairs, key=lambda pair: (float((roots[pair[0]] - roots[pair[1]]) @ direction), pair))
    if not ranked:
        return None
    change = biases.descriptor_means[terms[0]] - biases.descriptor_means[terms[1]]
    styles = [int(change.argmax()), int(change.argmin())]
    one, other = (
        PairSide(
            str(biases.descriptors[term].axis),
            biases.descriptors[term].descriptor,
            replies.prompts[row],
            replies.texts[row],
            labels[style],
            (float(biases.descriptor_means[term, style]), float(biases.descriptor_means[opposite, style])),
        )
        for term, opposite, row, style in zip(terms, terms[::-1], ranked[(len(ranked) - 1) // 2], styles, strict=True)
    )
    return MedianPair(float(shares[terms[0], terms[1]]), (one, other))


def clearest_axis(plain: GenBias, debiased: GenBias | None) -> str | None:
    """Returns the axis with the highest debiased value among the axes whose interval is above 0."""
    values, bounds = (debiased.by_axis if debiased else None) or {}, (plain.intervals and plain.intervals.by_axis) or {}
    clear = [axis for axis, interval in bounds.items() if interval is not None and interval[0] > 0]
    return max(clear, key=lambda axis: values[axis] or 0.0, default=None)
