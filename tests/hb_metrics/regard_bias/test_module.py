import doctest
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from hb_metrics.regard_bias import regard_results, regard_rows
from hb_metrics.regard_bias.regard_bias import FORMAT_ERROR, RegardBias
from hb_metrics.regard_bias.regard_results import regard_bias
from hb_metrics.regard_bias.regard_rows import REGARDS

OPTIONS = {"pairs": {"gender": ["man", "woman"]}, "smoothing": 1, "n_halves": 20}


@pytest.fixture
def metric(tmp_path):
    return RegardBias(cache_dir=str(tmp_path))


def columns_of(kind, seed=0):
    """Two groups, three structures, four seeds, with labels or probabilities."""
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.ones(4), 24)
    labels = [REGARDS[index] for index in probabilities.argmax(axis=1)]
    return {
        "predictions": labels if kind == "labels" else probabilities.tolist(),
        "groups": ["man", "woman"] * 12,
        "structures": [structure for structure in ("original", "cleft-it", "tag") for _ in range(8)],
        "prompts": [f"{number % 4}" for number in range(24)],
        "seeds": [number // 2 % 4 for number in range(24)],
    }


def expected_of(columns, **options):
    columns = dict(columns)
    return regard_bias(columns.pop("predictions"), columns.pop("groups"), **columns, **options)


@pytest.mark.parametrize("kind", ["labels", "probabilities"])
@pytest.mark.parametrize("options", [OPTIONS, {"other": "keep", "kl": False, "k": 1, "seed": 3}])
def test_one_call_gives_what_the_function_gives(metric, kind, options):
    columns = columns_of(kind)

    assert metric.compute(**columns, **options) == expected_of(columns, **options)


@pytest.mark.parametrize("kind", ["labels", "probabilities"])
def test_batches_and_single_rows_give_the_same(metric, kind):
    columns = columns_of(kind)
    expected = expected_of(columns, **OPTIONS)

    for start in range(0, 24, 5):
        metric.add_batch(**{name: column[start : start + 5] for name, column in columns.items()})
    assert metric.compute(**OPTIONS) == expected

    for index in range(24):
        row = {name: column[index] for name, column in columns.items()}
        metric.add(prediction=row.pop("predictions"), **row)
    assert metric.compute(**OPTIONS) == expected


@pytest.mark.parametrize("kind", ["labels", "probabilities"])
@pytest.mark.parametrize("given", [(), ("structures",), ("prompts", "seeds"), ("structures", "seeds")])
def test_structures_prompts_and_seeds_may_be_left_out(metric, kind, given):
    columns = {name: column for name, column in columns_of(kind).items() if name in ("predictions", "groups", *given)}
    expected = expected_of(columns, **OPTIONS)

    assert metric.compute(**columns, **OPTIONS) == expected
    for start in range(0, 24, 12):
        metric.add_batch(**{name: column[start : start + 12] for name, column in columns.items()})
    assert metric.compute(**OPTIONS) == expected


def test_arrays_are_taken(metric):
    columns = columns_of("probabilities")
    arrays = {**columns, "predictions": np.array(columns["predictions"]), "seeds": np.array(columns["seeds"])}

    assert metric.compute(**arrays, **OPTIONS) == expected_of(columns, **OPTIONS)
    labels = columns_of("labels")
    arrays = {**labels, "predictions": np.array(labels["predictions"])}
    assert metric.compute(**arrays, **OPTIONS) == expected_of(labels, **OPTIONS)


@pytest.mark.parametrize(
    ("changed", "options", "message"),
    [
        ({"predictions": ["good"] * 24}, {}, "prediction 'good' in row 0 is not a label"),
        ({"structures": ["original"] * 23 + [None]}, {}, "structures is None in row 23"),
        ({"seeds": [None] + [1] * 23}, {}, "seeds is None in row 0"),
        ({"predictions": [[0.5, 0.5]] * 24}, {}, "predictions have the shape (24, 2)"),
        ({"predictions": [], "groups": []}, {}, regard_rows.EMPTY_ERROR),
        ({}, {"other": "skip"}, regard_rows.OTHER_ERROR.format(other="skip")),
        ({}, {"k": 0}, regard_results.WHOLE_NUMBER_ERROR.format(name="k", value=0, least=1)),
        ({"groups": ["man"] * 23}, {}, "Mismatch in the number of predictions (24) and groups (23)"),
        ({"predictions": [1] * 24}, {}, FORMAT_ERROR.format(prediction=1, group="man")),
        ({"groups": [1] * 24}, {}, "the group 1; give a label, or a list of probabilities"),
        ({"groups": []}, {}, "the group None; give a label"),
        ({"groups": {"man"}}, {}, "groups: a set, which has no order, was given"),
        ({"structures": "o" * 24}, {}, "structures: a single string was given"),
        ({"seeds": [1.5] * 24}, {}, "seeds is 1.5 in row 0"),
        ({"seeds": [True] * 24}, {}, "seeds is True in row 0"),
        ({"predictions": [list("1000")] * 24}, {}, "predictions cannot be read as probabilities"),
        (
            {"predictions": np.ma.array([[1.0, 0, 0, 0]] * 24, mask=True)},
            {},
            "has masked values (24 rows, the first is 0)",
        ),
        ({"references": ["man"] * 24}, {}, "references were given"),
        ({}, {"kl": "false"}, "kl is 'false'"),
    ],
)
def test_errors_reach_the_caller(metric, changed, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        metric.compute(**{**columns_of("labels"), **changed}, **options)


def test_single_rows_are_labels_or_probabilities(metric):
    with pytest.raises(ValueError, match=r"the first row has the prediction 0\.5"):
        metric.add(prediction=0.5, groups="man")


def test_rows_and_batches_are_checked_as_a_whole_call_is(metric):
    with pytest.raises(ValueError, match=r"seeds is 1\.5"):
        metric.add(prediction="neutral", groups="man", seeds=1.5)
    with pytest.raises(ValueError, match="references were given"):
        metric.add(prediction="neutral", reference="neutral", groups="man")
    with pytest.raises(ValueError, match="references were given"):
        metric.add_batch(predictions=["neutral"], references=["neutral"], groups=["man"])


def test_columns_of_a_table_are_taken_whatever_their_index(metric):
    columns = columns_of("labels")
    table = pd.DataFrame(columns, index=range(7, 31))

    assert metric.compute(**{name: table[name] for name in columns}, **OPTIONS) == expected_of(columns, **OPTIONS)


def test_the_example_of_the_documentation_holds(metric):
    names = {"evaluate": SimpleNamespace(load={"regard_bias": metric}.__getitem__)}
    example = doctest.DocTestParser().get_doctest(metric.inputs_description, names, "card", None, None)

    assert doctest.DocTestRunner().run(example) == (0, 5)


def test_the_card_tells_every_result_and_every_option():
    card = (Path(regard_rows.__file__).parent / "README.md").read_text(encoding="utf-8")
    columns = columns_of("labels")
    results = expected_of(columns, **OPTIONS)

    for name in (*results, *results["robustness"], *results["gaps"]["gender"], *results["by_group"]["man"], *columns):
        assert re.search(rf"\b{name}\b", card), name
