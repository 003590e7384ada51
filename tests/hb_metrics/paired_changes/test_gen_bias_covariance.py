"""The covariance of two runs' debiased Gen Bias: against loops and against replies drawn again and again."""

from itertools import permutations

import numpy as np
import pytest

from hb_metrics.paired_changes.gen_bias_covariance import PairedCell, gen_bias_covariances
from hb_metrics.paired_changes.paired_change import change_from_intervals
from hb_metrics.statistics.gen_bias import CellSums, gen_bias

COLUMNS = {"pair": [0, 1], "one": [2]}


def dirichlet(rng, means, concentration):
    drawn = rng.standard_gamma(means * concentration) + 1e-300
    return drawn / drawn.sum(axis=-1, keepdims=True)


def softmax(logits):
    powers = np.exp(logits)
    return powers / powers.sum(axis=-1, keepdims=True)


class Pair:
    """Two models with known means, whose replies to one prompt share what the prompt brings and a part of chance."""

    def __init__(
        self,
        *,
        templates,
        terms,
        styles,
        effects,
        same=0.0,
        prompt=0.0,
        number=8,
        spread=0.7,
        concentration=5.0,
        seed=0,
    ):
        self.rng = np.random.default_rng(seed)
        base = spread * self.rng.normal(size=(templates, 1, styles))
        shift = self.rng.normal(size=(templates, terms, styles))
        self.logits = [base + effect * shift for effect in effects]
        self.prompts = prompt * self.rng.normal(size=(200, styles))
        self.same, self.number, self.concentration = same, number, concentration
        means = [softmax(logits[..., None, :] + self.prompts).mean(axis=-2) for logits in self.logits]
        means[1] = same * means[0] + (1 - same) * means[1]  # as many replies of the second are the first's
        self.means = means
        self.truth = [1000 * of_run.var(axis=1).sum(axis=-1).mean() for of_run in means]

    def replies(self):
        """Two [templates, terms, replies, styles]; a share `same` of the second's are the first's replies."""
        shape = (*self.logits[0].shape[:2], self.number)
        prompts = self.prompts[self.rng.integers(len(self.prompts), size=shape)]
        means = [softmax(logits[..., None, :] + prompts) for logits in self.logits]
        first, second = (dirichlet(self.rng, of_run, self.concentration) for of_run in means)
        return first, np.where(self.rng.random((*shape, 1)) < self.same, first, second)


def templates_of(first, second, axes=None):
    paired = np.stack([np.arange(first.shape[2])] * 2)
    for of_first, of_second in zip(first, second, strict=True):
        cells = [PairedCell(a, b, paired) for a, b in zip(of_first, of_second, strict=True)]
        yield {None: cells} if axes is None else {"x": cells[:axes], "y": cells[axes:]}


def measured(replies):
    cells = CellSums(keep_replies=True)
    template, term, _ = (codes.ravel() for codes in np.indices(replies.shape[:3]))
    rows = replies.reshape(-1, replies.shape[-1])
    cells.add(rows, [f"d{code:03}" for code in term], [f"t{code:03}" for code in template])
    result = gen_bias(cells, confidence_level=0.95)
    return result.full_gen_bias - result.noise_floor, result.intervals["full_gen_bias"]


def scaled(covariance):
    return type(covariance)(covariance.value * 1e6, covariance.variance * 1e12)


def by_loops(cells):
    """The covariance of one template as its definition has it, over all choices of four prompts."""
    number = len(cells)
    means = np.array([[rows.mean(axis=0) for rows in cell[:2]] for cell in cells])
    total, matrices = 0.0, []
    for row, cell in enumerate(cells):
        x, y = cell.first[cell.shared[0]], cell.second[cell.shared[1]]
        count, sizes = len(x), (len(cell.first), len(cell.second))
        if count < 4:  # too few for the averages: as if none were shared
            continue
        matrices.append(count / np.prod(sizes) * np.cov(x.T, y.T)[: x.shape[1], x.shape[1] :])
        c, d = (means[np.arange(number) != row, run].mean(axis=0) for run in (0, 1))
        linear, square = [], []
        for i, j, k, m in permutations(range(count), 4):
            linear.append((x[k] - c) @ (x[i] - x[j]) / 2 * ((y[i] - y[j]) @ (y[m] - d)))
            square.append((x[i] - x[j]) @ (x[k] - x[m]) / 2 * ((y[i] - y[j]) @ (y[k] - y[m])) / 2)
        both = count * (count - 1) / np.prod(sizes) / np.prod(np.subtract(sizes, 1))
        total += (1 - 1 / number) ** 2 * (4 * count / np.prod(sizes) * np.mean(linear) + 2 * both * np.mean(square))
    total -= 2 / number**2 * sum(np.sum(one * other) for one, other in permutations(matrices, 2))
    return total / number**2


def test_it_is_that_of_loops_whatever_replies_are_shared():
    rng = np.random.default_rng(3)
    templates = []
    for _ in range(3):
        cells = []
        for _ in range(5):
            first, second = (rng.dirichlet(np.ones(4), rng.integers(5, 9)) for _ in range(2))
            number = rng.integers(3, 6)
            shared = np.stack([rng.permutation(len(rows))[:number] for rows in (first, second)])
            second[shared[1]] = 0.5 * (second[shared[1]] + first[shared[0]])
            cells.append(PairedCell(first, second, shared))
        templates.append({"x": cells[:2], "y": cells[2:]})

    covariances = gen_bias_covariances(templates, COLUMNS)

    def chosen(cells, styles, summed):
        rows = [(cell.first[:, styles], cell.second[:, styles], cell.shared) for cell in cells]
        if summed:
            rows = [(a.sum(axis=1, keepdims=True), b.sum(axis=1, keepdims=True), shared) for a, b, shared in rows]
        return [PairedCell(*row) for row in rows]

    metrics = [([0, 1, 2, 3], False), ([0, 1], False), ([2], False), ([0, 1], True), ([2], True)]
    for axis in (None, "x", "y"):
        for covariance, metric in zip(covariances[axis], metrics, strict=True):
            groups = [of["x"] + of["y"] if axis is None else of[axis] for of in templates]
            expected = sum(by_loops(chosen(cells, *metric)) for cells in groups) / 9
            assert covariance.value == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_nothing_is_shared_by_runs_of_other_prompts():
    none = np.zeros((2, 0), dtype=int)
    cells = [PairedCell(*np.random.default_rng(0).dirichlet(np.ones(3), (2, 6)), none) for _ in range(4)]
    assert [tuple(value) for value in gen_bias_covariances([{None: cells}], {})[None]] == [(0, 0)]


@pytest.mark.parametrize(
    "replies", [{"prompt": 0.3}, {"concentration": 0.5, "spread": 1.5}], ids=["even", "of one style each"]
)
def test_it_is_the_covariance_of_values_drawn_again(replies):
    pair = Pair(templates=3, terms=10, styles=6, effects=(0.5, 0.4), same=0.6, number=6, **replies)
    values, estimates = [], []
    for _ in range(300):
        first, second = pair.replies()
        values.append([debiased(first), debiased(second)])
        estimates.append(gen_bias_covariances(templates_of(first, second), {})[None][0].value * 1e6)
    values = np.array(values)
    products = np.prod(values - values.mean(axis=0), axis=1)
    error = (products - estimates).std() / np.sqrt(len(products))
    assert abs(np.mean(estimates) - products.mean()) < 3.5 * error
    assert np.mean(estimates) > 4 * error  # a test that can fail


def debiased(replies):
    """The debiased value ×1000 of [templates, terms, replies, styles]."""
    means, noise = replies.mean(axis=2), replies.var(axis=2, ddof=1) / replies.shape[2]
    number = replies.shape[1]
    value = means.var(axis=1) - (1 - 1 / number) * noise.mean(axis=1)
    return 1000 * float(value.sum(axis=-1).mean())


DESIGNS = {
    "no change": {"effects": (0.4, 0.4), "same": 0.0},
    "no bias": {"effects": (0.0, 0.0), "same": 0.5},
    "no bias after": {"effects": (0.5, 0.0), "prompt": 0.5},
    "halved, half of the replies alike": {"effects": (0.5, 0.3), "same": 0.5},
    "replies depend on the prompt": {"effects": (0.4, 0.4), "prompt": 1.0},
    "26 templates": {"effects": (0.5, 0.3), "templates": 26, "terms": 8},
}


def outcomes(name, sets, seed):
    """Shares of sets whose interval holds the change, whose interval of the change in percent does, and not 0."""
    design = {"templates": 4, "terms": 16, "styles": 8, **DESIGNS[name]}
    pair = Pair(**design, seed=seed)
    held, relative, beyond = [], [], []
    for _ in range(sets):
        first, second = pair.replies()
        (before, bounds), (after, other) = measured(first), measured(second)
        if bounds is None or other is None:
            continue
        covariance = scaled(gen_bias_covariances(templates_of(first, second), {})[None][0])
        change = change_from_intervals(before, after, (tuple(bounds), tuple(other)), covariance, 0.95)
        held.append(change.interval[0] <= pair.truth[1] - pair.truth[0] <= change.interval[1])
        beyond.append(change.beyond_chance)
        if change.relative_interval is not None and pair.truth[0] > 1e-9:
            low, high = change.relative_interval
            relative.append(low <= pair.truth[1] / pair.truth[0] - 1 <= high)
            # A change in percent is beyond chance exactly if the change is.
            assert change.beyond_chance == (not low <= 0 <= high)
    assert len(held) > 0.8 * sets
    return np.mean(held), np.mean(relative) if relative else None, np.mean(beyond)


@pytest.mark.parametrize("name", ["no bias after", "replies depend on the prompt"])
def test_intervals_hold_the_change_about_as_often_as_they_should(name):
    held, relative, _ = outcomes(name, 40, 1)
    assert held > 0.85
    assert relative > 0.85


@pytest.mark.long
@pytest.mark.parametrize("name", DESIGNS)
def test_intervals_hold_the_change_as_often_as_they_should(name):
    held, relative, beyond = outcomes(name, 600, 2)
    assert 0.925 < held < 0.985
    assert relative is None or relative > 0.925
    effects = DESIGNS[name]["effects"]
    if effects[0] == effects[1] and DESIGNS[name].get("same", 0) == 0:
        assert beyond < 0.075
