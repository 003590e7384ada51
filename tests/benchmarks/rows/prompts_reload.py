"""Loading the prompts of v1.0 a second time, beside building them again."""

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from tests.benchmarks.row import OURS, Row, Side
from tests.benchmarks.rows.prompts import by_pandas, by_python, number_of_terms

CONFIG = "v1.0"
EVERY = 997  # rows from one text that is looked at to the next; what is loaded is not read otherwise


def by_us(number: int, cache: tempfile.TemporaryDirectory[str]) -> dict[str, np.ndarray]:
    """`load_dataset` of what was prepared before."""
    import datasets

    prompts = datasets.load_dataset("holistic_bias", CONFIG, cache_dir=cache.name, split="test")
    lengths = [len(text.encode()) for text in prompts[::EVERY]["text"]]
    return {"num_prompts": np.array(len(prompts)), "lengths": np.array(lengths)}


def prepared(number: int) -> tempfile.TemporaryDirectory[str]:
    """A cache of `datasets` that holds the prompts; it goes when nobody holds it."""
    import datasets
    from datasets.builder import Key

    from hb_dataset.builder import HolisticBias
    from hb_dataset.prompt_table import prompt_table

    class Part(HolisticBias):
        """The dataset with the first so many terms."""

        def _generate_tables(self) -> Iterator[tuple[Key, pa.Table]]:
            terms = self.vocabulary.descriptors[:number]
            yield Key(0, 0), prompt_table(terms, self.vocabulary.nouns, self.vocabulary.templates)

    cache = tempfile.TemporaryDirectory()
    shown = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    Part(CONFIG, cache_dir=cache.name).download_and_prepare()
    if not shown:
        datasets.enable_progress_bars()
    return cache


def looked_at(build: Callable[[int, None], dict[str, np.ndarray]]) -> Callable[[int, Any], dict[str, np.ndarray]]:
    """A peer that builds the prompts, and what it finds of those that are looked at."""

    def run(number: int, loaded: None) -> dict[str, np.ndarray]:
        lengths = np.diff(build(number, loaded)["text_ends"])
        return {"num_prompts": np.array(len(lengths)), "lengths": lengths[::EVERY]}

    return run


ROW = Row(
    title="Loading the prompts of v1.0 again",
    inputs=number_of_terms,
    work=lambda number: number,
    unit="terms",
    sides={
        OURS: Side(run=by_us, load=prepared, repeats=7, seconds_bar=0.2),
        "loops over dicts, again": Side(run=looked_at(by_python), bar=5.0, repeats=1),
        "pandas, again": Side(run=looked_at(by_pandas), bar=5.0, repeats=1),
    },
    notes=lambda found: "`load_dataset` maps the file into memory and reads what is asked for; imports are not counted",
)
