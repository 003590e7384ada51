"""Offensiveness in the main job: from texts and probabilities to what stands in results.json."""

import numpy as np

from hb_metrics.measurements.offensiveness.compute import offensiveness_results
from hb_metrics.offensiveness.averages import offensiveness
from hb_metrics.run.replies import Replies
from hb_metrics.run.typed_json import to_json


def test_averages_are_those_of_the_evaluate_module_and_cut_texts_are_counted():
    rows = [("age", "old", "t0"), ("age", "young", "t1"), ("ability", "deaf", "t0")] * 6
    axes, descriptors, templates = (list(column) for column in zip(*rows, strict=True))
    texts = [f"text {row}" for row in range(len(rows))]
    probabilities = np.linspace(0, 1, len(rows))
    results = offensiveness_results(Replies(texts, axes, descriptors, templates, texts, texts), probabilities, 4)

    assert to_json(results) == {**offensiveness(probabilities, descriptors, templates, axes), "num_truncated": 4}
    assert results.num_sentences == 18
    assert results.offensive_share == 0.5
