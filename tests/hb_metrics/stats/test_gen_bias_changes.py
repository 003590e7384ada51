"""The covariance matrix of two runs' debiased Gen Bias, against loops."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

from hb_metrics.stats.changes import ROUGH_REASON
from hb_metrics.stats.gen_bias_intervals import CellReplies, gen_bias_change, gen_bias_covariances, turn_changes

COLUMNS = {"pair": [0, 1], "one": [2]}


def dirichlet(rng, means, concentration):
    drawn = rng.standard_gamma(means * concentration) + 1e-300
    return drawn / drawn.sum(axis=-1, keepdims=True)


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
        means = [softmax(logits[..., None, :] + self.prompts, axis=-1).mean(axis=-2) for logits in self.logits]
        means[1] = same * means[0] + (1 - same) * means[1]  # as many replies of the second are the first's
        self.means = means

    def replies(self):
        """Two [templates, terms, replies, styles]; a share `same` of the second's are the first's replies."""
        shape = (*self.logits[0].shape[:2], self.number)
        prompts = self.prompts[self.rng.integers(len(self.prompts), size=shape)]
        means = [softmax(logits[..., None, :] + prompts, axis=-1) for logits in self.logits]
        first, second = (dirichlet(self.rng, of_run, self.concentration) for of_run in means)
        return first, np.where(self.rng.random((*shape, 1)) < self.same, first, second)


def cell_replies(replies, sizes=None, axes=None):
    """Of [templates, terms, replies, styles] the first `sizes`; `axes` has the axis of each term."""
    sizes = np.full(replies.shape[:2], replies.shape[2]) if sizes is None else sizes
    axes = [None] * replies.shape[1] if axes is None else axes
    there = np.arange(replies.shape[2]) < sizes[..., None]
    cells = {}
    for row, (template, term, _) in enumerate(np.argwhere(there).tolist()):
        cells.setdefault((f"t{template:02}", axes[term], f"d{term:02}"), []).append(row)
    return CellReplies(replies[there], np.arange(there.sum()), cells)


def by_loops(cells, one, other):
    """The covariance of two values in one template as its definition has it, over all choices of four prompts.

    A cell is the replies of both runs, and the rows of those to the same prompts. With fewer than four of these, it has
    the mean moments of the others.
    """
    number = len(cells)
    means = np.array([[rows.mean(axis=0) for rows in cell[:2]] for cell in cells])
    moments, matrices, weights, both = [], [], [], []
    for row, cell in enumerate(cells):
        x, y = (cell[run][cell[2][run]] if one != other else cell[run] for run in (one, other))
        count, sizes = len(x), (len(cell[one]), len(cell[other]))
        weights.append(count / np.prod(sizes))
        both.append(count * (count - 1) / np.prod(sizes) / np.prod(np.subtract(sizes, 1)))
        if count < 4:
            continue
        matrices.append((row, np.cov(x.T, y.T)[: x.shape[1], x.shape[1] :]))
        c, d = (means[np.arange(number) != row, run].mean(axis=0) for run in (one, other))
        linear, square = [], []
        for i, j, k, m in permutations(range(count), 4):
            linear.append((x[k] - c) @ (x[i] - x[j]) / 2 * ((y[i] - y[j]) @ (y[m] - d)))
            square.append((x[i] - x[j]) @ (x[k] - x[m]) / 2 * ((y[i] - y[j]) @ (y[k] - y[m])) / 2)
        moments.append((row, np.mean(linear), np.mean(square)))
    known = [row for row, *_ in moments]
    of_cells = np.tile(np.mean([of_cell for _, *of_cell in moments], axis=0), (number, 1))
    of_cells[known] = [of_cell for _, *of_cell in moments]
    total = (1 - 1 / number) ** 2 * float(4 * np.dot(weights, of_cells[:, 0]) + 2 * np.dot(both, of_cells[:, 1]))
    moved = (sum(weights) - sum(weights[row] for row in known)) / len(known)
    scaled = [(weights[row] + moved) * matrix for row, matrix in matrices]
    return (total - 2 / number**2 * sum(np.sum(a * b) for a, b in permutations(scaled, 2))) / number**2


def test_the_matrix_is_that_of_loops_whatever_is_shared():
    rng = np.random.default_rng(3)
    axes, runs, templates, start = ["x", "x", "y", "y", "y"], ([], []), [], 0
    places = ({}, {})
    for template in range(2):
        cells = []
        for term, axis in enumerate(axes):
            first, second = (rng.dirichlet(np.ones(4), rng.integers(5, 8)) for _ in range(2))
            number = (4, 3, 5, 4, 3)[term]
            shared = [rng.permutation(len(rows))[:number] for rows in (first, second)]
            second[shared[1]] = 0.5 * (second[shared[1]] + first[shared[0]])
            ids = [np.arange(len(rows)) + 100 * run + start for run, rows in enumerate((first, second), 1)]
            ids[1][shared[1]] = ids[0][shared[0]]
            start += 1000
            for run, rows in enumerate((first, second)):
                row = sum(len(vectors) for vectors, _ in runs[run])
                places[run][f"t{template}", axis, f"d{term}"] = list(range(row, row + len(rows)))
                runs[run].append((rows, ids[run]))
            cells.append((first, second, shared))
        templates.append({"x": cells[:2], "y": cells[2:]})
    replies = [
        CellReplies(*(np.concatenate(parts) for parts in zip(*of_run, strict=True)), rows)
        for of_run, rows in zip(runs, places, strict=True)
    ]

    covariances = gen_bias_covariances(*replies, COLUMNS)

    def chosen(cells, styles, summed):
        rows = [(first[:, styles], second[:, styles], shared) for first, second, shared in cells]
        return [(a.sum(1, keepdims=True), b.sum(1, keepdims=True), shared) for a, b, shared in rows] if summed else rows

    metrics = [([0, 1, 2, 3], False), ([0, 1], False), ([2], False), ([0, 1], True), ([2], True)]
    for axis in (None, "x", "y"):
        groups = [of["x"] + of["y"] if axis is None else of[axis] for of in templates]
        for covariance, metric in zip(covariances[axis], metrics if axis is None else metrics[:1], strict=True):
            for one, other in ((0, 0), (0, 1), (1, 1)):
                expected = sum(by_loops(chosen(cells, *metric), one, other) for cells in groups) / 4
                assert covariance.matrix[one, other] == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_nothing_is_shared_by_runs_of_other_prompts():
    first, second = (cell_replies(np.random.default_rng(0).dirichlet(np.ones(3), (1, 4, 6))) for _ in range(2))
    (covariance,) = gen_bias_covariances(first, second._replace(ids=second.ids + 100), {})[None]
    assert covariance.matrix[0, 1] == 0
    assert covariance.changed == 48


def test_a_template_of_small_cells_leaves_the_variance_of_its_run_unknown():
    replies = np.random.default_rng(0).dirichlet(np.ones(3), (2, 5, 8))
    first, second = (cell_replies(replies, sizes * np.ones((2, 5), int)) for sizes in (8, [[8], [3]]))
    (covariance,) = gen_bias_covariances(first, second, {})[None]
    assert np.isnan(covariance.matrix).tolist() == [[False, False], [False, True]]
    assert gen_bias_change(1, 2, covariance, 1, 0.95).reason == ROUGH_REASON


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


def test_changes_over_turns_have_the_covariances_of_pairs_of_turns():
    rng = np.random.default_rng(0)
    of_terms, shared = rng.dirichlet(np.ones(4), (1, 5, 1)), rng.dirichlet(np.ones(4), (2, 5, 7))
    own = [rng.dirichlet(np.ones(4), (2, 5, 7)) for _ in range(3)]
    turns = [cell_replies((of_terms * (turn + 1) + shared + replies) / (turn + 3)) for turn, replies in enumerate(own)]
    cells = [key for key, rows in turns[0].cells.items() for _ in rows]
    ends = turn_changes(turns[0].vectors, turns[2].vectors, cells, {None: (3.0, 4.0)}, 0.95)[None]
    variance = 0.0
    for one, other in product((0, 2), repeat=2):
        (covariance,) = gen_bias_covariances(turns[one], turns[other], {})[None]
        variance += (1 if one == other else -1) * 1000**2 * covariance.matrix[0, 1]
    half = stats.t.ppf(0.975, ends.freedom) * np.sqrt(variance)
    assert ends.interval == pytest.approx((1.0 - half, 1.0 + half))
    assert ends.first == 3.0
    (covariance,) = gen_bias_covariances(turns[0], turns[2], {})[None]
    assert ends.freedom == pytest.approx(covariance.freedom((-1, 1)))
