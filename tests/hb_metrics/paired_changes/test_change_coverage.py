"""How often intervals of changes hold the true change, which the designs know; the long tests have more of them."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from hb_metrics.paired_changes.gen_bias_covariance import Covariance, PairedCell, gen_bias_covariances
from hb_metrics.paired_changes.paired_change import (
    change_from_intervals,
    pair_share_change,
    perplexity_change,
    share_change,
)
from hb_metrics.statistics.gen_bias import CellSums, gen_bias
from tests.hb_metrics.paired_changes.test_gen_bias_covariance import Pair


class Outcome(NamedTuple):
    """Shares of sets: with an interval; of these, with one that holds the change, and beyond chance; so of percent."""

    given: float
    held: float
    beyond: float
    percent_given: float
    percent_held: float


def outcome(changes, change, relative):
    """What intervals did to changes whose true value is known."""
    known = [each for each in changes if each.interval is not None]
    in_percent = [each.relative_interval for each in known if each.relative_interval is not None]
    held = [each.interval[0] <= change <= each.interval[1] for each in known]
    # The lowest ratio less 1 is -1 where nothing is left, and rounding may move that.
    percent = [low - 1e-9 <= relative <= high for low, high in in_percent]
    return Outcome(
        len(known) / len(changes),
        float(np.mean(held)) if held else np.nan,
        float(np.mean([each.beyond_chance for each in known])) if known else np.nan,
        len(percent) / len(changes),
        float(np.mean(percent)) if percent else np.nan,
    )


STYLES, CLUSTERS = 30, {"few": [0, 3, 6], "many": [1, 2, 4, 5, 7, 8, 9, 10]}
# Replies are nearly of one style each, and few styles are frequent, as of real ones.
REAL = {"styles": STYLES, "spread": 1.2, "concentration": 2.5}
GEN_BIAS = {
    "no change": {"effects": (0.4, 0.4), "same": 0.5},
    "halved": {"effects": (0.6, 0.35), "same": 0.3},
    "none after": {"effects": (0.6, 0.0), "same": 0.3},
    "more": {"effects": (0.3, 0.6), "same": 0.3},
    "replies depend on the prompt": {"effects": (0.4, 0.4), "prompt": 1.0},
    "26 templates": {"effects": (0.5, 0.3), "same": 0.3, "templates": 26, "axes": (2, 3, 5)},
}


def gen_bias_outcomes(name, sets, seed, axes=(2, 5, 8, 9)):
    """Figure → its outcome."""
    design = {"templates": 4, "axes": axes, **GEN_BIAS[name]}
    axes = design.pop("axes")
    groups = [slice(*bounds) for bounds in pairwise(np.cumsum([0, *axes]))]
    pair = Pair(terms=sum(axes), **REAL, **design, seed=seed)
    paths = [("full_gen_bias",)]
    paths += [(metric, name) for metric in ("partial_gen_bias", "summed_cluster_gen_bias") for name in CLUSTERS]
    paths += [("by_axis", f"axis of {size}") for size in axes]
    parts = [(lambda means: means)]
    parts += [lambda means, columns=columns: means[..., columns] for columns in CLUSTERS.values()]
    parts += [
        lambda means, columns=columns: means[..., columns].sum(-1, keepdims=True) for columns in CLUSTERS.values()
    ]
    parts += [lambda means, group=group: means[:, group] for group in groups]
    truths = np.array([[1000 * part(m).var(axis=1).sum(axis=-1).mean() for part in parts] for m in pair.means])
    changes = {path: [] for path in paths}
    for _ in range(sets):
        replies = pair.replies()
        measured = [_measured(of_run, axes) for of_run in replies]
        shared = np.stack([np.arange(replies[0].shape[2])] * 2)
        templates = []
        for one, other in zip(*replies, strict=True):
            cells = [PairedCell(*of_runs, shared) for of_runs in zip(one, other, strict=True)]
            templates.append({path[1]: cells[group] for path, group in zip(paths[-len(axes) :], groups, strict=True)})
        covariances = gen_bias_covariances(templates, CLUSTERS)
        in_order = [*covariances[None], *(covariances[path[1]][0] for path in paths[-len(axes) :])]
        for path, covariance in zip(paths, in_order, strict=True):
            (before, bounds), (after, others) = (_at(of_run, path) for of_run in measured)
            if bounds is None or others is None:
                changes[path].append(NO_CHANGE)
                continue
            scaled = Covariance(covariance.value * 1e6, covariance.variance * 1e12)
            changes[path].append(change_from_intervals(before, after, (tuple(bounds), tuple(others)), scaled, 0.95))
    return {
        path[-1] if path[0] == "by_axis" else " ".join(path): outcome(
            changes[path], after - before, after / before - 1 if before > 1e-9 else np.nan
        )
        for path, before, after in zip(paths, *truths, strict=True)
    }


NO_CHANGE = share_change(np.zeros((2, 3), int), np.ones((2, 3), int), 0.95)  # a change without an interval


def _measured(replies, axes):
    labels = [f"s{style}" for style in range(STYLES)]
    clusters = {name: [labels[style] for style in styles] for name, styles in CLUSTERS.items()}
    cells = CellSums(labels, clusters, keep_replies=True)
    template, term, _ = (codes.ravel() for codes in np.indices(replies.shape[:3]))
    names = np.repeat([f"axis of {size}" for size in axes], axes)
    rows = replies.reshape(-1, STYLES)
    cells.add(rows, [f"d{code:03}" for code in term], [f"t{code:03}" for code in template], names[term].tolist())
    return gen_bias(cells, debias=True)._asdict(), gen_bias(cells, confidence_level=0.95).intervals


def _at(measured, path):
    for name in path:
        measured = [None if of is None else of[name] for of in measured]
    return measured


def test_intervals_of_clusters_and_axes_hold_the_change_about_as_often_as_they_should():
    outcomes = gen_bias_outcomes("no change", 10, 0, axes=(2, 9)).values()
    given = np.array([found.given for found in outcomes])
    held = np.array([found.held for found in outcomes])
    assert given[-2] == 0  # an axis of two terms and four templates
    assert given.sum() > 2
    assert np.nansum(given * held) / given.sum() > 0.85


@pytest.mark.long
@pytest.mark.parametrize("name", GEN_BIAS)
def test_intervals_of_clusters_and_axes_hold_the_change_as_often_as_they_should(name):
    for figure, found in gen_bias_outcomes(name, 500, 1).items():
        if found.given > 0.5:
            # Intervals of an axis rest on what all axes have in common, which single ones differ from.
            assert found.held > (0.88 if figure.startswith("axis") else 0.92), figure
        if found.percent_given > 0.5:
            assert found.percent_held > 0.9, figure


class Compared(NamedTuple):
    """A population of terms, whose mean log-perplexities differ; tests compare pairs in a template.

    Attributes:
        sizes: Terms of each axis.
        strengths: How far terms differ in either run.
        outliers: Whether a tenth of the terms is far from the others.
        common: How much of that is in all templates, as a part of the variance.
        templates: Templates.
    """

    sizes: tuple[int, ...]
    strengths: tuple[float, float]
    outliers: bool = False
    common: float = 0.5
    templates: int = 4

    def significant(self, rng, number):
        """[2, templates, pairs] of `number` terms in two runs, and the pairs."""
        one, other = np.triu_indices(number, 1)
        far = np.where(rng.random(number) < 0.1, 3.0, 0.5) if self.outliers else 1.0
        own = rng.normal(size=(2, number)), rng.normal(size=(2, self.templates, number))
        flags = []
        for run, strength in enumerate(self.strengths):
            alike = [values[0] if run == 0 else 0.8 * values[0] + 0.6 * values[1] for values in own]
            differ = far * (np.sqrt(self.common) * alike[0] + np.sqrt(1 - self.common) * alike[1])
            values = strength * differ + rng.normal(size=(self.templates, number)) / np.sqrt(30)
            flags.append(np.abs(values[:, one] - values[:, other]) > 1.96 * np.sqrt(2 / 30))
        return np.array(flags), one, other

    def outcome(self, sets, seed):
        """Of the share of all axes."""
        rng = np.random.default_rng(seed)
        truth = np.mean([self.significant(rng, 300)[0].mean(axis=(1, 2)) for _ in range(20)], axis=0)
        changes = []
        for _ in range(sets):
            start, parts = 0, []
            for number in self.sizes:
                flags, one, other = self.significant(rng, number)
                pairs = [np.tile(term + start, self.templates) for term in (one, other)]
                parts.append((*pairs, *flags.reshape(2, -1)))
                start += number
            firsts, seconds, before, after = (np.concatenate(rows) for rows in zip(*parts, strict=True))
            groups = np.repeat(np.arange(len(self.sizes)), self.sizes)
            changes.append(pair_share_change(firsts, seconds, groups, (before, after), 0.95))
        return outcome(changes, truth[1] - truth[0], truth[1] / truth[0] - 1)


SMALL, DOMINATED, UNEQUAL = (6,) * 13, (40, 6, 6, 6, 12), (2, 3, 5, 8, 12, 20, 30)
TESTS = {
    "halved": Compared(SMALL, (0.6, 0.35)),
    "no change": Compared(SMALL, (0.5, 0.5)),
    "more": Compared(SMALL, (0.2, 0.6)),
    "nothing left": Compared(SMALL, (0.6, 0.0)),
    "few terms are far": Compared(SMALL, (0.6, 0.35), outliers=True),
    "a large axis": Compared(DOMINATED, (0.6, 0.35), outliers=True),
    "axes from 2 terms": Compared(UNEQUAL, (0.6, 0.35)),
    "axes from 2 terms, templates alike": Compared(UNEQUAL, (0.5, 0.5), common=0.95),
    "one axis": Compared((14,), (0.6, 0.3)),
    "one axis, templates alike": Compared((20,), (0.6, 0.3), common=0.95),
    "26 templates": Compared(UNEQUAL, (0.5, 0.3), common=0.9, templates=26),
}


@pytest.mark.parametrize("name", ["more", "a large axis"])
def test_intervals_of_likelihood_bias_hold_the_change_about_as_often_as_they_should(name):
    found = TESTS[name].outcome(120, 0)
    assert found.given > 0.9
    assert found.held > 0.9


@pytest.mark.long
@pytest.mark.parametrize("name", TESTS)
def test_intervals_of_likelihood_bias_hold_the_change_as_often_as_they_should(name):
    found = TESTS[name].outcome(1500, 1)
    assert found.given > 0.9
    assert 0.925 < found.held < 0.99
    assert 0.925 < found.percent_held < 0.99


class Offence(NamedTuple):
    """A population of terms with shares of offensive replies, of 32 each in two runs.

    Attributes:
        shares: The mean shares.
        concentration: Of the beta distribution of shares over terms; `None`: a tenth of the terms has 60 % of them.
        terms: Terms.
    """

    shares: tuple[float, float]
    concentration: float | None = 20
    terms: int = 78

    def outcome(self, sets, seed):
        """Of the change of the share."""
        rng = np.random.default_rng(seed)
        changes = []
        for _ in range(sets):
            normal = rng.normal(size=(2, self.terms))
            ranks = stats.norm.cdf([normal[0], 0.7 * normal[0] + np.sqrt(0.51) * normal[1]])
            hits = [rng.binomial(32, self._of_terms(*of_run)) for of_run in zip(ranks, self.shares, strict=True)]
            changes.append(share_change(hits, np.full((2, self.terms), 32), 0.95))
        before, after = self.shares
        return outcome(changes, after - before, after / before - 1)

    def _of_terms(self, ranks, mean):
        if self.concentration is None:
            return np.where(ranks > 0.9, 6 * mean, 0.4 * mean / 0.9)
        return stats.beta.ppf(ranks, self.concentration * mean, self.concentration * (1 - mean))


RISE, FALL, SAME = (0.012, 0.047), (0.047, 0.012), (0.012, 0.012)
OFFENCE = {
    f"{name}, {concentration}": Offence(shares, concentration)
    for name, shares in (("rise", RISE), ("fall", FALL), ("no change", SAME))
    for concentration in (100, 20, 5, None)
}
OFFENCE["few terms"] = Offence((0.1, 0.05), terms=16)


@pytest.mark.parametrize("name", ["rise, None", "fall, 20"])
def test_intervals_of_offensive_replies_hold_the_change_about_as_often_as_they_should(name):
    found = OFFENCE[name].outcome(120, 0)
    assert found.given == 1
    assert found.held > 0.9


@pytest.mark.long
@pytest.mark.parametrize("name", OFFENCE)
def test_intervals_of_offensive_replies_hold_the_change_as_often_as_they_should(name):
    found = OFFENCE[name].outcome(1000, 1)
    assert found.held > 0.925
    if found.percent_given > 0.5:
        assert found.percent_held > 0.925


def perplexity_outcome(shift, number, sets, seed):
    """Of pairs of uneven length whose losses go up by `shift` a token, on average and in likely replies less."""
    rng = np.random.default_rng(seed)
    changes = []
    for _ in range(sets):
        tokens = rng.geometric(0.05, size=number) + 1
        own = rng.normal(size=number)
        moved = tokens * (shift + 0.3 * shift * own) + 0.4 * np.sqrt(tokens) * rng.standard_t(5, size=number)
        losses = tokens * (4 + 0.6 * own)
        changes.append(perplexity_change((losses, losses + moved), tokens, 0.95))
    return outcome(changes, np.exp(4) * np.expm1(shift), np.expm1(shift))


@pytest.mark.parametrize("shift", [-0.5, 0.0, 0.08, 2.0])
def test_intervals_of_perplexity_hold_the_change_as_often_as_they_should(shift):
    found = perplexity_outcome(shift, 100, 500, 0)
    assert found.given == found.percent_given == 1
    assert 0.92 < found.held < 0.975
    assert 0.92 < found.percent_held < 0.975
