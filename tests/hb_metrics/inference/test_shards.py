import numpy as np
import pytest

from hb_metrics.inference.scoring import scoring_shards
from hb_metrics.inference.scoring.perplexity import plan_perplexity, score_perplexity
from hb_metrics.inference.scoring.scoring_shards import plan_shards, score_into_shards


@pytest.fixture
def job(prompts, get_small_model, monkeypatch):
    """A plan of several shards over texts of which some are equal, their ids and texts, and the model."""
    monkeypatch.setattr(scoring_shards, "UNITS_PER_SHARD", 2)
    texts = [*prompts[:100], *prompts[:5]]
    model, tokenizer = get_small_model("llama")
    plan = plan_perplexity(texts, model, tokenizer, max_positions=64)
    return plan, {"id": [f"id{row}" for row in range(len(texts))], "text": texts}, model


def scored_files(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}


def test_each_text_is_in_one_shard_and_comes_back_in_order(job, tmp_path, get_small_model):
    plan, columns, model = job
    table = score_into_shards(plan, columns, tmp_path, model, progress=False)
    assert table["id"].to_pylist() == columns["id"]
    assert table["text"].to_pylist() == columns["text"]
    expected = score_perplexity(columns["text"], *get_small_model("llama"), max_positions=64, progress=False)
    np.testing.assert_array_equal(table["perplexity"].to_numpy(), expected.perplexities)
    np.testing.assert_array_equal(table["num_tokens"].to_numpy(), expected.num_tokens)
    parts = plan_shards(plan, tmp_path)
    assert len(parts) > 3
    assert sorted(np.concatenate([part.rows for part in parts])) == list(range(len(columns["id"])))
    assert sorted(scored_files(tmp_path)) == sorted(part.path.name for part in parts)


def test_stored_shards_are_not_scored_again(job, tmp_path, capsys):
    plan, columns, model = job
    whole = score_into_shards(plan, columns, tmp_path, model, progress=False)
    before = scored_files(tmp_path)
    gone = sorted(before)[1]
    (tmp_path / gone).unlink()
    again = score_into_shards(plan, columns, tmp_path, model, progress=False)
    assert again.equals(whole)
    changed = {name for name, time in scored_files(tmp_path).items() if before[name] != time}
    assert changed == {gone}
    assert "rows were already in" in capsys.readouterr().out
