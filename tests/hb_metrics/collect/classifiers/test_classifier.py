from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hb_metrics.collect.classifiers.classifier import classify_into_shards
from hb_metrics.collect.classifiers.regard import REGARDS, load_regard_classifier


def into_shards(texts, ids, classifier, folder, **options):
    about = pa.table({"axis": [f"axis of {identifier}" for identifier in ids]})
    classify_into_shards(texts, ids, classifier, folder, label="labels", about=about, **options)
    return pq.read_table(folder)


@pytest.fixture(scope="module")
def classifier(save_classifier):
    return load_regard_classifier(save_classifier(*REGARDS))


def test_probabilities_come_back_from_shards(texts, classifier, tmp_path):
    precision, some = "float64", [*texts, *texts[:4], " ".join(texts[:20])]
    ids = [f"id-{row}" for row in range(len(some))][::-1]
    table = into_shards(some, ids, classifier, tmp_path, precision=precision, rows_per_shard=8)

    kind = pa.list_(pa.from_numpy_dtype(precision), 4)
    columns = [("id", pa.string()), ("axis", pa.string()), ("probabilities", kind), ("truncated", pa.bool_())]
    assert table.schema == pa.schema(columns)
    assert len(list(tmp_path.iterdir())) == -(-len(some) // 8)
    assert table["id"].to_pylist() == ids
    assert table["axis"].to_pylist() == [f"axis of {identifier}" for identifier in ids]
    probabilities = np.array(table["probabilities"].to_pylist(), precision)
    expected, truncated = classifier.classify(some)
    assert probabilities.shape == (len(some), 4)
    np.testing.assert_allclose(probabilities, expected, atol=1e-6)
    assert table["truncated"].to_pylist() == truncated.tolist()
    assert truncated[-1]
    assert not truncated[0]

    files, asked = {path: path.read_bytes() for path in tmp_path.iterdir()}, []
    min(files).unlink()
    counting = replace(
        classifier, classify_distinct=lambda some: asked.append(some) or classifier.classify_distinct(some)
    )
    assert into_shards(some, ids, counting, tmp_path, precision=precision, rows_per_shard=8).equals(table)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files
    assert len(asked) == 1


def test_equal_texts_are_classified_once(texts, classifier):
    asked, classify = [], classifier.classify_distinct
    counting = replace(classifier, classify_distinct=lambda some: asked.extend(some) or classify(some))
    probabilities = counting.probabilities([*texts, *reversed(texts)])
    assert sorted(asked) == sorted(set(texts))
    np.testing.assert_array_equal(probabilities[:30], probabilities[30:][::-1])


def test_texts_that_cannot_be_classified_are_named(classifier, tmp_path):
    for bad in ("", " \n", None, float("nan")):
        with pytest.raises(ValueError, match=r"^text 1 is "):
            classifier.probabilities(["Hi.", bad, bad])
        with pytest.raises(ValueError, match=r"^text 1 is "):
            into_shards(["Hi.", bad], ["a", "b"], classifier, tmp_path)
    with pytest.raises(ValueError, match="pass a list of texts"):
        classifier.probabilities("Hi.")
    assert not list(tmp_path.iterdir())
