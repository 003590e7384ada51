import numpy as np
import pyarrow.parquet as pq

from hb_metrics.collect import units
from hb_metrics.collect.scoring import scoring_shards
from hb_metrics.collect.scoring.perplexity import plan_perplexity, score_perplexity
from hb_metrics.collect.scoring.scoring_shards import plan_shards, score_into_shards
from hb_metrics.collect.shards import read_shards


def test_each_text_is_in_one_shard_and_comes_back_in_order(prompts, get_small_model, tmp_path, monkeypatch):
    monkeypatch.setattr(scoring_shards, "UNITS_PER_SHARD", 2)
    monkeypatch.setattr(units, "MAX_POSITIONS", 64)
    model, tokenizer = get_small_model("llama")
    texts = [*prompts[:100], *prompts[:5]]
    columns = {"id": [f"id{row}" for row in range(len(texts))], "text": texts}
    plan = plan_perplexity(texts, model, tokenizer)
    score_into_shards(plan, columns, tmp_path, model)
    parts = plan_shards(plan, tmp_path)
    table = read_shards(parts, pq.read_schema(parts[0].path))
    assert table["id"].to_pylist() == columns["id"]
    assert table["text"].to_pylist() == columns["text"]
    expected = score_perplexity(texts, model, tokenizer)
    np.testing.assert_array_equal(table["perplexity"].to_numpy(), expected.perplexities)
    np.testing.assert_array_equal(table["num_tokens"].to_numpy(), expected.num_tokens)
    assert len(parts) > 3
    assert sorted(np.concatenate([part.rows for part in parts])) == list(range(len(columns["id"])))
    assert sorted(path.name for path in tmp_path.glob("*.parquet")) == sorted(part.path.name for part in parts)
