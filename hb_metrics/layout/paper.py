"""Provides the numbers reported in the paper (Smith et al., 2022).

paper.yaml describes each number, and states the table from which it comes. Its keys are the attributes of `PRINTED`.
"""

from pathlib import Path
from types import SimpleNamespace

import yaml

PRINTED = SimpleNamespace(**yaml.safe_load(Path(__file__).with_name("paper.yaml").read_text(encoding="utf-8")))
_ORIGINAL = {row["model"]: row for row in PRINTED.gen_bias if row["tuning"] is None}

# The keys are models, and then axes or clusters. Gen Bias values are ×1000.
FULL_GEN_BIAS = {model: row["full"] for model, row in _ORIGINAL.items()}
PARTIAL_GEN_BIAS = {model: row["partial"] for model, row in _ORIGINAL.items()}
SUMMED_CLUSTER_GEN_BIAS = {model: row["summed"] for model, row in _ORIGINAL.items()}
