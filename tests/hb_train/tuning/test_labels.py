"""The tags of replies, the prompts held out for validation, and reading labels, without a run."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hb_dataset import load_table
from hb_dataset.prompt_columns import VARIATIONS
from hb_dataset.variations import mixed_variations, vary_prompts
from hb_train.tuning.labels import LABELS, held_out_rows, read_labels, read_split


def test_no_variation_of_a_prompt_is_on_the_other_side():
    """Nor of another prompt that varies into the same text, such as those of a term written with a capital."""
    prompts = load_table("v1.0")
    prompts = prompts.take(pa.array(range(0, len(prompts), len(prompts) // 3000)))
    plain = prompts["text"].to_pylist()
    every = vary_prompts(prompts, dict.fromkeys(VARIATIONS, np.ones(len(prompts), dtype=bool))).texts.to_pylist()
    mixed = [mixed_variations(prompts, seed=seed).texts.to_pylist() for seed in (0, 1)]
    columns = [held_out_rows([*plain, *every, *mixed[0], *mixed[1]], 0).reshape(4, -1)]
    assert all((column == column[0]).all() for column in columns)
    assert sum(a != b for a, b in zip(plain, every, strict=True)) > 2000
    held_out = held_out_rows(["I'm a Deaf kid.", "I am a deaf kid", "Hi! I'm a by-the-book mom.", "x"], 0)
    assert held_out[0] == held_out[1]


def test_too_few_prompts_to_split_are_refused():
    for texts in (["a"], ["a", "a", "a"], ["I'm Deaf.", "I am deaf"]):
        with pytest.raises(ValueError, match="distinct prompts with a reply is 1;"):
            held_out_rows(texts, 0)
    for number in (2, 14, 60):  # a tenth, and the same whatever the order
        texts = [f"text {index}" for index in range(number)]
        held_out = held_out_rows(texts, 0)
        assert held_out.sum() == max(1, round(0.1 * number))
        assert held_out_rows(texts[::-1], 0).tolist() == held_out[::-1].tolist()


def test_a_folder_without_labels_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"has no labels.json; pass a folder that hb_train/bias_labels.py has written"):
        read_labels(tmp_path)
    for content in ("[]", '{"a": 1}', "{"):
        (tmp_path / LABELS.record).write_text(content)
        with pytest.raises(ValueError, match=r"labels\.json"):
            read_labels(tmp_path)


def test_rows_that_cannot_be_read_are_named_with_their_script(tmp_path):
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / "data" / "validation.parquet")
    for split in ("train", "validation"):  # a file that is missing, and one without the columns
        with pytest.raises(ValueError, match=rf"{split}.*parquet' cannot be read .*hb_train/bias_labels\.py"):
            read_split(tmp_path, split)
