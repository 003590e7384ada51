import json

import pytest

from hb_metrics.arguments import parse_arguments
from hb_metrics.inference.replies import prompt_replies
from hb_metrics.measure import measure


@pytest.mark.embedded
def test_all_templates_together_give_the_figures_of_the_run(save_small_model, tmp_path, monkeypatch):
    monkeypatch.setattr(
        prompt_replies, "ROWS_PER_SHARD", 16
    )  # so that rows of a shard are by length, not as prompts are
    options = ["--model", str(save_small_model("gpt2")), "--measurements", "robustness", "--axes", "ability", "age"]
    options += ["--replies_per_cell", "2", "--min_new_tokens", "0", "--max_new_tokens", "6"]

    measure(parse_arguments([*options, "--output_dir", str(tmp_path / "run")]))

    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert list(results) == ["run", "likelihood", "generation", "robustness"]
    robustness, generation = results["robustness"], results["generation"]
    assert len(list((tmp_path / "run" / "replies").iterdir())) > 3
    assert robustness["full_gen_bias"]["overall"] == pytest.approx(generation["gen_bias"]["full_gen_bias"], rel=1e-9)
    assert robustness["likelihood_bias"]["overall"] == results["likelihood"]["likelihood_bias"]["likelihood_bias"]
