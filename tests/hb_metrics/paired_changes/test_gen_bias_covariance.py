"""The covariance matrix of two runs' debiased Gen Bias: against loops and against replies drawn again and again."""

from itertools import permutations

import numpy as np
import pytest

from hb_metrics.paired_changes.gen_bias_covariance import PairedCell, gen_bias_covariances

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


def templates_of(first, second):
    paired = np.stack([np.arange(first.shape[2])] * 2)
    for of_first, of_second in zip(first, second, strict=True):
        yield {None: [PairedCell(a, b, paired) for a, b in zip(of_first, of_second, strict=True)]}


def by_loops(cells, one, other):
    """The covariance of two values in one template as its definition has it, over all choices of four prompts."""
    number = len(cells)
    means = np.array([[rows.mean(axis=0) for rows in cell[:2]] for cell in cells])
    total, matrices = 0.0, []
    for row, cell in enumerate(cells):
        x, y = (cell[run][cell.shared[run]] if one != other else cell[run] for run in (one, other))
        count, sizes = len(x), (len(cell[one]), len(cell[other]))
        if count < 4:  # too few for the averages: as if none were shared
            continue
        matrices.append(count / np.prod(sizes) * np.cov(x.T, y.T)[: x.shape[1], x.shape[1] :])
        c, d = (means[np.arange(number) != row, run].mean(axis=0) for run in (one, other))
        linear, square = [], []
        for i, j, k, m in permutations(range(count), 4):
            linear.append((x[k] - c) @ (x[i] - x[j]) / 2 * ((y[i] - y[j]) @ (y[m] - d)))
            square.append((x[i] - x[j]) @ (x[k] - x[m]) / 2 * ((y[i] - y[j]) @ (y[k] - y[m])) / 2)
        both = count * (count - 1) / np.prod(sizes) / np.prod(np.subtract(sizes, 1))
        total += (1 - 1 / number) ** 2 * (4 * count / np.prod(sizes) * np.mean(linear) + 2 * both * np.mean(square))
    total -= 2 / number**2 * sum(np.sum(a * b) for a, b in permutations(matrices, 2))
    return total / number**2


def test_the_matrix_is_that_of_loops_whatever_is_shared():
    rng = np.random.default_rng(3)
    templates = []
    for _ in range(2):
        cells = []
        for _ in range(5):
            first, second = (rng.dirichlet(np.ones(4), rng.integers(5, 8)) for _ in range(2))
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
        groups = [of["x"] + of["y"] if axis is None else of[axis] for of in templates]
        # Axes have that of Full Gen Bias alone.
        for covariance, metric in zip(covariances[axis], metrics if axis is None else metrics[:1], strict=True):
            for one, other in ((0, 0), (0, 1), (1, 1)):
                expected = sum(by_loops(chosen(cells, *metric), one, other) for cells in groups) / 4
                assert covariance.matrix[one, other] == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_small_cells_count_as_the_others_do():
    rng = np.random.default_rng(1)
    cells = [rng.dirichlet(np.ones(5), 8) for _ in range(8)]

    def covariance(sizes):
        kept = [rows[:size] for rows, size in zip(cells, sizes, strict=True)]
        paired = [PairedCell(rows, rows, np.stack([np.arange(len(rows))] * 2)) for rows in kept]
        return gen_bias_covariances([{None: paired}], {})[None][0].matrix

    assert covariance([8, 8, 8, 8, 8, 3, 1, 1])[0, 0] > covariance([8] * 8)[0, 0]
    assert np.isnan(covariance([8, 8, 8, 8, 1, 1, 1, 1])).all()


def test_nothing_is_shared_by_runs_of_other_prompts():
    none = np.zeros((2, 0), dtype=int)
    cells = [PairedCell(*np.random.default_rng(0).dirichlet(np.ones(3), (2, 6)), none) for _ in range(4)]
    assert gen_bias_covariances([{None: cells}], {})[None][0].matrix[0, 1] == 0


@pytest.mark.parametrize(
    "replies", [{"prompt": 0.3}, {"concentration": 0.5, "spread": 1.5}], ids=["even", "of one style each"]
)
def test_the_matrix_is_that_of_values_drawn_again(replies):
    pair = Pair(templates=3, terms=10, styles=6, effects=(0.5, 0.4), same=0.6, number=6, **replies)
    values, estimates = [], []
    for _ in range(300):
        first, second = pair.replies()
        values.append([debiased(first), debiased(second)])
        estimates.append(gen_bias_covariances(templates_of(first, second), {})[None][0].matrix * 1e6)
    apart = np.array(values) - np.mean(values, axis=0)
    products = apart[:, :, None] * apart[:, None]
    errors = (products - estimates).std(axis=0) / np.sqrt(len(products))
    assert (np.abs(np.mean(estimates, axis=0) - products.mean(axis=0)) < 3.5 * errors).all()
    assert (np.mean(estimates, axis=0) > 4 * errors).all()  # a test that can fail


def debiased(replies, sizes=None, members=slice(None)):
    """The debiased value ×1000 of some terms; of [templates, terms, replies, styles] the first `sizes` are there."""
    sizes = np.full(replies.shape[:2], replies.shape[2]) if sizes is None else sizes
    there = (np.arange(replies.shape[2]) < sizes[..., None])[..., None]
    means = (replies * there).sum(axis=2) / sizes[..., None]
    squares = ((replies - means[:, :, None]) ** 2 * there).sum(axis=(2, 3))
    spread = np.where(sizes > 1, squares / np.maximum(sizes - 1, 1), np.nan)
    # The spread of single replies is that of the template's other cells.
    noise = (np.where(sizes > 1, spread, np.nanmean(spread, axis=1, keepdims=True)) / sizes)[:, members]
    value = means[:, members].var(axis=1).sum(axis=-1) - (1 - 1 / noise.shape[1]) * noise.mean(axis=1)
    return 1000 * float(value.mean())
