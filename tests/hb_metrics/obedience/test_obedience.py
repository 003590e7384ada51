"""Mean bias values along other replies' directions: loops over replies and over pairs of them, and coverage."""

from typing import NamedTuple

import numpy as np
import pytest

from hb_metrics.measurements.generation.tuned import other_model_notes, read_labels, tuned_rows
from hb_metrics.obedience.errors import RepliesOf
from hb_metrics.obedience.values import (
    OTHER_CLASSIFIER_REASON,
    SINGLE_REPLIES_REASON,
    Directions,
    ValuesAlong,
    less_shared_noise,
    mean_change,
    mean_value,
    obedience,
    over_terms,
    values_along,
)
from hb_metrics.runs.finished_run import Run
from hb_metrics.stats.bias_values import DescriptorKey, RunStyles, bias_values
from tests.hb_metrics.paired_changes.test_gen_bias_covariance import Pair
from tests.hb_metrics.stats.coverage import coverage

NUM_STYLES = 6


def replies_of(rng, sizes):
    """Replies of cells of so many replies ([descriptors, templates]) in random order."""
    rows = [
        (f"d{descriptor}", f"t{template}")
        for descriptor, templates in enumerate(sizes)
        for template, size in enumerate(templates)
        for _ in range(size)
    ]
    order = rng.permutation(len(rows))
    descriptors, templates = zip(*(rows[row] for row in order), strict=True)
    return rng.dirichlet(np.ones(NUM_STYLES), len(rows)), descriptors, templates, ["x"] * len(rows)


def styles_of(replies):
    values = bias_values(*replies)
    return RunStyles(values.descriptors, values.descriptor_means, [f"s{style}" for style in range(NUM_STYLES)])


def by_loop(replies, other):
    """The means of each reply's value along the m_d of others, over replies and then over templates."""
    vectors, descriptors, templates, _ = replies
    own, keys = bias_values(*replies), list(other.descriptors)
    middle = np.mean([own.descriptor_means[row] for row, key in enumerate(own.descriptors) if key in keys], axis=0)
    cells = {}
    for vector, descriptor, template in zip(vectors, descriptors, templates, strict=True):
        key = DescriptorKey("x", descriptor)
        if key in keys:
            way = other.descriptor_means[keys.index(key)] - other.descriptor_means.mean(axis=0)
            cells.setdefault(key, {}).setdefault(template, []).append(float((vector - middle) @ way))
    return {key: np.mean([np.mean(values) for values in of.values()]) for key, of in cells.items()}


def test_values_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    sizes = [[3, 1, 2], [2, 2, 0], [4, 1, 1], [1, 5, 2], [2, 2, 2]]
    replies, other = replies_of(rng, sizes), replies_of(rng, sizes[:4])
    along = values_along(styles_of(replies), styles_of(other))
    assert along.values == pytest.approx(by_loop(replies, styles_of(other)))
    assert along.num_without == 1
    for few in (["a"] * 4, [DescriptorKey("x", "d0"), "a", "b", "c"]):  # the mean over one term is its own
        assert values_along(styles_of(replies), styles_of(other)._replace(descriptors=few)).values == {}


def without_own_products(replies, other=None):
    """Values along the directions of the same replies, or of `other` ones to the same prompts, in loops over pairs.

    The product of two means is the mean over pairs of replies to different prompts. A cell with a single prompt has no
    such pairs: from its product goes what the replies of the template's other cells to one prompt have in common.
    """
    other = replies if other is None else other
    cells = {}
    for row, key in enumerate(zip(*replies[1:3], strict=True)):
        cells.setdefault(key, []).append(row)
    common = {}
    for (_, template), rows in cells.items():
        if len(rows) > 1:
            spread = np.cov(replies[0][rows].T, other[0][rows].T)[:NUM_STYLES, NUM_STYLES:]
            common.setdefault(template, []).append(np.trace(spread))
    names = sorted({name for name, _ in cells})
    templates = {name: [template for of, template in cells if of == name] for name in names}
    products = np.zeros((len(names), len(names)))
    for a, one in enumerate(names):
        for b, two in enumerate(names):
            means = []
            for first in templates[one]:
                for second in templates[two]:
                    rows = [(i, j) for i in cells[one, first] for j in cells[two, second]]
                    apart = [replies[0][i] @ other[0][j] for i, j in rows if i != j]
                    means.append(
                        np.mean(apart)
                        if apart
                        else replies[0][rows[0][0]] @ other[0][rows[0][1]] - np.mean(common[first])
                    )
            products[a, b] = np.mean(means)
    values = np.diag(products) - products.mean(axis=0) - products.mean(axis=1) + products.mean()
    return {DescriptorKey("x", name): value for name, value in zip(names, values, strict=True)}


def own_values(replies):
    means = styles_of(replies)
    return less_shared_noise(values_along(means, means, with_ids(replies)), with_ids(replies))


@pytest.mark.parametrize("sizes", [[[3, 2], [2, 4], [2, 2]], [[3, 1, 2], [2, 2, 0], [4, 1, 2], [1, 5, 2], [2, 2, 2]]])
def test_own_values_are_those_of_pairs_of_different_replies(sizes):
    replies = replies_of(np.random.default_rng(1), sizes)
    own = own_values(replies)
    assert own.values == pytest.approx(without_own_products(replies))
    assert own.num_without == 0


def test_values_along_the_same_prompts_are_those_of_pairs():
    rng = np.random.default_rng(2)
    replies = replies_of(rng, [[3, 1, 2], [2, 2, 2], [4, 1, 3]])
    same = np.where(
        rng.random((len(replies[0]), 1)) < 0.5, replies[0], rng.dirichlet(np.ones(NUM_STYLES), len(replies[0]))
    )
    after = same, *replies[1:]
    along = values_along(styles_of(after), styles_of(replies), with_ids(after))
    along = less_shared_noise(along, with_ids(replies))
    assert along.values == pytest.approx(without_own_products(after, replies))


def with_ids(replies):
    vectors, names, templates, _ = replies
    ids = [str(row) for row in range(len(names))]
    return RepliesOf(vectors, ids, [DescriptorKey("x", name) for name in names], templates)


class Design(NamedTuple):
    """Two models with known means, of which the second shares a part `same` of the first one's replies.

    Attributes:
        effects: How far descriptors differ in either; each template has directions of its own, and some in common.
        same: See above.
        single: The share of cells with a single reply, the same in both runs.
        few: Whether a fifth of the descriptors has nearly all of the effects.
        terms: Descriptors.
        templates: Templates.
        number: Replies a cell.
        own: Whether the directions are those of the first run; else they are given.
    """

    effects: tuple[float, float] = (0.4, 0.25)
    same: float = 0.4
    single: float = 0.0
    few: bool = False
    terms: int = 30
    templates: int = 4
    number: int = 6
    own: bool = True

    def outcome(self, sets, seed=1):
        """The coverage of the mean of the first run, of the second, and of their change."""
        some = np.where(np.arange(self.terms) < self.terms / 5, 2.0, 0.2)[:, None] if self.few else 1.0
        effects = [effect * some for effect in self.effects]
        shape = {"templates": self.templates, "terms": self.terms, "number": self.number}
        pair = Pair(**shape, styles=30, spread=1.2, concentration=2.5, effects=effects, same=self.same, seed=seed)
        shifts = [means.mean(axis=0) - means.mean(axis=(0, 1)) for means in pair.means]
        keys = [DescriptorKey("x", f"d{row:03}") for row in range(self.terms)]
        noisy = shifts[0] + 0.02 * np.random.default_rng(seed).normal(size=shifts[0].shape)
        given = RunStyles(keys, noisy, ["s"] * 30)
        ways = shifts[0] if self.own else noisy - noisy.mean(axis=0)
        truths = [1000 * np.einsum("ds,ds->d", shift, ways).mean() for shift in shifts]
        truths.append(truths[1] - truths[0])
        found = [[], [], []]
        for _ in range(sets):
            styles = pair.replies()
            sizes = np.where(pair.rng.random(styles[0].shape[:2]) < self.single, 1, self.number)
            template, term, reply = np.nonzero(np.arange(self.number) < sizes[..., None])
            names = [keys[row].descriptor for row in term], [f"t{row}" for row in template], ["x"] * len(term)
            runs = [(of_run[template, term, reply], *names) for of_run in styles]
            first, second = (self._along(run, runs[0], given) for run in runs)
            for index, mean in enumerate((mean_value(first), mean_value(second), mean_change(first, second))):
                found[index].append(mean)
        pairs = zip(found, truths, strict=True)
        return [coverage([each.value for each in of], [each.interval for each in of], truth) for of, truth in pairs]

    def _along(self, run, first, given):
        if not self.own:
            return values_along(styles_of(run), given, with_ids(run))
        along = values_along(styles_of(run), styles_of(first), with_ids(run))
        return less_shared_noise(along, along.replies if run is first else with_ids(first))


DESIGNS = {
    "halved": Design(),
    "directions given": Design(own=False),
    "a tenth single": Design(single=0.1),
    "three tenths single": Design(single=0.3),
    "directions given, three tenths single": Design(own=False, single=0.3),
    "no bias": Design(effects=(0.0, 0.0)),
    "no bias, a tenth single": Design(effects=(0.0, 0.0), single=0.1),
    "no bias, three tenths single": Design(effects=(0.0, 0.0), single=0.3),
    "little bias": Design(effects=(0.15, 0.1)),
    "none after": Design(effects=(0.5, 0.0), same=0.0),
    "90 % alike": Design(same=0.9),
    "98 % alike": Design(same=0.98),
    "one template": Design(templates=1, terms=80),
    "three replies a cell": Design(number=3),
    "a fifth has most": Design(few=True),
    "26 templates": Design(templates=26, terms=10, single=0.1),
}


@pytest.mark.parametrize("name", ["halved", "no bias, three tenths single"])
def test_intervals_hold_the_value_and_its_change(name):
    for found in DESIGNS[name].outcome(40):
        assert found.given == 1
        assert found.held > 0.85
        assert found.width < 1.4
        assert found.error < 4


@pytest.mark.long
@pytest.mark.parametrize("name", DESIGNS)
def test_intervals_hold_the_value_in_all_designs(name):
    for found in DESIGNS[name].outcome(300):
        assert found.given > 0.98
        assert 0.915 < found.held < 0.995
        assert found.width < (1.4 if DESIGNS[name].number == 3 else 1.25)
        assert found.error < 4


def test_a_change_is_over_the_terms_of_both_runs():
    """Terms of a single run move its m̄, but not the other run's."""
    rng = np.random.default_rng(3)
    sizes = [[3, 2, 2], [2, 4, 2], [2, 2, 3], [5, 2, 2], [2, 2, 2]]
    first, directions = replies_of(rng, sizes), styles_of(replies_of(rng, sizes))
    kept = [row for row, name in enumerate(first[1]) if name in ("d0", "d2", "d3")]
    same = first[0][kept], *([column[row] for row in kept] for column in first[1:])
    other = rng.dirichlet(np.ones(NUM_STYLES), len(kept)), *same[1:]
    before = values_along(styles_of(first), directions)
    for after in (same, other):
        expected = [1000 * np.mean(list(by_loop(run, directions).values())) for run in (same, after)]
        change = mean_change(before, values_along(styles_of(after), directions))
        assert change.value == pytest.approx(expected[1] - expected[0], abs=1e-9)
        assert change.num_descriptors == 3
    own = over_terms(own_values(first), without_own_products(same))
    assert mean_value(own).value == pytest.approx(1000 * np.mean(list(without_own_products(same).values())))


def test_single_replies_alone_have_no_values(monkeypatch):
    """As nothing shows what chance makes replies and directions share; along directions of others there are values."""
    rng = np.random.default_rng(8)
    replies = replies_of(rng, np.full((12, 2), 1))
    means = styles_of(replies)
    along = values_along(means, means, with_ids(replies))
    other = values_along(means, styles_of(replies_of(rng, np.full((12, 2), 3))), with_ids(replies))
    for is_own in (True, False):
        runs = [Run("0", {"run": {}}), Run("1", {"run": {}})]
        values = [along._replace(is_own=is_own), other if not is_own else along]
        monkeypatch.setattr("hb_metrics.obedience.values.run_values_along", lambda run, _: values[int(run.folder)])  # noqa: B023
        rows = obedience(runs, Directions(None, None))
        assert [row.reason for row in rows] == [SINGLE_REPLIES_REASON if is_own else None] * 2
        assert [row.mean is None for row in rows] == [is_own] * 2


def test_single_or_missing_replies_have_no_interval():
    rng = np.random.default_rng(6)
    single = replies_of(rng, np.full((12, 2), 1))
    mean = mean_value(
        values_along(styles_of(single), styles_of(replies_of(rng, np.full((12, 2), 3))), with_ids(single))
    )
    assert mean.interval is None
    assert np.isfinite(mean.value)
    several = styles_of(replies_of(rng, np.full((12, 2), 3)))
    assert mean_value(values_along(several, several)).interval is None


def along_with(values):
    """Terms with these values, known to about 0.002 on average over 40."""
    keys = [DescriptorKey("x", f"d{term}") for term in values]
    styles = np.tile([[0.0], [0.0128], [0.0], [0.0128]], (len(keys), 1))
    repeated = [key for key in keys for _ in range(4)]
    replies = RepliesOf(styles, [str(row) for row in range(len(styles))], repeated, ["t"] * len(styles))
    ways = np.where(np.arange(len(keys)) % 2, 1.0, -1.0)[:, None]
    shifts = ways * np.array(list(values.values()))[:, None]
    return ValuesAlong(dict(zip(keys, values.values(), strict=True)), 0, False, shifts, ways, replies)


def runs_with(monkeypatch, *values, digests=None):
    """Runs whose terms have these mean bias values: a mapping of numbers for each."""
    runs = []
    for number in range(len(values)):
        record = {"style_classifier": {"digest": (digests or "aaaaaa")[number]}, "settings": {"confidence_level": 0.95}}
        runs.append(Run(str(number), {"run": record}))
    along = [along_with(of) for of in values]
    monkeypatch.setattr("hb_metrics.obedience.values.run_values_along", lambda run, _: along[int(run.folder)])
    monkeypatch.setattr("hb_metrics.measurements.generation.tuned.read_directions", lambda _: None)
    return runs


def test_percent_are_of_the_same_terms_and_a_clear_first(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    in_twos = (0.004 + 0.001 * rng.random(20)).repeat(2)  # so that m̄ is the same without some of them
    first = dict(enumerate(in_twos))
    half = {term: value / 2 for term, value in first.items() if term < 20}
    first |= {term: 10 * value for term, value in first.items() if term >= 20}
    around_0 = dict(enumerate(rng.normal(1e-4, 3e-3, 40)))
    rows = tuned_rows(runs_with(monkeypatch, first, half), ["before", "after"], tmp_path, None)
    assert rows[1].relative == pytest.approx(-0.5)
    rows = tuned_rows(runs_with(monkeypatch, around_0, half), ["before", "after"], tmp_path, None)
    assert rows[1].obeys.change is not None
    assert rows[1].relative is None
    assert tuned_rows(runs_with(monkeypatch, first), ["before"], tmp_path, None)[0].relative is None


def test_runs_of_other_terms_or_classifiers_have_no_change(monkeypatch):
    values = [{0: 0.1, 1: 0.2}, {2: 0.1}, {0: 0.1, 1: 0.1}]
    rows = obedience(runs_with(monkeypatch, *values, digests="aab"), Directions(None, None))
    assert rows[1].mean.value == pytest.approx(100)
    assert rows[1].change is None
    assert rows[2].along is None
    assert rows[2].reason == OTHER_CLASSIFIER_REASON


@pytest.mark.parametrize("content", [None, "[]", "5"])
def test_a_folder_that_is_none_of_labels_is_named(content, tmp_path):
    if content is not None:
        (tmp_path / "labels.json").write_text(content)
    for read in (read_labels, lambda folder: other_model_notes(folder, [])):
        with pytest.raises(ValueError, match=r"labels\.json"):
            read(tmp_path)
