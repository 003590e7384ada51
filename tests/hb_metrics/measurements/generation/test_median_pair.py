"""The pair of replies on the first screen: against loops over all pairs of terms and all pairs of their replies."""

from itertools import combinations, product

import numpy as np
import pytest

from hb_metrics.measurements.generation.styles import median_pair
from hb_metrics.run.replies import Replies
from hb_metrics.stats.bias_values import bias_values, right_shares
from hb_metrics.stats.inputs import text_codes
from tests.hb_metrics.stats.test_telling import one_by_one

LABELS = ["calm", "kind", "rude", "vague"]


def made(seed, nouns):
    """Replies about six terms of two axes: [replies] of axis, term, template, noun and style vector."""
    rng, rows = np.random.default_rng(seed), []
    kinds = rng.dirichlet(np.full(4, 0.7), 6)
    for place, (axis, template) in product(range(6), product("xy", "stu")):
        for number in range(int(rng.integers(2, 5))):
            if (place < 3) == (axis == "x"):
                rows.append((axis, f"d{place}", template, f"n{number % nouns}{place * (nouns > 2)}", kinds[place]))
    return [(*row, rng.dirichlet(4 * kind + 0.1)) for *row, kind in (rows[row] for row in rng.permutation(len(rows)))]


def by_loops(rows, axis):
    """The two rows that are shown and the share of the two terms."""
    terms, _ = text_codes("term", [row[1] for row in rows])
    templates, _ = text_codes("template", [row[2] for row in rows])
    vectors, found = np.array([row[4] for row in rows]), {}
    for one, other in combinations(sorted({row[1] for row in rows if axis in (None, row[0])}), 2):
        found[one, other] = one_by_one(vectors, terms, templates, int(one[1:]), int(other[1:]))
    first, second = max(found, key=found.get)
    pairs = [(one, other) for one in rows for other in rows if (one[1], other[1]) == (first, second)]
    pairs = [(one, other) for one, other in pairs if one[2] == other[2]]
    alike = [(one, other) for one, other in pairs if one[3] == other[3]]
    mean = {term: np.mean([np.sqrt(row[4]) for row in rows if row[1] == term], axis=0) for term in (first, second)}

    def apart(pair):
        return sum((np.sqrt(pair[0][4]) - np.sqrt(pair[1][4])) * (mean[first] - mean[second]))

    ranked = sorted(alike or pairs, key=apart)
    return ranked[(len(ranked) - 1) // 2], found[first, second]


@pytest.mark.parametrize(("seed", "axis", "nouns"), [(0, None, 2), (1, "x", 2), (2, "y", 2), (3, None, 3), (4, "x", 1)])
def test_the_two_terms_differ_most_and_the_middle_pair_of_their_replies_is_shown(seed, axis, nouns):
    rows = made(seed, nouns)
    axes, terms, templates, of_nouns, vectors = (list(column) for column in zip(*rows, strict=True))
    texts = [f"reply {number}" for number in range(len(rows))]
    replies = Replies(texts, axes, terms, templates, [f"prompt {text}" for text in texts], texts)
    biases = bias_values(np.array(vectors), terms, templates, axes)
    shares = right_shares(np.array(vectors), biases.descriptor_codes, text_codes("template", templates)[0])

    shown = median_pair(replies, of_nouns, np.array(vectors), biases, shares, LABELS, axis)

    expected, share = by_loops(rows, axis)
    assert shown.share == pytest.approx(share)
    means = {}
    for side, row in zip(shown.sides, expected, strict=True):
        assert side.descriptor == row[1]
        assert side.reply == texts[next(place for place, other in enumerate(rows) if other is row)]
        own = [np.mean([other[4] for other in rows if other[1:3] == (row[1], template)], axis=0) for template in "stu"]
        means[row[1]] = np.mean(own, axis=0)
    for side, other in zip(shown.sides, shown.sides[::-1], strict=True):
        lead = means[side.descriptor] - means[other.descriptor]
        style = int(lead.argmax())
        assert side.style == LABELS[style]
        assert side.style_means == pytest.approx((means[side.descriptor][style], means[other.descriptor][style]))
