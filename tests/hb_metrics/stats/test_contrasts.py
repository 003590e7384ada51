"""Attitude contrasts: a closed-form model, simulated runs with known truth, and runs that lack something."""

import tracemalloc
from dataclasses import asdict
from itertools import product

import numpy as np
import pytest
from scipy import stats

from hb_metrics.run.typed_json import from_json
from hb_metrics.stats.contrasts import NONCE_AXIS, Contrasts, contrasts, spread_without_nouns
from hb_metrics.stats.likelihood_tables import likelihood_table, term_share
from tests.hb_metrics.stats.contrast_designs import DESIGNS, Design, axes_of, draw_effects, draw_table, pairs_of

LOVE, HATE = "I love {}.", "I hate {}."
TERMS, NOUNS = [f"term {number}" for number in range(9)], [f"noun {number}" for number in range(10)]


def bigram_table(frequencies, attitudes):
    """The log-likelihoods of sentences in a bigram model: p(verb | I) p(term | verb) p(noun | term)."""
    after = {LOVE: frequencies * np.exp(attitudes), HATE: frequencies * np.exp(-attitudes)}
    of_verb, of_noun = {LOVE: 0.3, HATE: 0.1}, np.random.default_rng(0).dirichlet(np.ones(len(NOUNS)))
    rows = [
        (np.log(of_verb[verb] * after[verb][term] / after[verb].sum() * of_noun[noun]), TERMS[term], NOUNS[noun], verb)
        for verb, term, noun in product(after, range(len(TERMS)), range(len(NOUNS)))
    ]
    values, terms, nouns, verbs = zip(*rows, strict=True)
    return likelihood_table(np.array(values), ["age"] * len(rows), terms, nouns, verbs)


def test_frequencies_have_no_contrast_and_attitudes_have_no_share():
    frequencies, attitudes = np.geomspace(1, 1e-4, len(TERMS)), np.linspace(-1, 1, len(TERMS))

    frequent = bigram_table(frequencies, np.zeros(len(TERMS)))
    assert term_share(frequent).whole.value == pytest.approx(1)
    assert contrasts(frequent, [(LOVE, HATE)]).spread.value == pytest.approx(0, abs=1e-7)
    liked = bigram_table(np.ones(len(TERMS)), attitudes)
    assert term_share(liked).whole.value == pytest.approx(0)
    found = contrasts(liked, [(LOVE, HATE)])
    assert found.spread.value == pytest.approx(np.std(2 * attitudes, ddof=1))
    assert [term.contrast.value for term in found.terms] == pytest.approx(2 * attitudes)
    both = contrasts(bigram_table(frequencies, attitudes), [(LOVE, HATE)])
    assert [term.contrast.value for term in both.terms] == pytest.approx(2 * attitudes)
    assert both.spread.interval is None  # all nouns show the same


def coverage(design, sets, seed=0):
    """The share of intervals that contain the truth, and of runs without differences in which a term is outside."""
    rng, axes, pairs = np.random.default_rng(seed), axes_of(design), pairs_of(design)
    groups = [np.flatnonzero(axes == axis) for axis in dict.fromkeys(axes)]
    held = {name: [] for name in ("share", "spread", "axis", "term", "agreement", "ratio", "outside", "change")}

    def add(name, estimate, truth):
        if estimate.interval is not None:
            held[name].append(estimate.interval[0] - 1e-9 <= truth <= estimate.interval[1] + 1e-9)

    for _ in range(sets):
        effects = draw_effects(design, rng)
        contrast = effects.attitude + effects.of_pairs
        table = draw_table(design, effects, rng)
        means = np.concatenate([effects.frequency + contrast / 2, effects.frequency - contrast / 2])
        common, single = (
            sum(row[of].var(ddof=1) for row in rows for of in groups) for rows in ([means.mean(0)], means)
        )
        add("share", term_share(table).whole, common * len(means) / single)
        found = contrasts(table, pairs)
        variances = [contrast.mean(axis=0)[of].var(ddof=1) for of in groups[:-1]]
        add("spread", found.spread, np.sqrt(np.mean(variances)))
        add("axis", found.by_axis["axis 0"].spread, np.sqrt(variances[0]))
        # The table's pairs are draws from all pairs if there are several, and the only one otherwise.
        truth = effects.attitude if design.pairs > 1 else contrast[0]
        for term in range(0, len(axes), 5):
            add("term", found.terms[term].contrast, truth[term] - truth[groups[-1]].mean())
        if found.by_axis["axis 0"].ratio.interval is not None:
            add("ratio", found.by_axis["axis 0"].ratio, 1.0)
        signal = design.attitude**2 + design.by_noun**2 / design.nouns
        rest = design.disagreement**2 + design.cells**2 / design.nouns
        add("agreement", found.agreement, signal / (signal + rest))
        held["outside"].append(
            min((term.adjusted_p for term in found.terms if term.adjusted_p is not None), default=1) < 0.05
        )
    return {name: float(np.mean(values)) for name, values in held.items() if values}


@pytest.mark.parametrize(
    ("name", "sets"),
    [("one pair", 10), ("gendered terms, few nouns", 10)]
    + [pytest.param(name, 400, marks=pytest.mark.long) for name in DESIGNS],
)
def test_intervals_hold_the_truth(name, sets):
    """Only 400 sets show a deviation of two points."""
    found = coverage(DESIGNS[name], sets)
    assert found.pop("outside") <= (0.075 if sets == 400 else 0.25)
    assert found["term"] > 0.85
    assert min(found.values()) >= (0.9 if sets == 400 else 0.7)


def without(table, hidden):
    values = table.values.copy()
    values[hidden] = np.nan
    return table._replace(values=values)


DESIGN = Design(sizes=(6, 6), nouns=9, pairs=2)
RUN = draw_table(DESIGN, draw_effects(DESIGN, np.random.default_rng(1)), np.random.default_rng(2))
NONCE = RUN.axes == NONCE_AXIS


@pytest.mark.parametrize(
    ("table", "reasons"),
    [
        (RUN._replace(values=RUN.values[:, :1]), {"spread": "two nouns", "agreement": "two nouns"}),
        (RUN._replace(values=RUN.values[:, :5]), {"spread": "fewer than 8 nouns"}),
        (without(RUN, np.s_[:, 2:6, :9]), {"spread": "fewer than 8 nouns"}),
        (RUN._replace(values=RUN.values[:2], templates=RUN.templates[:2]), {"agreement": "only one pair"}),
        (RUN._replace(values=RUN.values[..., :1], axes=RUN.axes[:1], terms=RUN.terms[:1]), {"spread": "two terms"}),
        (RUN, {"agreement": "fewer than 17 terms"}),
        (
            RUN._replace(values=np.ones(RUN.values.shape)),
            {"spread": "same for all nouns", "agreement": "do not differ"},
        ),
        (without(RUN, np.s_[:, ::2, :3]), {}),
        (without(RUN, np.s_[0, :, :]), {"spread": "two nouns"}),
    ],
    ids=[
        "one noun",
        "few nouns",
        "few nouns of most terms",
        "one pair",
        "one term",
        "few terms",
        "equal",
        "missing nouns",
        "missing template",
    ],
)
def test_a_run_that_lacks_something_states_why(table, reasons):
    found = contrasts(table, pairs_of(DESIGN))
    for name, reason in reasons.items():
        estimate = getattr(found, name)
        assert estimate.interval is None
        assert reason in estimate.reason
    assert from_json(Contrasts, asdict(found)) == found
    assert all(np.isfinite(term.contrast.value) for term in found.terms)
    assert len(found.terms) + found.num_left_out == len(table.terms)
    assert not found.agree


def test_of_one_pair_the_intervals_of_terms_are_t_intervals_over_nouns():
    one = RUN._replace(values=RUN.values[:2], templates=RUN.templates[:2])
    differences = one.values[0] - one.values[1]
    differences -= differences[:, NONCE].mean(axis=1, keepdims=True)
    for term, of_nouns in zip(contrasts(one, pairs_of(DESIGN)).terms, differences.T, strict=True):
        expected = stats.ttest_1samp(of_nouns, 0).confidence_interval()
        assert term.contrast.interval == pytest.approx(tuple(expected))


@pytest.mark.parametrize("seed", [0, 14])
def test_terms_are_compared_with_nonce_words_by_the_freedom_of_their_kurtosis(seed):
    """A variance of n terms has the variance σ⁴ (2 / (n − 1) + κ / n), where κ counts as 0 if it is negative."""
    design = Design(sizes=(4, 6), nouns=9, pairs=2)
    table = draw_table(design, draw_effects(design, np.random.default_rng(seed)), np.random.default_rng(9))
    found = contrasts(table, pairs_of(design))
    values = np.array([term.contrast.value for term in found.terms])
    own, *_, nonce = groups = [values[table.axes == axis] for axis in ("axis 0", "axis 1", NONCE_AXIS)]
    squares = sum(stats.kstat(of, 2) ** 2 - stats.kstatvar(of, 2) for of in groups)  # of σ², unbiased
    excess = sum(stats.kstat(of, 4) for of in groups) / squares
    assert (excess > 0) == (seed > 0)
    excess = max(excess, 0.0)
    freedoms = [2 / (2 / (len(of) - 1) + excess / len(of)) for of in (own, nonce)]
    ratios = np.sqrt(own.var(ddof=1) / nonce.var(ddof=1) / stats.f.ppf([0.975, 0.025], *freedoms))
    assert found.by_axis["axis 0"].ratio.interval == pytest.approx(tuple(ratios))
    freedom = 1 / (1 / (len(nonce) - 1) + (excess and 2 / (4 + 6 / excess)))  # t with 4 + 6 / κ has the kurtosis κ
    error = nonce.std(ddof=1) * np.sqrt(1 + 1 / len(nonce))
    assert found.nonce_range[1] == pytest.approx(stats.t.ppf(0.975, freedom) * error)
    p_values = 2 * stats.t.sf(np.abs(values[table.axes != NONCE_AXIS]) / error, freedom)
    adjusted = [term.adjusted_p for term in found.terms if term.axis != NONCE_AXIS]
    assert adjusted == pytest.approx(stats.false_discovery_control(p_values))


def test_without_pairs_or_nonce_words_nothing_is_made_up():
    assert contrasts(RUN, [("another", "template")]) is None
    kept = RUN._replace(values=RUN.values[..., ~NONCE], axes=RUN.axes[~NONCE], terms=RUN.terms[~NONCE])
    found = contrasts(kept, pairs_of(DESIGN))
    assert found.nonce_range is None
    assert {of_axis.ratio for of_axis in found.by_axis.values()} == {None}
    assert {term.adjusted_p for term in found.terms} == {None}
    assert np.mean([term.contrast.value for term in found.terms]) == pytest.approx(0)


def test_terms_with_other_nouns_are_compared_as_if_they_had_the_same():
    exact = Design(sizes=(6,), nouns=12, pairs=1, by_noun=0, cells=0)
    effects = draw_effects(exact, np.random.default_rng(3))
    table = draw_table(exact, effects, np.random.default_rng(4))
    halves = without(without(table, np.s_[:, :4, 0]), np.s_[:, 8:, 1])
    values = [[term.contrast.value for term in contrasts(of, pairs_of(exact)).terms] for of in (table, halves)]
    assert values[1] == pytest.approx(values[0])
    apart = without(without(table, np.s_[:, :6, :3]), np.s_[:, 6:, 3:])  # no noun in common
    assert contrasts(apart, pairs_of(exact)).num_left_out == 3


def test_a_spread_without_a_noun_is_that_of_the_others():
    rows, group = RUN.values[0] - RUN.values[1], [np.arange(6)]
    value, without_each = spread_without_nouns(rows, group)
    assert value > 0
    for noun in range(len(rows)):
        assert without_each[noun] == pytest.approx(spread_without_nouns(np.delete(rows, noun, axis=0), group)[0])


def test_a_long_template_takes_no_memory_in_each_row():
    templates = ["I love them.", "x" * 1_000_000] * 1000
    tracemalloc.start()
    table = likelihood_table(np.zeros(2000), ["age"] * 2000, ["old"] * 2000, ["man"] * 2000, templates)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.values.shape == (2, 1, 1)
    assert peak < 50e6
