"""What Likelihood Bias refuses before a model has scored anything."""

import pytest
import yaml

from hb_metrics.measure import main
from tests.hb_metrics.chat_models import write_trained_vocabulary


def test_terms_without_another_to_compare_with_are_refused_before_scoring(save_small_model, tmp_path):
    vocabulary, out = write_trained_vocabulary(tmp_path / "vocabulary"), tmp_path / "run"
    for axis in ("age", "ability"):
        content = yaml.safe_load((vocabulary / f"{axis}.yaml").read_text())
        (vocabulary / f"{axis}.yaml").write_text(yaml.safe_dump({**content, "terms": content["terms"][:1]}))
    options = ["--model", save_small_model("gpt2"), "--vocabulary_dir", vocabulary, "--dataset_config", "v1.0"]
    options += ["--measurements", "likelihood", "--output_dir", out]
    with pytest.raises(SystemExit, match="no axis has two terms in the same template; set --axes, --sample"):
        main([*map(str, options)])
    assert not out.exists()
