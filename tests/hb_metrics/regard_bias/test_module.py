import re

import numpy as np
import pytest

from hb_metrics.regard_bias.regard_bias import RegardBias
from hb_metrics.regard_bias.regard_rows import REGARDS
from tests.hb_metrics.regard_bias.rows import computed

OPTIONS = {"pairs": {"gender": ["man", "woman"]}, "smoothing": 1}


@pytest.fixture
def metric(tmp_path):
    return RegardBias(cache_dir=str(tmp_path))


@pytest.fixture
def columns():
    """Two groups, three structures, four seeds."""
    rng = np.random.default_rng(0)
    return {
        "predictions": [REGARDS[label] for label in rng.integers(0, 4, 24)],
        "groups": ["man", "woman"] * 12,
        "structures": [structure for structure in ("original", "cleft-it", "tag") for _ in range(8)],
        "prompts": [f"{number % 4}" for number in range(24)],
        "seeds": [number // 2 % 4 for number in range(24)],
    }


@pytest.mark.parametrize("given", [("structures",), ("structures", "prompts", "seeds")])
def test_calls_batches_and_single_rows_give_the_same(metric, columns, given):
    columns = {name: columns[name] for name in ("predictions", "groups", *given)}
    expected = computed(columns, **OPTIONS)

    assert metric.compute(**columns, **OPTIONS) == expected
    for start in range(0, 24, 5):
        metric.add_batch(**{name: column[start : start + 5] for name, column in columns.items()})
    assert metric.compute(**OPTIONS) == expected
    for index in range(24):
        row = {name: column[index] for name, column in columns.items()}
        metric.add(prediction=row.pop("predictions"), **row)
    assert metric.compute(**OPTIONS) == expected


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"predictions": [[0.5, 0.5]] * 24}, "don't match the expected format"),
        ({"groups": ["man"] * 23}, "Mismatch in the number of predictions (24) and groups (23)"),
        ({"references": ["man"] * 24}, "references were given"),
        ({"structure": ["tag"] * 24}, "unexpected keyword argument 'structure'"),
    ],
)
def test_errors_reach_the_caller(metric, columns, changed, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        metric.compute(**columns | changed)
