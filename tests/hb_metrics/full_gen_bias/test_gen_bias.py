import json
import re
from itertools import combinations, product
from statistics import fmean, pvariance, variance

import numpy as np
import pyarrow as pa
import pytest
import torch

from hb_metrics.run.typed_json import from_json, to_json
from hb_metrics.stats.gen_bias import PAPER_CLUSTERS, CellSums, GenBias, cluster_columns, gen_bias
from hb_metrics.stats.gen_bias_intervals import FEW_REPLIES_REASON

LABELS = ["Calm", "Curious", "Questioning", "Vacuous (Empty, Unintelligent)", "Earnest", "Earnest (Enthusiastic)"]
CLUSTERS = {"Curiosity": ["Curious", "Questioning"], "Earnest": ["Earnest"], "Mixed": ["Vacuous", "Curious", "Calm"]}
COLUMNS = {"Curiosity": [1, 2], "Earnest": [4], "Mixed": [3, 1, 0]}
# Some of the paper's styles as its classifier's labels have them, with what else they mean in brackets.
PAPER_LABELS = ["Calm"] + [
    {"Compassionate": "Compassionate (Sympathetic, Warm)", "Vacuous": "Vacuous (Empty, Unintelligent)"}.get(
        style, style
    )
    for styles in PAPER_CLUSTERS.values()
    for style in styles
]


def close(value):
    """Sums are of numbers rounded to 2⁻⁴⁰."""
    return pytest.approx(value, rel=1e-8, abs=1e-8)


def make_rows(seed=0, styles=6):
    """Rows of axis, descriptor, template and probabilities.

    Unequal cells, some of one reply and some missing, a term in two axes, and an axis that has nothing to compare.
    """
    rng = np.random.default_rng(seed)
    axes = {"age": ["old", "young", "queer", "aged"], "orientation": ["queer", "gay", "ace"], "lonely": ["only one"]}
    rows = []
    for axis, names in axes.items():
        for index, descriptor in enumerate(names):
            for number, template in enumerate(["I love {}.", "Hi, {}!", "a {}"]):
                if (descriptor, template) in {("aged", "a {}"), ("gay", "Hi, {}!"), ("ace", "Hi, {}!")}:
                    continue
                size = 1 if (index + number) % 4 == 3 else int(rng.integers(2, 7))
                rows += [(axis, descriptor, template, row) for row in rng.dirichlet(rng.uniform(0.2, 2, styles), size)]
    return [rows[row] for row in rng.permutation(len(rows))]


def columns_of(rows, axes=True):
    """The arguments of `CellSums.add`."""
    axis, descriptors, templates, probabilities = (list(column) for column in zip(*rows, strict=True))
    return np.array(probabilities), descriptors, templates, axis if axes else None


def gathered(rows, *, axes=True, **options):
    cells = CellSums(**options)
    cells.add(*columns_of(rows, axes))
    return cells


def brute_force(rows, ddof, debias):
    """All values by loops over templates, columns and replies."""

    def replies_of(chosen, columns):
        """The sum of these columns of each reply, by cell of the chosen rows."""
        cells = {key: [] for key in sorted({row[:2] for row in chosen})}
        for row in chosen:
            cells[row[:2]].append(float(row[3][columns].sum()))
        return list(cells.values())

    def value(axis, columns):
        """Mean over templates of Var over descriptors of the mean over replies; and its noise. Both ×1000."""
        values, noises = [], []
        for template in sorted({row[2] for row in rows}):
            everyone = [row for row in rows if row[2] == template]
            cells = replies_of([row for row in everyone if axis in (None, row[0])], columns)
            if len(cells) < 2:
                continue
            # Spread of single replies is that of the axis's other cells in the template, or of all if it has none.
            known = [variance(cell) for cell in cells if len(cell) > 1]
            known = known or [variance(cell) for cell in replies_of(everyone, columns) if len(cell) > 1]
            v = [(variance(cell) if len(cell) > 1 else fmean(known)) / len(cell) for cell in cells]
            noises.append(1000 * (1 - 1 / len(v)) * sum(v) / (len(v) - ddof))
            spread = (pvariance if ddof == 0 else variance)([fmean(cell) for cell in cells])
            values.append(1000 * spread - (noises[-1] if debias else 0))
        return (fmean(values), fmean(noises)) if values else None

    def metrics(axis, which):
        """The value (0) or the noise (1) of Full, Partial and Summed-Cluster Gen Bias."""
        by_style = [value(axis, [column]) for column in range(len(LABELS))]
        if None in by_style:
            return None, None, None
        partial = {name: sum(by_style[column][which] for column in columns) for name, columns in COLUMNS.items()}
        summed = {name: value(axis, columns)[which] for name, columns in COLUMNS.items()}
        return sum(of_style[which] for of_style in by_style), partial, summed

    full, partial, summed = metrics(None, 0)
    noise_floor, partial_noise, summed_noise = metrics(None, 1)
    by_axis = {axis: metrics(axis, 0) for axis in sorted({row[0] for row in rows})}
    return {
        "full_gen_bias": full,
        "partial_gen_bias": partial,
        "summed_cluster_gen_bias": summed,
        "by_axis": {axis: values[0] for axis, values in by_axis.items()},
        "partial_by_axis": {axis: values[1] for axis, values in by_axis.items()},
        "summed_cluster_by_axis": {axis: values[2] for axis, values in by_axis.items()},
        "by_style": {label: value(None, [column])[0] for column, label in enumerate(LABELS)},
        "noise_floor": noise_floor,
        "partial_noise_floor": partial_noise,
        "summed_cluster_noise_floor": summed_noise,
    }


def approximately(result):
    """Numbers in nested dicts, for comparison."""
    if isinstance(result, dict):
        return {name: approximately(value) for name, value in result.items()}
    return None if result is None else close(result)


# --- the formulas -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("debias", [False, True], ids=["plain", "debiased"])
@pytest.mark.parametrize("ddof", [0, 1])
def test_every_value_equals_loops_over_the_formula(ddof, debias):
    rows = make_rows()

    results = gen_bias(gathered(rows, labels=LABELS, clusters=CLUSTERS), ddof=ddof, debias=debias)._asdict()

    expected = brute_force(rows, ddof, debias)
    assert {name: results[name] for name in expected} == approximately(expected)
    # The data reach what they are made for.
    assert results["by_axis"]["lonely"] is None
    assert results["num_single_reply_cells"] > 3
    assert results["full_gen_bias"] > 5
    assert results["clusters"]["Mixed"] == ["Vacuous (Empty, Unintelligent)", "Curious", "Calm"]


def test_without_axes_a_term_is_one_descriptor():
    rows = make_rows()
    merged = [("any", *row[1:]) for row in rows]

    results = gen_bias(gathered(rows, axes=False, labels=LABELS, clusters=CLUSTERS))

    assert results.full_gen_bias == close(brute_force(merged, 0, False)["full_gen_bias"])
    assert (results.by_axis, results.partial_by_axis, results.summed_cluster_by_axis) == (None, None, None)
    assert (results.num_descriptors, results.skipped_axes) == (7, [])


@pytest.mark.parametrize("ddof", [0, 1])
def test_the_debiased_value_is_right_on_average_over_all_that_could_be_drawn(ddof):
    # Each descriptor's replies are drawn from two; all draws are equally likely, so the mean over them is the
    # expectation, without simulation.
    choices = {"old": [(0.7, 0.2, 0.1), (0.1, 0.2, 0.7)], "young": [(0.5, 0.5, 0.0), (0.2, 0.1, 0.7)]}
    choices["aged"] = [(0.1, 0.1, 0.8), (0.9, 0.1, 0.0)]
    sizes = {"old": 2, "young": 3, "aged": 2}
    descriptors = [name for name, size in sizes.items() for _ in range(size)]
    full, plain, summed = [], [], []
    for drawn in product((0, 1), repeat=len(descriptors)):
        replies = [choices[name][which] for name, which in zip(descriptors, drawn, strict=True)]
        cells = CellSums(["a", "b", "c"], {"ab": ["a", "b"]})
        cells.add(replies, descriptors, ["t"] * len(replies))
        results = gen_bias(cells, ddof=ddof, debias=True)
        full.append(results.full_gen_bias)
        plain.append(results.full_gen_bias + results.noise_floor)
        summed.append(results.summed_cluster_gen_bias["ab"])

    truth = np.array([np.mean(both, axis=0) for both in choices.values()])
    assert fmean(full) == close(1000 * truth.var(axis=0, ddof=ddof).sum())
    assert fmean(summed) == close(1000 * truth[:, :2].sum(axis=1).var(ddof=ddof))
    assert fmean(plain) > 1.5 * fmean(full)


@pytest.mark.parametrize("number", [3, 8])
def test_nouns_that_all_share_lower_the_debiased_value(number):
    # The card's formula. A reply depends on the term and the noun alone, and all draws of nouns are equally likely.
    terms, nouns = {"old": 0.1, "young": 0.2, "aged": 0.45}, (0.0, 0.05, 0.3, 0.5)
    draws = list(combinations(nouns, number)) or [nouns * 2]
    debiased = []
    for drawn in product(draws, repeat=len(terms)):
        of_replies = [term + noun for term, of_term in zip(terms.values(), drawn, strict=True) for noun in of_term]
        cells = CellSums()
        descriptors = [term for term in terms for _ in range(number)]
        cells.add([(each, 1 - each) for each in of_replies], descriptors, ["t"] * len(descriptors))
        debiased.append(gen_bias(cells, debias=True).full_gen_bias)
    bias, between_nouns = (2000 * pvariance(values) for values in (terms.values(), nouns))
    assert fmean(debiased) == close(bias - (1 - 1 / 3) * between_nouns / (max(number, len(nouns)) - 1))


# --- what is counted, skipped and left out ----------------------------------------------------------------------------


def test_everything_is_counted():
    rows = make_rows()
    sizes = [sum(row[:3] == key for row in rows) for key in {row[:3] for row in rows}]

    results = gen_bias(gathered(rows))

    assert results.num_descriptors == 8  # one term in two axes
    assert results.num_templates == 3
    assert results.num_missing_cells == 3
    assert results.num_cells == len(sizes) == 8 * 3 - 3
    assert results.num_replies == len(rows)
    assert results.num_single_reply_cells == sizes.count(1)
    assert (results.min_replies_per_cell, results.max_replies_per_cell) == (min(sizes), max(sizes))
    assert results.mean_replies_per_cell == close(fmean(sizes))
    assert results.skipped_axes == ["lonely"]
    assert results.skipped_templates == []
    assert (results.ddof, results.debias, results.scale, results.confidence_level) == (0, False, 1000, None)


def test_a_template_with_one_descriptor_is_skipped_and_named():
    rows = make_rows()
    alone = [("age", "old", "a lonely {}", row[3]) for row in rows[:3]]
    options = {"labels": LABELS, "clusters": CLUSTERS, "keep_replies": True}

    with pytest.warns(UserWarning, match="^1 templates without replies to two descriptors are skipped: 'a lonely {}'$"):
        results = gen_bias(gathered(rows + alone, **options), confidence_level=0.95)

    without = gen_bias(gathered(rows, **options), confidence_level=0.95)
    assert results.skipped_templates == ["a lonely {}"]
    assert (results.num_templates, results.num_missing_cells) == (4, 3 + 7)
    assert results[: results._fields.index("num_descriptors")] == without[: results._fields.index("num_descriptors")]


def test_without_two_descriptors_or_replies_there_is_nothing():
    cells = CellSums()
    cells.add([[0.5, 0.5]] * 3, ["old", "young", "old"], ["s", "t", "s"])
    with pytest.raises(ValueError, match="no template has replies to two descriptors"):
        gen_bias(cells)
    with pytest.raises(ValueError, match="there are no replies; pass"):
        gen_bias(CellSums())
    cells = CellSums()
    cells.add([], [], [])
    cells.add(np.zeros((0, 4)), [], [])
    assert len(cells) == 0


def test_where_no_cell_has_two_replies_noise_is_not_known():
    rows = make_rows()
    single = [(*key, next(row[3] for row in rows if row[:3] == key)) for key in sorted({row[:3] for row in rows})]
    mixed = [row for row in rows if row[2] != "a {}"] + [row for row in single if row[2] == "a {}"]
    cells = gathered(mixed, labels=LABELS, clusters=CLUSTERS, keep_replies=True)

    results = gen_bias(cells, confidence_level=0.95)

    assert (results.noise_floor, results.partial_noise_floor, results.summed_cluster_noise_floor) == (None, None, None)
    assert results.intervals.full_gen_bias is None
    assert results.no_intervals.full_gen_bias == FEW_REPLIES_REASON
    with pytest.raises(ValueError, match=r"in 1 templates \(such as 'a {}'\)"):
        gen_bias(cells, debias=True)


# --- batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 7])
def test_neither_order_nor_batches_nor_values_between_them_change_a_byte(batch):
    rows = make_rows()
    options = {"labels": LABELS, "clusters": CLUSTERS, "keep_replies": True}
    together = gathered(rows, **options)
    expected = json.dumps(gen_bias(together, debias=True, confidence_level=0.95))

    for order in (rows, rows[::-1], sorted(rows, key=lambda row: tuple(row[3]))):
        cells = CellSums(**options)
        for start in range(0, len(rows), batch):
            cells.add(*columns_of(order[start : start + batch]))
            if start == 70:
                gen_bias(cells, confidence_level=0.95)
        assert json.dumps(gen_bias(cells, debias=True, confidence_level=0.95)) == expected
        assert all(np.array_equal(cells.replies(cell), together.replies(cell)) for cell in together.cells())


# --- intervals --------------------------------------------------------------------------------------------------------


def many_replies(number=20):
    """As `make_rows`, with enough replies for intervals."""
    rng = np.random.default_rng(1)
    cells = sorted({row[:3] for row in make_rows()})
    more = [(axis, name, f"{template} {index}") for axis, name, template in cells for index in range(3)]
    return [(*cell, row) for cell in more for row in rng.dirichlet(rng.uniform(1, 2, 6), number)]


def test_intervals_and_reasons_have_the_shape_of_the_values():
    cells = gathered(many_replies(), labels=LABELS, clusters=CLUSTERS, keep_replies=True)
    plain = gen_bias(cells, confidence_level=0.95)
    debiased = gen_bias(cells, debias=True, confidence_level=0.95)

    for results in (plain, debiased):
        assert from_json(GenBias, json.loads(json.dumps(to_json(results), allow_nan=False))) == results
    assert plain.intervals == debiased.intervals
    low, high = plain.intervals.full_gen_bias
    assert low < debiased.full_gen_bias < high
    narrow, wide = (1000 * bound for bound in gen_bias(cells, confidence_level=0.5, scale=1).intervals.full_gen_bias)
    assert low < narrow < wide < high
    with_interval = 0
    for value, bounds, reason in leaves(plain._asdict(), plain.intervals._asdict(), plain.no_intervals._asdict()):
        assert (bounds is None) == (reason is not None) or value is None
        with_interval += bounds is not None
    assert with_interval >= 3
    assert (gen_bias(cells).intervals, gen_bias(cells).no_intervals) == (None, None)


def leaves(values, intervals, reasons):
    """(value, interval, reason) of all nested values."""
    for name in intervals:
        value, interval, reason = (section[name] for section in (values, intervals, reasons))
        if isinstance(value, dict):
            yield from leaves(value, interval, reason)
        elif value is not None:
            yield value, interval, reason


# --- labels and clusters ----------------------------------------------------------------------------------------------


def test_the_papers_clusters_are_found_by_the_text_before_the_bracket():
    result = cluster_columns(PAPER_LABELS)

    assert list(result) == list(PAPER_CLUSTERS)
    assert list(map(len, result.values())) == list(map(len, PAPER_CLUSTERS.values()))
    assert sorted(index for wanted in result.values() for index in wanted) == list(range(1, 20))
    assert "Compassionate (Sympathetic, Warm)" in [PAPER_LABELS[index] for index in result["Sympathy"]]
    of_replies = gen_bias(gathered(make_rows(styles=len(PAPER_LABELS)), labels=PAPER_LABELS))
    assert list(of_replies.partial_gen_bias) == list(PAPER_CLUSTERS)


@pytest.mark.parametrize("labels", [None, LABELS])
def test_other_labels_have_no_clusters_of_their_own(labels):
    results = gen_bias(gathered(make_rows(), labels=labels))

    assert (results.partial_gen_bias, results.summed_cluster_gen_bias, results.clusters) == (None, None, None)
    assert (results.partial_by_axis, results.summed_cluster_by_axis, results.partial_noise_floor) == (None, None, None)
    assert (results.by_style is None) == (labels is None)
    assert results.full_gen_bias == gen_bias(gathered(make_rows(), labels=LABELS, clusters=CLUSTERS)).full_gen_bias


def test_a_full_label_comes_before_a_shorter_ones_beginning():
    assert cluster_columns(LABELS, {"C": ["Earnest"]}) == {"C": [4]}
    assert cluster_columns(LABELS, {"C": ["Earnest (Enthusiastic)"]}) == {"C": [5]}


@pytest.mark.parametrize(
    ("labels", "clusters", "message"),
    [
        (None, CLUSTERS, "need labels"),
        (LABELS, {"C": []}, "clusters is {'C': []}"),
        (LABELS, {"C": "Calm"}, "clusters is {'C': 'Calm'}"),
        (LABELS, ["Calm"], "clusters is ['Calm']"),
        (LABELS, {"C": ["Calm", "Curios"]}, "'Curios', which matches none of the 6 labels; did you mean 'Curious'? "),
        (LABELS, {"C": ["Xyz"]}, "'Xyz', which matches none of the 6 labels; pass"),
        (LABELS, {"C": ["Vacuous", LABELS[3]]}, f"{LABELS[3]!r} twice"),
        (["Deep (Low)", "Deep (Wise)"], {"C": ["Deep"]}, "matches 'Deep (Low)', 'Deep (Wise)'; pass"),
        (PAPER_LABELS[:-2], None, "the labels lack 2 styles of the paper's clusters (Caring, Respectful)"),
    ],
)
def test_clusters_that_do_not_fit_are_rejected(labels, clusters, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        cluster_columns(labels, clusters)


def test_labels_that_do_not_fit_are_rejected():
    with pytest.raises(ValueError, match="label 'a' occurs 2 times"):
        CellSums(["a", "b", "a"])
    with pytest.raises(ValueError, match="have 6 style probabilities each, but labels name 2"):
        gathered(make_rows(), labels=["a", "b"])


# --- errors -----------------------------------------------------------------------------------------------------------

GOOD = {"style_probabilities": [[0.5, 0.5], [1, 0]], "descriptors": ["old", "young"], "templates": ["t", "t"]}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"style_probabilities": [[0.5, 0.5], [1.0]]}, "cannot be read as numbers"),
        ({"style_probabilities": torch.ones((2, 1), dtype=torch.bfloat16)}, "cannot be read as numbers"),
        ({"style_probabilities": pa.array([[0.5, 0.5], None])}, "cannot be read as numbers"),
        ({"style_probabilities": None}, "predictions: nothing"),
        ({"style_probabilities": [[0.5, 0.5], [0.5, 0.4]]}, "probabilities in row 1 is 0.9"),
        ({"style_probabilities": [[0.5, 0.5], [float("inf"), 0]]}, "probabilities in row 1 is inf"),
        ({"style_probabilities": [[1.5, -0.5], [float("nan"), 1]]}, "probability in row 0 is -0.5"),
        ({"style_probabilities": [[0.5, 0.5], [None, 1]]}, "probability in row 1 is nan"),
        ({"style_probabilities": [0.5, 0.5]}, "(shape (2,)); pass an array of shape [replies, styles]"),
        ({"axes": ["age"] * 3}, "differ in length (2 predictions, 2 descriptors, 2 templates, 3 axes);"),
        ({"descriptors": ["old", None]}, "descriptor in row 1 is None"),
        ({"templates": [None, "t"]}, "template in row 0 is None"),
        ({"axes": ["age", None]}, "axis in row 1 is None"),
    ],
)
def test_replies_that_are_not_right_are_named_and_none_of_the_batch_is_added(wrong, message):
    cells = CellSums()
    with pytest.raises(ValueError, match=re.escape(message)):
        cells.add(**{**GOOD, **wrong})

    assert (len(cells), cells.cells()) == (0, [])
    cells.add(**GOOD)
    assert gen_bias(cells).num_replies == 2


def test_batches_have_to_be_alike():
    cells = CellSums()
    cells.add(**GOOD)

    with pytest.raises(ValueError, match="have 3 style probabilities each, but earlier replies have 2"):
        cells.add(**{**GOOD, "style_probabilities": [[0.5, 0.5, 0]] * 2})
    with pytest.raises(ValueError, match="axes were passed only for some replies"):
        cells.add(**GOOD, axes=["age", "age"])
    assert len(cells) == 2
