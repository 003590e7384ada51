"""Designs with known truth for intervals for other terms and templates, and what many sets of each give.

The terms (or templates, or both) of each set are drawn anew from the design's population, and so are the replies. The
truth is the expected figure over all such draws, from draws of thousands.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from hb_metrics.stats.clusters import gen_bias_influences, generalised, pair_share_influences, share_influences
from tests.hb_metrics.stats.coverage import coverage

MANY = 2000


def debiased(sets):
    return [influences.value - (influences.noise or 0.0) for influences in sets]


def tailed(rng, tails, size):
    """Numbers with mean 0 and variance 1."""
    if tails == "normal":
        return rng.normal(size=size)
    if tails == "skewed":
        return rng.exponential(size=size) - 1
    freedom = int(tails[1:])
    return rng.standard_t(freedom, size) / np.sqrt(freedom / (freedom - 2))


@dataclass(frozen=True)
class Design:
    """A population of terms and templates.

    Attributes:
        terms: Terms of a set.
        templates: Templates of a set.
        over: What is drawn anew.
        effect: How far terms differ, in logits.
        common: How much of that is in all templates, as a part of the variance.
        differ: How unlike templates are: the effect of each times 1 ± this.
        far: The share of terms whose effect is four times that of the others.
        replies: Replies of a cell.
        axes: The sizes of axes, whose terms differ from each other; empty: one axis.
        given: Whether sets have an interval.
        tails: The distribution of effects: "normal", "t5", "t3" or "skewed".
    """

    terms: int
    templates: int = 4
    over: str = "terms"
    effect: float = 0.8
    common: float = 0.7
    differ: float = 0.3
    far: float = 0.0
    replies: int = 6
    axes: tuple[int, ...] = ()
    given: bool = True
    tails: str = "normal"

    def codes(self):
        """[terms] the axis of each."""
        return np.repeat(np.arange(len(self.axes)), self.axes) if self.axes else np.zeros(self.terms, int)

    def effects(self, rng):
        """What the numbers of a term have in all templates."""
        scale = np.where(rng.random((self.terms, 1)) < self.far, 4.0, 1.0)
        between = 0.5 * np.random.default_rng(5).normal(size=(len(self.axes) or 1, self.size)) * bool(self.axes)
        return scale, between[self.codes()] + scale * tailed(rng, self.tails, (self.terms, self.size))

    def logits(self, rng, term, templates):
        """[templates, terms, numbers] the part of the logits that comes with the terms."""
        scale, common = term
        own = scale * tailed(rng, self.tails, (len(templates), *common.shape))
        return self.effect * templates[:, None, None] * (np.sqrt(self.common) * common + np.sqrt(1 - self.common) * own)

    def strengths(self, rng):
        """[templates] the strength of the terms' effect."""
        return rng.uniform(1 - self.differ, 1 + self.differ, self.templates)

    def outcome(self, sets, seed=0):
        """The coverage in `sets` sets."""
        rng = np.random.default_rng(seed)
        fixed = self.effects(rng), self.of_templates(rng)
        # Without chance in the replies, the mean of many sets is the truth.
        truth = np.mean(debiased(replace(self, replies=10**6).sets(rng, MANY, fixed)))
        found = list(self.sets(rng, sets, fixed))
        return coverage(debiased(found), [generalised(of_set, self.over, 0.95).interval for of_set in found], truth)

    def sets(self, rng, number, fixed):
        """The influences of so many sets."""
        terms, templates = fixed
        for _ in range(number):
            if self.over != "templates":
                terms = self.effects(rng)
            if self.over != "terms":
                templates = self.of_templates(rng)
            yield self.influences(rng, terms, templates)


@dataclass(frozen=True)
class Styles(Design):
    """Of Full Gen Bias: style vectors of replies that are nearly of one style each.

    Attributes:
        concentration: How alike the replies of a cell are.
    """

    concentration: float = 1.5
    size = 15

    def of_templates(self, rng):
        """The strength and the mean logits of each template."""
        return self.strengths(rng), 1.5 * rng.normal(size=(self.templates, 1, self.size))

    def means(self, rng, term, templates):
        """[templates, terms, styles] the mean style vectors."""
        return softmax(templates[1] + self.logits(rng, term, templates[0]), axis=-1)

    def influences(self, rng, terms, templates):
        """Of a set of replies, whose mean and its variance have the right moments."""
        means = self.means(rng, terms, templates)
        spread = 1 / (self.concentration + 1) / self.replies
        noise = rng.normal(size=means.shape) * np.sqrt(means)
        noise -= means * noise.sum(axis=-1, keepdims=True)
        freedom = 5 * (self.replies - 1)
        variances = spread * (1 - (means**2).sum(axis=-1)) * rng.chisquare(freedom, means.shape[:2]) / freedom
        return gen_bias_influences(means + np.sqrt(spread) * noise, variances, self.codes())


@dataclass(frozen=True)
class Rates(Design):
    """Of a share of replies.

    Attributes:
        level: The mean logit.
        tilt: The standard deviation of the templates' logits.
    """

    level: float = -2.0
    tilt: float = 0.4
    replies: int = 8
    size = 1

    def of_templates(self, rng):
        """The strength of each template, and its logit."""
        return self.strengths(rng), self.tilt * rng.normal(size=(self.templates, 1, 1))

    def chances(self, rng, terms, templates):
        """[templates, terms] the probability that a reply counts."""
        logits = self.level + templates[1] + self.logits(rng, terms, templates[0])
        return 1 / (1 + np.exp(-logits[..., 0]))

    def influences(self, rng, terms, templates):
        """Of a set of replies."""
        chances = self.chances(rng, terms, templates)
        hits = rng.binomial(self.replies, chances)
        return share_influences(hits, np.full(hits.shape, self.replies), self.codes())


@dataclass(frozen=True)
class Pairs(Design):
    """Of Likelihood Bias: tests of two terms' mean log-perplexities, from 30 sentences each."""

    size = 1

    def of_templates(self, rng):
        """The strength of each template."""
        return (self.strengths(rng),)

    def influences(self, rng, terms, templates):
        """Of a set of sentences."""
        values = self.logits(rng, terms, templates[0])[..., 0]
        values = values + rng.normal(size=values.shape) / np.sqrt(30)
        codes = self.codes()
        one, other = np.triu_indices(self.terms, 1)
        same = codes[one] == codes[other]
        one, other = one[same], other[same]
        flags = np.abs(values[:, one] - values[:, other]) > 1.96 * np.sqrt(2 / 30)
        where = np.repeat(np.arange(self.templates), len(one))
        pairs = np.tile(one, self.templates), np.tile(other, self.templates)
        return pair_share_influences(where, *pairs, flags.ravel().astype(float), codes)


SIXES = (6,) * 13
GEN_BIAS = {
    "15 terms": Styles(15, given=False),
    "16 terms": Styles(16),
    "16 terms, no effect": Styles(16, effect=0.0),
    "20 terms, t3": Styles(20, tails="t3"),
    "40 terms, t3, large effect": Styles(40, tails="t3", effect=1.2),
    "20 terms, a tenth far": Styles(20, effect=0.3, far=0.1),
    "20 terms, two replies": Styles(20, replies=2),
    "40 terms, templates unlike": Styles(40, common=0.2, differ=0.6),
    "300 terms, a tenth far": Styles(300, effect=0.4, far=0.1),
    "thirteen axes of six": Styles(78, axes=SIXES),
    "three templates": Styles(40, 3, "templates", given=False),
    "four templates": Styles(40, 4, "templates"),
    "8 templates, unlike": Styles(20, 8, "templates", differ=0.6),
    "26 templates": Styles(40, 26, "templates"),
    "both, 4 templates, 40 terms": Styles(40, 4, "both"),
    "both, 8 templates, unlike": Styles(40, 8, "both", differ=0.6, common=0.4),
    "both, thirteen axes": Styles(78, 6, "both", axes=SIXES),
}
SHARES = {
    "15 terms": Rates(15, given=False),
    "16 terms": Rates(16),
    "40 terms, rare, skewed": Rates(40, tails="skewed", effect=1.2, level=-3.5),
    "78 terms, thirteen axes": Rates(78, axes=SIXES),
    "100 terms, alike": Rates(100, effect=0.0),
    "four templates": Rates(40, 4, "templates", tilt=0.8),
    "8 templates": Rates(20, 8, "templates", tilt=0.4),
    "both, 8 templates": Rates(40, 8, "both", tilt=0.8),
    "both, 26 templates": Rates(100, 26, "both", level=-3.0),
}
TESTS = {
    "15 terms": Pairs(15, effect=0.5, given=False),
    "16 terms": Pairs(16, effect=0.5),
    "16 terms, no effect": Pairs(16, effect=0.0),
    "40 terms, t3": Pairs(40, effect=0.4, tails="t3"),
    "40 terms, a tenth far": Pairs(40, effect=0.2, far=0.1),
    "thirteen axes of six": Pairs(78, axes=SIXES, effect=0.5),
    "8 templates, unlike": Pairs(30, 8, "templates", effect=0.4, differ=0.6),
    "both, 8 templates, unlike": Pairs(40, 8, "both", effect=0.3, differ=0.5),
    "both, 26 templates": Pairs(30, 26, "both", effect=0.4, common=0.3),
}
