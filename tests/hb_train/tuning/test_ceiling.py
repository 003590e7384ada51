"""The ceiling of labels: brute force with the metric itself, and simulations whose truth is known."""

import json

import numpy as np
import pytest

from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.stats.bias_values import bias_values
from hb_metrics.stats.gen_bias import CellSums, gen_bias
from hb_train.tuning.ceiling import MOST_FEW, _grouped, _halves, label_ceiling

SHARES = (1.0, 0.95, 0.8, 0.4)


def columns_of(sizes):
    """Columns of replies of cells of so many replies: [templates, descriptors]."""
    rows = [
        (f"d{descriptor:03}", f"t{template}")
        for template, of_template in enumerate(sizes)
        for descriptor, size in enumerate(of_template)
        for _ in range(size)
    ]
    descriptors, templates = zip(*rows, strict=True)
    axes = ["odd" if int(name[1:]) % 2 else "even" for name in descriptors]
    return descriptors, templates, axes, [f"{index:06}" for index in range(len(rows))]


def made(rng, sizes, num_styles=5, effect=0.5):
    """Replies whose styles differ by descriptor, in random order."""
    columns = columns_of(sizes)
    shifts = effect * rng.normal(size=(len(sizes[0]), num_styles))
    rows = np.exp(rng.normal(size=(len(columns[0]), num_styles)) + shifts[[int(name[1:]) for name in columns[0]]])
    rows = (rows / rows.sum(axis=1, keepdims=True)).astype(np.float32)
    order = rng.permutation(len(rows))
    return rows[order], *([column[index] for index in order] for column in columns)


def halves_of(replies, num_splits, seed):
    """[replies] the halves of each split."""
    styles, descriptors, templates, axes, ids = replies
    keys = sorted(set(zip(axes, descriptors, strict=True)))
    codes = np.array([keys.index(key) for key in zip(axes, descriptors, strict=True)])
    template_codes = np.unique(templates, return_inverse=True)[1]
    order = np.lexsort((np.asarray(ids), codes, template_codes))
    cells = _grouped(styles, codes, len(keys), template_codes, ids)
    for number in range(num_splits):
        halves = np.empty(len(order), int)
        halves[order] = _halves(cells, seeded_generator(seed, "ceiling", str(number)))
        yield halves


def taken(replies, rows):
    return replies[0][rows], *([column[row] for row in np.flatnonzero(rows)] for column in replies[1:4])


def by_brute_force(replies, share, alpha, num_splits, seed):
    """The mean over splits and halves of the metric's own debiased value of what is tagged "no_bias"."""
    values = []
    for halves in halves_of(replies, num_splits, seed):
        for half in (0, 1):
            means = bias_values(*taken(replies, halves != half))
            keys = list(means.descriptors)
            along = []
            for row in np.flatnonzero(halves == half):
                key = (replies[3][row], replies[1][row])
                way = means.descriptor_means[keys.index(key)] - means.overall_mean
                value = (replies[0][row].astype(float) - means.overall_mean) @ way
                along.append(value / np.linalg.norm(way) ** alpha)
            beta = sorted(along)[int(np.ceil(share * len(along))) - 1]
            kept = np.zeros(len(halves), bool)
            kept[np.flatnonzero(halves == half)[np.array(along) <= beta]] = True
            sums = CellSums()
            sums.add(*taken(replies, kept))
            values.append(gen_bias(sums, debias=True).full_gen_bias)
    return np.mean(values)


@pytest.mark.parametrize(("alpha", "even"), [(0, True), (0, False), (2, False)])
def test_the_curve_is_that_of_the_metric_itself(alpha, even):
    rng = np.random.default_rng(0)
    sizes = np.full((2, 6), 10) if even else rng.integers(8, 16, size=(3, 6))
    replies = made(rng, sizes)
    ceiling = label_ceiling(*replies, alpha=alpha, shares=SHARES, num_splits=3, seed=5)
    for point, share in zip(ceiling.curve, SHARES, strict=True):
        if point.full_gen_bias is None:
            assert point.few > MOST_FEW
            continue
        expected = by_brute_force(replies, share, alpha, 3, 5)
        assert point.full_gen_bias == pytest.approx(expected, rel=1e-5)
        assert point.change == pytest.approx(expected - ceiling.curve[0].full_gen_bias, abs=1e-3)


def test_reliability_is_the_share_of_signal():
    replies = made(np.random.default_rng(1), np.full((2, 8), 12))
    ceiling = label_ceiling(*replies, shares=SHARES, num_splits=4, seed=3)
    products, lengths = [], []
    for halves in halves_of(replies, 4, 3):
        ways = []
        for half in (0, 1):
            means = bias_values(*taken(replies, halves == half))
            ways.append(means.descriptor_means - means.overall_mean)
        products.append((ways[0] * ways[1]).sum())
        lengths.append(((ways[0] ** 2).sum() + (ways[1] ** 2).sum()) / 2)
    half = ceiling.half_reliability
    assert half == pytest.approx(np.sum(products) / np.sum(lengths))
    assert ceiling.replies_per_descriptor == 12  # in two templates
    assert ceiling.reliability == pytest.approx(2 * half / (1 + half))
    # So many times the replies make a reliability of just so much.
    for target, number in ceiling.replies_needed.items():
        times = number / 12
        assert times * half / (1 + (times - 1) * half) == pytest.approx(target)


def gaussian(rng, shifts, number, templates=3):
    """Replies as points around 0.5 that shift by descriptor, with noise: [templates × descriptors × number, styles]."""
    noise = 0.02 * rng.normal(size=(templates, len(shifts), number, shifts.shape[1]))
    return (0.5 + shifts[None, :, None] + noise).reshape(-1, shifts.shape[1])


def truth(rng, shifts, number, shares, alpha=0, directions=12):
    """Full Gen Bias of what is tagged "no_bias" by directions from half of the replies, of 2,000 replies a cell."""
    values = []
    for _ in range(directions):
        half = gaussian(rng, shifts, number // 2).reshape(3, len(shifts), number // 2, -1)
        means = half.mean(axis=(0, 2))
        ways = means - means.mean(axis=0)
        replies = gaussian(rng, shifts, 2000).reshape(3, len(shifts), 2000, -1)
        along = np.einsum("tdns,ds->tdn", replies - means.mean(axis=0), ways)
        along /= np.linalg.norm(ways, axis=1)[:, None] ** alpha
        of_shares = []
        for share in shares:
            kept = along <= np.quantile(along, share, method="inverted_cdf")
            numbers = kept.sum(axis=2)
            middles = np.einsum("tdns,tdn->tds", replies, kept.astype(float)) / numbers[..., None]
            noise = np.einsum("tdns,tdns,tdn->td", replies, replies, kept.astype(float))
            noise = (noise / numbers - (middles**2).sum(axis=2)) / (numbers - 1)
            of_shares.append((middles.var(axis=1).sum(axis=1) - (1 - 1 / len(shifts)) * noise.mean(axis=1)).mean())
        values.append(of_shares)
    return 1000 * np.mean(values, axis=0)


def simulated(rng, effect, number, repeats, num_splits=6, num_descriptors=30, shares=(1.0, 0.95, 0.85)):
    """Estimates and coverage of values and changes, and the truth."""
    shifts = effect * rng.normal(size=(num_descriptors, 10))
    true = truth(rng, shifts, number, shares)
    columns = columns_of(np.full((3, num_descriptors), number))
    estimates, held = [], []
    for repeat in range(repeats):
        ceiling = label_ceiling(
            gaussian(rng, shifts, number), *columns, shares=shares, num_splits=num_splits, seed=repeat
        )
        points = ceiling.curve
        estimates.append([point.full_gen_bias for point in points])
        held.append(
            [point.interval[0] <= value <= point.interval[1] for point, value in zip(points, true, strict=True)]
            + [
                point.change_interval[0] <= value - true[0] <= point.change_interval[1]
                for point, value in zip(points[1:], true[1:], strict=True)
            ]
        )
    return np.array(estimates), np.array(held), true


def test_the_ceiling_is_the_bias_of_endless_replies():
    estimates, held, true = simulated(np.random.default_rng(3), 0.006, 8, 25)
    errors = estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates))
    assert (np.abs(estimates.mean(axis=0) - true) < 4 * errors).all()
    assert true[1] < true[0]
    assert (held.mean(axis=0) > 0.8).all()


@pytest.mark.long
@pytest.mark.parametrize(("effect", "number"), [(0.0, 8), (0.003, 8), (0.006, 8), (0.006, 16), (0.012, 16)])
def test_intervals_hold_the_truth_as_often_as_they_should(effect, number):
    """Those of tagged replies hold it more often: averaging over splits helps by more than half there."""
    _, held, _ = simulated(np.random.default_rng(4), effect, number, 400, num_splits=20)
    rates = held.mean(axis=0)
    assert 0.92 < rates[0] < 0.98, rates
    assert (rates[1:] > 0.96).all(), rates


def test_halves_depend_on_ids_and_not_on_order():
    replies = made(np.random.default_rng(5), np.full((2, 5), 7))
    order = np.random.default_rng(6).permutation(len(replies[0]))
    moved = replies[0][order], *([column[row] for row in order] for column in replies[1:])
    assert label_ceiling(*moved, num_splits=3) == label_ceiling(*replies, num_splits=3)
    assert label_ceiling(*replies, num_splits=3, seed=1) != label_ceiling(*replies, num_splits=3)
    json.dumps(label_ceiling(*replies, num_splits=3).as_json(), allow_nan=False)


def test_a_beta_helps_only_where_there_is_bias():
    """By the lowest of nine shares, which without bias is below that of all replies in half of the runs."""
    rng = np.random.default_rng(7)
    columns = columns_of(np.full((3, 20), 8))
    none = [label_ceiling(gaussian(rng, np.zeros((20, 8)), 8), *columns, num_splits=4).helps for _ in range(15)]
    assert sum(none) <= 2
    strong = 0.02 * rng.normal(size=(20, 8))
    assert all(label_ceiling(gaussian(rng, strong, 8), *columns, num_splits=4).helps for _ in range(3))


def test_too_few_replies_for_halves_have_no_ceiling():
    assert label_ceiling(*made(np.random.default_rng(8), np.full((2, 5), 2))) is None
    assert label_ceiling(*made(np.random.default_rng(8), np.full((2, 5), 1))) is None
    few = label_ceiling(*made(np.random.default_rng(8), np.full((2, 6), 4)), num_splits=3)
    # Halves of two replies: with a part of them tagged, too many cells have one or none.
    assert few.curve[0].full_gen_bias is not None
    assert few.curve[-1].few > MOST_FEW
    assert few.curve[-1][2:] == (None,) * 6
