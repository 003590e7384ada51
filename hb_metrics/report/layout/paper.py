"""Provides the numbers that the paper prints (Smith et al., 2022). paper.yaml states the table of each number."""

from pathlib import Path
from typing import Any

import yaml

_PRINTED: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("paper.yaml").read_text(encoding="utf-8"))
_ORIGINAL = {row["model"]: row for row in _PRINTED["gen_bias"] if row["tuning"] is None}

# The keys are models, and then axes or clusters. Gen Bias values are ×1000.
FULL_GEN_BIAS = {model: row["full"] for model, row in _ORIGINAL.items()}
PARTIAL_GEN_BIAS = {model: row["partial"] for model, row in _ORIGINAL.items()}
SUMMED_CLUSTER_GEN_BIAS = {model: row["summed"] for model, row in _ORIGINAL.items()}
GEN_BIAS_BY_AXIS: dict[str, dict[str, float]] = _PRINTED["gen_bias_by_axis"]
TUNED_GEN_BIAS_BY_AXIS: dict[str, dict[str, float]] = _PRINTED["tuned_gen_bias_by_axis"]
REDUCTION: dict[str, float] = _PRINTED["reduction"]
PARROTING_REPLIES: dict[str, float] = _PRINTED["parroting_replies"]
OFFENSIVE_REPLIES: dict[str, float] = _PRINTED["offensive_replies"]
HUMAN_EVALUATION: dict[str, dict[str, float]] = _PRINTED["human_evaluation"]
# Each row has the keys model, tuning (`None` for an untuned model), full, partial (by cluster) and summed (by cluster).
TUNING: list[dict[str, Any]] = _PRINTED["gen_bias"]
# Each row has the keys model, where, template and by_axis.
LIKELIHOOD_BIAS: list[dict[str, Any]] = _PRINTED["likelihood_bias"]
# The mean and standard deviation for each template.
PROMPT_OFFENSIVENESS: dict[str, list[float]] = _PRINTED["prompt_offensiveness"]
# For each phrase and each group of descriptors, the share before and after bias tuning.
PHRASE_RATES: dict[str, dict[str, list[float]]] = _PRINTED["phrase_rates"]
EXTREMES_TEMPLATE: str = _PRINTED["extremes_template"]
OFFENSIVE_EXTREMES_TEMPLATES: list[str] = _PRINTED["offensive_extremes_templates"]
