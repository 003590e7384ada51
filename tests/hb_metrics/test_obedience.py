"""Mean bias values along other replies' directions: a loop over replies, leaving replies out, and coverage."""

import numpy as np
import pytest
from scipy import stats

from hb_metrics.bias_values import DescriptorKey, bias_values
from hb_metrics.finished_run import Run
from hb_metrics.measurements.generation.tuned import labels_ceiling, other_model_notes, tuned_rows
from hb_metrics.obedience import (
    MIN_DESCRIPTORS,
    OTHER_CLASSIFIER_REASON,
    Directions,
    ValuesAlong,
    mean_change,
    mean_value,
    obedience,
    own_values,
    values_along,
)
from hb_metrics.reply_checks.style_change import RunStyles

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
    """Each reply's value, from m_d computed anew without it if there is no other; the means of descriptors."""
    vectors, descriptors, templates, _ = replies
    own = bias_values(*replies)
    cells = {}
    for row in range(len(vectors)):
        left = [index for index in range(len(vectors)) if index != row]
        means = other
        if means is None:
            means = styles_of((vectors[left], *([column[index] for index in left] for column in replies[1:])))
        keys, key = list(means.descriptors), DescriptorKey("x", descriptors[row])
        if key not in keys:
            continue
        middle = means.descriptor_means.mean(axis=0)
        way = means.descriptor_means[keys.index(key)] - middle
        if other is not None:
            middle = own.descriptor_means[[index for index, known in enumerate(own.descriptors) if known in keys]].mean(
                0
            )
        cells.setdefault(key, {}).setdefault(templates[row], []).append(float((vectors[row] - middle) @ way))
    return {key: np.mean([np.mean(values) for values in of.values()]) for key, of in cells.items()}


def test_values_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    sizes = [[3, 1, 2], [2, 2, 0], [4, 1, 1], [1, 5, 2], [2, 2, 2]]
    replies, other = replies_of(rng, sizes), replies_of(rng, sizes[:4])
    along = values_along(styles_of(replies), styles_of(other))
    assert along.values == pytest.approx(by_loop(replies, styles_of(other)))
    assert along.num_without == 1
    assert not along.is_own
    assert values_along(styles_of(replies), styles_of(other)._replace(descriptors=["a"] * 4)).values == {}


@pytest.mark.parametrize("batch_size", [7, 1000])
def test_each_reply_is_left_out_of_its_own_direction(batch_size):
    rng = np.random.default_rng(1)
    replies = replies_of(rng, [[3, 1, 2], [2, 2, 0], [4, 1, 1], [1, 5, 2], [2, 2, 2]])
    own = own_values(*replies, batch_size=batch_size)
    assert own.values == pytest.approx(by_loop(replies, None))
    assert (own.num_without, own.is_own) == (0, True)


def test_a_descriptor_of_one_reply_has_no_direction_without_it():
    rng = np.random.default_rng(1)
    replies = replies_of(rng, [[3, 2], [1, 0], [1, 1], [2, 2]])
    own = own_values(*replies)
    assert own.values == pytest.approx(by_loop(replies, None))
    assert DescriptorKey("x", "d1") not in own.values
    assert own.num_without == 1


def test_without_leaving_out_a_runs_own_directions_show_bias_where_there_is_none():
    """With replies left out the mean is 0 on average; along their own directions replies always go far."""
    rng = np.random.default_rng(2)
    left_out, kept = [], []
    for _ in range(40):
        replies = replies_of(rng, np.full((15, 2), 4))
        means = styles_of(replies)
        left_out.append(mean_value(own_values(*replies)).value)
        kept.append(mean_value(values_along(means, means)).value)
    assert abs(np.mean(left_out)) < 4 * np.std(left_out) / np.sqrt(40)
    assert np.mean(kept) > 20 * np.std(kept) / np.sqrt(40)


def drawn(rng, shifts, number, strength):
    """Replies of two templates to each descriptor, whose styles shift; `strength` of the shift is left."""
    spread = rng.normal(size=(len(shifts), 2, number, NUM_STYLES)) * 0.3
    vectors = 0.5 + 0.05 * strength * shifts[:, None, None] + 0.1 * spread
    names = [f"d{row:03}" for row in np.repeat(np.arange(len(shifts)), 2 * number)]
    templates = [f"t{row}" for row in np.tile(np.repeat([0, 1], number), len(shifts))]
    return vectors.clip(0, 1).reshape(-1, NUM_STYLES), names, templates, ["x"] * len(names)


def trial(rng, num_descriptors=78, strength=0.7):
    shifts = rng.normal(size=(num_descriptors, NUM_STYLES))
    before, after = drawn(rng, shifts, 4, 1.0), drawn(rng, shifts, 4, strength)
    first, second = own_values(*before), values_along(styles_of(after), styles_of(before))
    return mean_value(first), mean_value(second), mean_change(first, second)


def truths(strength, num_descriptors=78):
    """(shift·shift) per style of variance 0.05², all styles together, less the part that is in m̄."""
    full = 1000 * NUM_STYLES * 0.05**2 * (1 - 1 / num_descriptors)
    return full, strength * full, (strength - 1) * full


def coverage(rng, number, strength):
    return np.mean(
        [
            [mean.interval[0] <= truth <= mean.interval[1] for mean, truth in zip(means, truths(strength), strict=True)]
            for means in (trial(rng, strength=strength) for _ in range(number))
        ],
        axis=0,
    )


def test_intervals_hold_the_truth_about_as_often_as_they_should():
    assert (coverage(np.random.default_rng(3), 150, 0.7) > 0.88).all()


@pytest.mark.long
@pytest.mark.parametrize("strength", [0.0, 0.7, 1.0])
def test_intervals_hold_the_truth_as_often_as_they_should(strength):
    rates = coverage(np.random.default_rng(4), 3000, strength)
    assert ((rates > 0.93) & (rates < 0.97)).all(), rates


def test_the_interval_is_that_of_a_bootstrap_over_descriptors():
    rng = np.random.default_rng(5)
    shifts = rng.normal(size=(60, NUM_STYLES))
    along = values_along(styles_of(drawn(rng, shifts, 4, 1.0)), styles_of(drawn(rng, shifts, 4, 1.0)))
    values = 1000 * np.array(list(along.values.values()))
    drawn_means = values[rng.integers(len(values), size=(20_000, len(values)))].mean(axis=1)
    mean = mean_value(along)
    assert mean.value == pytest.approx(values.mean())
    assert mean.interval == pytest.approx(np.quantile(drawn_means, (0.025, 0.975)), rel=0.04)
    half = stats.t.ppf(0.95, 59) * values.std(ddof=1) / np.sqrt(60)
    assert mean_value(along, 0.9).interval == pytest.approx((values.mean() - half, values.mean() + half))


def test_few_descriptors_have_no_interval():
    rng = np.random.default_rng(6)
    replies = replies_of(rng, np.full((MIN_DESCRIPTORS - 1, 2), 3))
    mean = mean_value(own_values(*replies))
    assert mean.interval is None
    assert np.isfinite(mean.value)


def runs_with(monkeypatch, *values, digests=None):
    """Runs whose terms have these mean bias values: a mapping of numbers for each."""
    runs = [
        Run(str(number), {"run": {"style_classifier": {"digest": (digests or "aaaaaa")[number]}}})
        for number in range(len(values))
    ]
    along = [
        ValuesAlong({DescriptorKey("x", f"d{term}"): value for term, value in of.items()}, 0, False) for of in values
    ]
    monkeypatch.setattr("hb_metrics.obedience.run_values_along", lambda run, _: along[int(run.folder)])
    monkeypatch.setattr("hb_metrics.measurements.generation.tuned.read_directions", lambda _: None)
    return runs


def test_a_change_is_in_percent_of_the_same_terms_and_of_what_is_clearly_above_0(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    first = {term: 0.004 + 0.001 * rng.random() for term in range(40)}
    half = {term: value / 2 for term, value in first.items() if term < 20}
    first |= {term: 10 * value for term, value in first.items() if term >= 20}
    around_0 = dict(enumerate(rng.normal(1e-4, 1e-2, 40)))
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
    for read in (labels_ceiling, lambda folder: other_model_notes(folder, [])):
        with pytest.raises(ValueError, match=r"has no labels.json; give a folder that hb_train/bias_labels.py has"):
            read(tmp_path)
