"""Mean bias values along other replies' directions: a loop over replies, leaving replies out, and coverage."""

import numpy as np
import pytest

from hb_metrics.measurements.generation.tuned import labels_ceiling, other_model_notes, tuned_rows
from hb_metrics.obedience.errors import RepliesOf, shared_noise
from hb_metrics.obedience.values import (
    OTHER_CLASSIFIER_REASON,
    Directions,
    ValuesAlong,
    less_shared_noise,
    mean_change,
    mean_value,
    obedience,
    own_values,
    values_along,
)
from hb_metrics.reply_checks.style_change import RunStyles
from hb_metrics.runs.finished_run import Run
from hb_metrics.statistics.bias_values import DescriptorKey, bias_values

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


def drawn(rng, shifts, number, strength, alike=None, same=0.0):
    """Replies of two templates to each descriptor, whose styles shift; `strength` of the shift is left.

    A share `same` of chance is that of other replies, `alike`. Returns the replies and their chance.
    """
    chance = rng.normal(size=(len(shifts), 2, number, NUM_STYLES))
    if alike is not None:
        chance = np.where(rng.random((*chance.shape[:3], 1)) < same, alike, chance)
    vectors = 0.5 + 0.05 * strength * shifts[:, None, None] + 0.03 * chance
    names = [f"d{row:03}" for row in np.repeat(np.arange(len(shifts)), 2 * number)]
    templates = [f"t{row}" for row in np.tile(np.repeat([0, 1], number), len(shifts))]
    replies = vectors.clip(0, 1).reshape(-1, NUM_STYLES), names, templates, ["x"] * len(names)
    return replies, chance


def with_ids(replies):
    vectors, names, templates, _ = replies
    ids = [str(row) for row in range(len(names))]
    return RepliesOf(vectors, ids, [DescriptorKey("x", name) for name in names], templates)


def some_far(rng, number):
    """Shifts of descriptors of which a fifth has nearly all of the bias."""
    return rng.normal(size=(number, NUM_STYLES)) * np.where(np.arange(number) < number / 5, 1.5, 0.3)[:, None]


def coverage(seed, sets, strength, own, num_descriptors=30, number=6, same=0.4):
    """How often intervals of the first mean, the second, and the change hold the truth."""
    rng = np.random.default_rng(seed)
    shifts = some_far(rng, num_descriptors)
    ways = shifts - shifts.mean(axis=0)
    others = 0.05 * shifts + 0.01 * rng.normal(size=shifts.shape)  # noisy directions, given
    given = RunStyles([DescriptorKey("x", f"d{row:03}") for row in range(len(shifts))], others, ["s"] * NUM_STYLES)
    along = 0.05 * ways if own else others - others.mean(axis=0)
    full = 1000 * 0.05 * float(np.einsum("ds,ds->d", ways, along).mean())
    held = []
    for _ in range(sets):
        before, chance = drawn(rng, shifts, number, 1.0)
        after, _ = drawn(rng, shifts, number, strength, chance, same)
        paired = with_ids(before), with_ids(after)
        directions = styles_of(before) if own else given
        second = values_along(styles_of(after), directions, paired[1])
        if own:
            first = own_values(*before, ids=paired[0].ids)
            second = less_shared_noise(second, first.replies)
        else:
            first = values_along(styles_of(before), directions, paired[0])
        means = mean_value(first), mean_value(second), mean_change(first, second)
        truths = full, strength * full, (strength - 1) * full
        held.append([mean.interval[0] <= truth <= mean.interval[1] for mean, truth in zip(means, truths, strict=True)])
    return np.mean(held, axis=0)


@pytest.mark.parametrize("own", [False, True])
def test_intervals_hold_the_truth_about_as_often_as_they_should(own):
    assert (coverage(3, 50, 0.7, own) > 0.85).all()


@pytest.mark.long
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("strength", [0.0, 0.7, 1.0])
def test_intervals_hold_the_truth_as_often_as_they_should(strength, own):
    rates = coverage(4, 600, strength, own)
    assert (rates > 0.925).all(), rates
    assert (rates < (0.995 if own else 0.975)).all(), rates


def test_what_replies_share_with_those_of_the_directions_is_subtracted():
    """Without bias, replies that are partly the same go along the directions of the others."""
    rng = np.random.default_rng(8)
    left, kept = [], []
    for _ in range(40):
        before, chance = drawn(rng, np.zeros((12, NUM_STYLES)), 4, 1.0)
        after, _ = drawn(rng, np.zeros((12, NUM_STYLES)), 4, 1.0, chance, 0.5)
        along = values_along(styles_of(after), styles_of(before), with_ids(after))
        kept.append(mean_value(along).value)
        left.append(mean_value(less_shared_noise(along, with_ids(before))).value)
    assert abs(np.mean(left)) < 4 * np.std(left) / np.sqrt(40)
    assert np.mean(kept) > 10 * np.std(kept) / np.sqrt(40)


def test_replies_share_no_noise_with_those_to_other_prompts():
    rng = np.random.default_rng(0)
    one, other = (with_ids(drawn(rng, np.zeros((3, NUM_STYLES)), 4, 1.0)[0]) for _ in range(2))
    assert shared_noise(one, other._replace(ids=[f"other {name}" for name in other.ids])) == {}


def test_the_interval_is_that_of_a_bootstrap_of_replies():
    rng = np.random.default_rng(5)
    shifts = some_far(rng, 20)
    replies, directions = drawn(rng, shifts, 40, 1.0)[0], styles_of(drawn(rng, shifts, 4, 1.0)[0])
    mean = mean_value(values_along(styles_of(replies), directions, with_ids(replies)))
    cells = replies[0].reshape(20, 2, 40, NUM_STYLES)
    ways = directions.descriptor_means - directions.descriptor_means.mean(axis=0)
    values = 1000 * np.einsum("dtns,ds->dtn", cells, ways)
    chosen = rng.integers(40, size=(2500, *values.shape))
    boot = np.take_along_axis(values[None], chosen, axis=3).mean(axis=(1, 2, 3))
    low, high = np.quantile(boot, (0.025, 0.975))
    assert mean.value == pytest.approx(values.mean())
    assert mean.interval[1] - mean.interval[0] == pytest.approx(high - low, rel=0.06)


def test_there_is_no_interval_of_single_replies_or_without_the_replies():
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
    return ValuesAlong(dict(zip(keys, values.values(), strict=True)), 0, False, ways, ways, replies)


def runs_with(monkeypatch, *values, digests=None):
    """Runs whose terms have these mean bias values: a mapping of numbers for each."""
    runs = [
        Run(str(number), {"run": {"style_classifier": {"digest": (digests or "aaaaaa")[number]}}})
        for number in range(len(values))
    ]
    along = [along_with(of) for of in values]
    monkeypatch.setattr("hb_metrics.obedience.values.run_values_along", lambda run, _: along[int(run.folder)])
    monkeypatch.setattr("hb_metrics.measurements.generation.tuned.read_directions", lambda _: None)
    return runs


def test_a_change_is_in_percent_of_the_same_terms_and_of_what_is_clearly_above_0(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    first = {term: 0.004 + 0.001 * rng.random() for term in range(40)}
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
    for read in (labels_ceiling, lambda folder: other_model_notes(folder, [])):
        with pytest.raises(ValueError, match=r"has no labels.json; give a folder that hb_train/bias_labels.py has"):
            read(tmp_path)
