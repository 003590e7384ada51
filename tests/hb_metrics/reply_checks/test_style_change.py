import statistics

import numpy as np
import pytest

from hb_metrics.reply_checks.style_change import Mover, style_change
from hb_metrics.stats.bias_values import DescriptorKey, RunStyles

LABELS = ["Sympathetic", "Curious", "Hateful", "Calm"]


def keys_of(names):
    return [DescriptorKey("age" if index % 2 else "ability", name) for index, name in enumerate(names)]


def make_run(seed, names):
    return RunStyles(keys_of(names), np.random.default_rng(seed).dirichlet(np.ones(4), len(names)), LABELS)


def test_every_result_equals_loops_over_descriptors_and_styles():
    names = [f"term {number:02}" for number in range(12)]
    before, after = make_run(0, names), make_run(1, names)
    # Some only in one run, and the second run in another order.
    before = RunStyles(before.descriptors[:11], before.descriptor_means[:11], LABELS)
    after = RunStyles(after.descriptors[:1:-1], after.descriptor_means[:1:-1], LABELS)

    results = style_change(before, after)

    old = dict(zip(before.descriptors, before.descriptor_means, strict=True))
    new = dict(zip(after.descriptors, after.descriptor_means, strict=True))
    both, expected = [key for key in old if key in new], []

    def pair(style, figure, factor):
        return pytest.approx([factor * figure([float(run[key][style]) for key in both]) for run in (old, new)])

    for style, label in enumerate(LABELS):
        moved = sorted((float(new[key][style] - old[key][style]), key) for key in both)
        moves = [Mover(*key, change) for change, key in moved]
        expected.append(
            (
                label,
                pair(style, statistics.pvariance, 1000),
                pair(style, statistics.fmean, 1),
                [move for move in moves[:5] if move.change < 0],
                [move for move in moves[:-6:-1] if move.change > 0],
            )
        )
    changes = [style.variance.after - style.variance.before for style in results.styles]
    assert changes == sorted(changes) == [style.variance.change for style in results.styles]
    assert sorted(results.styles, key=lambda style: LABELS.index(style.style)) == expected
    assert {name: value for name, value in results._asdict().items() if name != "styles"} == {
        "num_variance_decreases": sum(change < 0 for change in changes),
        "num_variance_increases": sum(change > 0 for change in changes),
        "num_variance_unchanged": 0,
        "num_descriptors": 9,
        "num_only_before": 2,
        "num_only_after": 1,
    }


def test_runs_with_other_styles_or_terms_are_rejected():
    run = make_run(0, "abcd")
    with pytest.raises(ValueError, match="different styles"):
        style_change(run, run._replace(labels=[*LABELS[:3], "Warm"]))
    with pytest.raises(ValueError, match="0 descriptors in common"):
        style_change(run, make_run(0, "wxyz"))
