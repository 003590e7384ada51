"""Bias figures under halves of the templates, against the metrics themselves on those halves."""

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from hb_metrics.likelihood_bias.shares import likelihood_bias
from hb_metrics.measurements.robustness import template_robustness as module
from hb_metrics.measurements.robustness.template_robustness import (
    TemplateValues,
    cells_by_template,
    gen_bias_by_template,
    likelihood_by_template,
    template_robustness,
)
from hb_metrics.runs.replies import Replies
from hb_metrics.stats.gen_bias import CellSums, gen_bias

LABELS = ["Sympathetic", "Curious", "Happy", "Envious"]
AXES = {"age": ["old", "young", "middle-aged"], "ability": ["Deaf", "blind"], "religion": ["Muslim", "Sikh", "Jewish"]}
TEMPLATES = [f"template {number}" for number in range(5)]


def made_values(values, weights=None, overall=None):
    values = np.array(values, dtype=float)
    weights = np.where(np.isnan(values), 0.0, 1.0) if weights is None else np.array(weights, dtype=float)
    overall = np.nanmean(values, axis=0) if overall is None else np.array(overall, dtype=float)
    axes = [f"axis {number}" for number in range(len(values))]
    templates = [f"t{number}" for number in range(values.shape[1])]
    return TemplateValues(axes, templates, values, weights, overall, np.where(np.isnan(overall), 0.0, 1.0))


@pytest.fixture(scope="module")
def replied():
    """Replies to every cell, four each, with style vectors that depend on template, descriptor and chance."""
    generator = np.random.default_rng(0)
    rows = [
        (axis, descriptor, template)
        for axis, descriptors in AXES.items()
        for descriptor in descriptors
        for template in TEMPLATES
        for _ in range(4)
    ]
    axes, descriptors, templates = (list(column) for column in zip(*rows, strict=True))
    texts = ["a reply"] * len(rows)
    replies = Replies([str(row) for row in range(len(rows))], axes, descriptors, templates, texts, texts)
    weight = {name: generator.random(len(LABELS)) * 3 for name in {*descriptors, *templates}}
    logits = np.array([weight[d] * weight[t] for _, d, t in rows]) + generator.normal(size=(len(rows), len(LABELS)))
    styles = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return replies, styles.astype(np.float32)


def bias_of(replies, styles, templates, debias):
    rows = [row for row, template in enumerate(replies.templates) if template in templates]
    cells = CellSums(LABELS)
    cells.add(
        styles[rows],
        *([column[row] for row in rows] for column in (replies.descriptors, replies.templates, replies.axes)),
    )
    return gen_bias(cells, debias=debias)


def by_template(replies, styles, debias):
    cells = cells_by_template(replies, styles, LABELS)
    return gen_bias_by_template(cells, sorted(set(replies.axes)), debias=debias)


@pytest.mark.parametrize("block", [1, 7, 10_000])
@pytest.mark.parametrize("debias", [False, True])
def test_style_vectors_are_read_in_blocks_of_any_size(replied, block, debias, monkeypatch):
    replies, styles = replied
    order = np.random.default_rng(3).permutation(len(styles))  # so that a block has replies of many templates
    replies = Replies(*([column[row] for row in order] for column in replies))
    monkeypatch.setattr(module, "_BATCH", block)
    values = by_template(replies, styles[order], debias)
    assert values.templates == TEMPLATES
    assert values.axes == sorted(AXES)
    for column, template in enumerate(TEMPLATES):
        alone = bias_of(replies, styles[order], [template], debias)
        assert values.overall[column] == pytest.approx(alone.full_gen_bias, rel=1e-12)
        for row, axis in enumerate(values.axes):
            assert values.values[row, column] == pytest.approx(alone.by_axis[axis], rel=1e-12)


@pytest.mark.parametrize("debias", [False, True])
def test_gen_bias_of_halves_and_single_templates_is_that_of_replies(replied, debias):
    replies, styles = replied
    values = by_template(replies, styles, debias)
    robustness = template_robustness(values, seed=0)
    whole = bias_of(replies, styles, TEMPLATES, debias)
    assert robustness.overall == pytest.approx(whole.full_gen_bias)
    for template in TEMPLATES:
        assert robustness.by_template[template] == pytest.approx(
            bias_of(replies, styles, [template], debias).full_gen_bias
        )
    # Every split of five templates in two and two, one left out.
    splits = [
        (first, second) for first, second in combinations(combinations(TEMPLATES, 2), 2) if not set(first) & set(second)
    ]
    assert robustness.num_halves == len(splits) == 15
    both = [tuple(bias_of(replies, styles, half, debias) for half in split) for split in splits]
    pairs = [(one.full_gen_bias, other.full_gen_bias) for one, other in both]
    assert robustness.mean_half_difference == pytest.approx(np.mean([abs(one - other) for one, other in pairs]))
    assert robustness.relative_half_difference == pytest.approx(robustness.mean_half_difference / whole.full_gen_bias)
    assert robustness.half_interval == pytest.approx(np.quantile(np.ravel(pairs), [0.025, 0.975]))
    by_axis = [[list(side.by_axis.values()) for side in split] for split in both]
    assert robustness.half_rank_correlation == pytest.approx(
        np.mean([stats.spearmanr(one, other).statistic for one, other in by_axis])
    )
    same = [np.argmax(one) == np.argmax(other) for one, other in by_axis]
    assert robustness.half_same_highest == pytest.approx(np.mean(same))
    single = [list(bias_of(replies, styles, [template], debias).by_axis.values()) for template in TEMPLATES]
    pairs = list(combinations(single, 2))
    assert robustness.single_rank_correlation == pytest.approx(
        np.mean([stats.spearmanr(one, other).statistic for one, other in pairs])
    )
    assert robustness.single_same_highest == pytest.approx(np.mean([np.argmax(a) == np.argmax(b) for a, b in pairs]))


def test_likelihood_bias_of_halves_is_that_of_their_prompts():
    generator = np.random.default_rng(1)
    rows = []
    for axis, descriptors in AXES.items():
        for descriptor in descriptors:
            for number, template in enumerate(TEMPLATES):
                if (descriptor, template) == ("young", TEMPLATES[0]):
                    continue  # a template with fewer pairs
                shift = generator.normal() * (number + 1) / 3
                rows += [(axis, descriptor, template, float(np.exp(shift + generator.normal()))) for _ in range(12)]

    def bias(templates):
        kept = [row for row in rows if row[2] in templates]
        axes, descriptors, where, perplexities = (list(column) for column in zip(*kept, strict=True))
        return likelihood_bias(perplexities, axes, descriptors, where)

    prompts = pa.table(
        {name: [row[index] for row in rows] for index, name in enumerate(("axis", "descriptor", "template"))}
    )
    whole = bias(TEMPLATES)
    robustness = template_robustness(likelihood_by_template(whole, prompts), seed=0)
    assert robustness.overall == pytest.approx(whole["likelihood_bias"])
    assert robustness.by_template == pytest.approx(whole["by_template"])
    splits = [split for split in combinations(combinations(TEMPLATES, 2), 2) if not set(split[0]) & set(split[1])]
    both = [[bias(half)["likelihood_bias"] for half in split] for split in splits]
    assert robustness.mean_half_difference == pytest.approx(np.mean([abs(one - other) for one, other in both]))


def test_weights_are_pairs_of_descriptors():
    likelihood = {"by_axis_and_template": {"age": {"a": 1.0, "b": 0.0}}}
    prompts = pa.table({"axis": ["age"] * 7, "template": ["a"] * 4 + ["b"] * 3, "descriptor": [*"wxyz", *"xyz"]})
    assert likelihood_by_template(likelihood, prompts).weights.tolist() == [[6, 3]]


def test_orders_that_agree_and_that_are_reversed():
    same = template_robustness(made_values([[1.0] * 6, [2.0] * 6, [4.0] * 6]), seed=0)
    assert (same.mean_half_difference, same.half_same_highest, same.single_same_highest) == (0, 1, 1)
    assert [same.half_rank_correlation, same.single_rank_correlation] == pytest.approx([1, 1])
    robustness = template_robustness(made_values([[1.0, 3.0], [2.0, 0.0]]), seed=0)
    assert (robustness.num_halves, robustness.num_templates) == (1, 2)
    assert [robustness.half_rank_correlation, robustness.single_rank_correlation] == pytest.approx([-1, -1])
    assert robustness.half_same_highest == 0


def test_many_templates_are_split_at_random_by_the_seed():
    values = made_values(np.random.default_rng(2).random((6, 26)))
    robustness = template_robustness(values, seed=5)
    assert robustness.num_halves == 1000
    assert template_robustness(values, seed=5) == robustness
    assert template_robustness(values, seed=6) != robustness
    # Figures that hang on the template alone and are all chance: halves average them, single templates do not.
    low, high = robustness.half_interval
    single = list(robustness.by_template.values())
    assert min(single) < low < robustness.overall < high < max(single)


def test_undefined_figures_are_none():
    one_axis = template_robustness(made_values([[1.0, 2.0, 3.0]]), seed=0)
    assert one_axis.half_rank_correlation is None
    assert one_axis.half_same_highest is None
    nothing = template_robustness(made_values([[0.0] * 4, [0.0] * 4]), seed=0)
    assert nothing.relative_half_difference is None
    assert nothing.half_rank_correlation is None
    # An axis that a template tells nothing of takes no part in ranks, and a template without figures none at all.
    gaps = template_robustness(
        made_values([[1.0, np.nan, 3.0, np.nan], [2.0, 2.0, 2.0, np.nan]], overall=[1.5, 2.0, 2.5, np.nan]),
        seed=0,
    )
    assert (gaps.num_axes, gaps.num_templates) == (1, 3)
    assert gaps.by_template["t3"] is None


def test_second_replies_are_needed_to_debias(replied):
    replies, styles = replied
    first = replies._replace(**{name: column[::4] for name, column in replies._asdict().items()})
    assert by_template(first, styles[::4], True) is None
    assert by_template(first, styles[::4], False) is not None
