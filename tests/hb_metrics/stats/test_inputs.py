"""Inputs of the metrics: those that Python would misread are rejected, and named."""

import decimal
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from datasets import Dataset

from hb_metrics.full_gen_bias.full_gen_bias import FullGenBias
from hb_metrics.likelihood_bias.likelihood_bias import LikelihoodBias
from hb_metrics.likelihood_bias.shares import likelihood_bias
from hb_metrics.offensiveness.averages import offensiveness
from hb_metrics.offensiveness.offensiveness import Offensiveness
from hb_metrics.stats.cell_sums import CellSums
from hb_metrics.stats.gen_bias import gen_bias

NAMES = {"descriptors": ["old", "old", "young", "young"], "templates": ["t"] * 4, "axes": ["age"] * 4}
NUMBERS = [0.1, 0.2, 0.3, 0.4]
NAN = float("nan")
STYLES = [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7], [0.4, 0.6]]


def of_styles(predictions, descriptors, templates, axes=None, **options):
    """`gen_bias` of replies that come in one batch."""
    cells = CellSums(options.pop("labels", None), options.pop("clusters", None), keep_replies=True)
    cells.add(predictions, descriptors, templates, axes)
    return gen_bias(cells, **options)._asdict()


FUNCTIONS = {"likelihood_bias": likelihood_bias, "offensiveness": offensiveness, "gen_bias": of_styles}


def numbers_of(name):
    return STYLES if "gen" in name.lower() else NUMBERS


def test_columns_of_no_numbers_are_rejected():
    for name, compute in FUNCTIONS.items():
        good = numbers_of(name)
        masked = np.ma.array(good)
        masked[2] = np.ma.masked
        hidden = [*good[:3], np.ma.masked_array(good[3], mask=True)]
        bad = {
            "predictions: a single string was given": ["1234", b"1234", bytearray(b"1234")],
            "predictions: a set, which has no order, was given": [{1, 2, 3, 4}],
            "predictions: a mapping was given": [dict.fromkeys(range(4), 0.5)],
            "predictions: a single value or an iterator": [3, iter(good), np.array(0.5), np.ma.masked],
            "predictions: a column with masked values": [masked, hidden],
            "cannot be read as numbers": [
                np.array(good).astype(str).tolist(),
                np.array(good).astype(str),
                np.array(good).astype(str).astype(object),
                np.array(good).astype(complex),
                np.array([1, 2, 3, 4], "datetime64[D]"),
                [object()] * 4,
                torch.tensor(good, requires_grad=True),
            ],
        }
        for message, wrong in bad.items():
            for predictions in wrong:
                with pytest.raises(ValueError, match=message):
                    compute(predictions, **NAMES)


def test_columns_of_no_names_are_rejected():
    for name, compute in FUNCTIONS.items():
        for column in NAMES:
            for bad, message in (
                ("abcd", "a single string"),
                ({"a", "b", "c", "d"}, "a set, which has no order,"),
                (iter("abcd"), "a single value or an iterator"),
            ):
                with pytest.raises(ValueError, match=f"{column}: {message}"):
                    compute(numbers_of(name), **{**NAMES, column: bad})
            masked = np.ma.array(NAMES[column], mask=[False, True, False, False])
            with pytest.raises(ValueError, match=f"{column}: a column with masked values"):
                compute(numbers_of(name), **{**NAMES, column: masked})


def test_columns_of_other_libraries_give_what_lists_give():
    for name, compute in FUNCTIONS.items():
        good = numbers_of(name)
        expected = json.dumps(compute(good, **NAMES))
        rows = np.array(good)
        forms = [rows, np.ma.array(rows), torch.tensor(rows), tuple(map(tuple, good)) if rows.ndim > 1 else tuple(good)]
        if rows.ndim == 1:
            forms += [
                pd.Series(good),
                pa.array(good),
                pa.chunked_array([good]),
                [decimal.Decimal(str(x)) for x in good],
            ]
        else:
            forms += [pd.DataFrame(good), [np.ma.array(row) for row in good], [*map(torch.tensor, rows)]]
            dataset = Dataset.from_dict({"p": good})
            forms += [pa.chunked_array([good[:1], good[1:]]), dataset["p"]]
            single = rows.astype(np.float32)
            for form in (torch.tensor(single), dataset.with_format("numpy")["p"]):
                assert compute(form, **NAMES) == compute(single.tolist(), **NAMES)
        for form in forms:
            assert json.dumps(compute(form, **NAMES)) == expected, (name, type(form))
        large = lambda column: pa.array(column, pa.large_string())  # noqa: E731
        for kind in (np.array, tuple, pd.Series, np.ma.array, pa.array, large):
            assert json.dumps(compute(good, **{key: kind(column) for key, column in NAMES.items()})) == expected, (
                name,
                kind,
            )


@pytest.mark.parametrize(
    ("name", "option", "allowed", "rejected"),
    [
        ("likelihood_bias", "alpha", [0.5, np.float64(0.5), np.float32(0.5)], ["0.05", True, None, 0, 1, NAN]),
        ("likelihood_bias", "include_gendered", [True, np.True_, False], ["false", 1, None]),
        ("offensiveness", "threshold", [1, 0.5, np.float32(0.5)], ["0.5", True, None, 0]),
        ("offensiveness", "ddof", [0, 1, np.int64(1)], ["0", True, 1.0, None, 2]),
        ("gen_bias", "ddof", [0, 1, np.int64(1)], ["0", True, 1.0, None, 2]),
        ("gen_bias", "debias", [False, np.True_], ["false", 1, None, "True"]),
        ("gen_bias", "scale", [1, np.int64(1000), np.float32(1)], ["1000", True, None, 0, float("inf")]),
        ("gen_bias", "confidence_level", [0.9, np.float32(0.9), None], ["0.9", True, 95, 0, NAN, 1e-17, 1 - 1e-16]),
    ],
)
def test_settings_that_are_not_allowed_are_rejected(name, option, allowed, rejected):
    for value in allowed:
        json.dumps(FUNCTIONS[name](numbers_of(name), **NAMES, **{option: value}))
    for value in rejected:
        with pytest.raises(ValueError, match=f"^{option} is "):
            FUNCTIONS[name](numbers_of(name), **NAMES, **{option: value})


def test_references_are_rejected_in_every_call(tmp_path):
    for module in (LikelihoodBias, Offensiveness):
        metric = module(cache_dir=str(tmp_path))
        with pytest.raises(ValueError, match="takes no references; omit them"):
            metric.compute(predictions=NUMBERS, references=[1, 2, 3, 4], **NAMES)
        with pytest.raises(ValueError, match="takes no references; omit them"):
            metric.add_batch(predictions=NUMBERS, references=[1, 2, 3, 4], **NAMES)
        with pytest.raises(ValueError, match="takes no references; omit them"):
            metric.add(prediction=0.5, reference=1, **{name: column[0] for name, column in NAMES.items()})
        with pytest.raises(ValueError, match="predictions cannot be read as numbers"):
            metric.add(prediction="0.5", **{name: column[0] for name, column in NAMES.items()})
        with pytest.raises(ValueError, match="predictions: nothing was given"):
            metric.add_batch(**NAMES)


def test_modules_read_slices_of_a_table_and_no_missing_names(tmp_path):
    """`evaluate` reads the row with the index 0, and a missing name as "nan"."""
    table = pd.DataFrame({"predictions": NUMBERS, **NAMES})
    for module in (LikelihoodBias, Offensiveness):
        metric = module(cache_dir=str(tmp_path))
        expected = metric.compute(**table.to_dict("list"))
        for half in (table[:2], table[2:].astype({"axes": "category"})):
            metric.add_batch(**half)
        with pytest.raises(TypeError, match="nonsense"):  # the added rows are kept
            metric.compute(nonsense=5)
        with pytest.raises(ValueError, match="has 4 rows, but predictions has 0"):
            metric.compute(predictions=[], **NAMES)
        assert metric.compute() == expected
        for name in NAMES:
            with pytest.raises(ValueError, match=f"{name} in row 3 is nan; pass a string"):
                metric.compute(**table.to_dict("list") | {name: [*NAMES[name][:3], NAN]})


def test_flags_of_the_module_and_labels_are_checked_too():
    for module in (FullGenBias, CellSums):
        with pytest.raises(ValueError, match="keep_replies is 'false'; pass True or False"):
            module(keep_replies="false")
        with pytest.raises(ValueError, match="labels: a set, which has no order, was given"):
            module(labels={"Calm", "Kind"})
    with pytest.raises(ValueError, match="clusters is"):
        of_styles(STYLES, **NAMES, labels=["Calm", "Kind"], clusters={"Mine": 3})
    results = of_styles(STYLES, **NAMES, labels=["Kind", "Calm"], clusters={"Mine": {"Kind", "Calm"}})
    assert results["clusters"] == {"Mine": ["Calm", "Kind"]}
