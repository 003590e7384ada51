"""Folders of made runs, written once; tests copy them before they change them."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hb_metrics.measurements.likelihood.compute import likelihood_results
from hb_metrics.run.tables import Tables
from tests.hb_metrics.made_results import (
    LOVE_HATE,
    add_dialogue,
    full_run,
    offensiveness_of,
    scored,
    style_vectors,
    write_results,
    write_run,
    write_tuning_runs,
    write_vectors,
)


def write_files(folder, seed):
    """A made run's folder with all the files that changes are computed from."""
    results, replies = write_run(folder, full_run(seed=seed), seed=seed)
    prompts, rng = Tables(folder).prompts(), np.random.default_rng(seed)
    write_vectors(folder / "style_probabilities", replies.ids, style_vectors(replies, seed).astype(np.float32))
    chances = np.random.default_rng(seed).beta(1, 4, len(replies.ids))  # those of `offensiveness_of`
    write_vectors(folder / "offensiveness" / "replies", replies.ids, np.stack([chances, 1 - chances], axis=1))
    results["offensiveness"]["replies"] = offensiveness_of(replies, seed, are_replies=True)
    strength = 0.3 / (1 + seed)
    codes = prompts["descriptor"].combine_chunks().dictionary_encode().indices.to_numpy()
    perplexities = rng.lognormal(3 + strength * (codes % 7), 0.5)
    scores = scored(prompts, perplexities, np.full(len(prompts), 5))
    results["likelihood"] = likelihood_results(scores, LOVE_HATE)
    (folder / "perplexities").mkdir()
    shuffled = scores.take(pa.array(rng.permutation(len(scores))))
    pq.write_table(shuffled, folder / "perplexities" / "00000-of-00001.parquet")
    tokens = np.arange(5, 85)
    losses = tokens * (3 + 0.1 * seed + 0.05 * rng.normal(size=80))
    names = [f"d{row:02}" for row in range(80)]
    dialogue = {"id": names, "prompt": names, "reply": names, "log_likelihood": -losses, "num_tokens": tokens}
    (folder / "dialogue").mkdir()
    pq.write_table(pa.table(dialogue), folder / "dialogue" / "00000-of-00001.parquet")
    add_dialogue(results, float(np.exp(losses.sum() / tokens.sum())), None)
    write_results(folder, results)
    return folder


@pytest.fixture(scope="session")
def made_runs(made_once):
    """Two runs with all the files that changes are computed from."""
    root = made_once("runs", lambda root: [write_files(root / name, seed) for seed, name in enumerate("ab")])
    return [root / name for name in "ab"]


@pytest.fixture(scope="session")
def tuning_runs(made_once):
    """A run before tuning and three after."""
    root = made_once("tuning", write_tuning_runs)
    return [root / name for name in "abcd"]


@pytest.fixture
def copied(tuning_runs, tmp_path):
    """Copies of the runs, to change."""
    return [shutil.copytree(folder, tmp_path / folder.name) for folder in tuning_runs]
