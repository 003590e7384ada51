"""Provides the numbers reported in the paper (Smith et al., 2022).

paper.yaml describes each number, and states the table from which it comes.
"""

from pathlib import Path
from typing import NamedTuple

import yaml

from hb_metrics.run.typed_json import from_json


class PrintedLikelihoodBias(NamedTuple):
    model: str
    where: str
    template: str
    by_axis: dict[str, float]


class PrintedGenBias(NamedTuple):
    model: str
    tuning: str | None
    full: float
    partial: dict[str, float]
    summed: dict[str, float]


class Printed(NamedTuple):
    likelihood_bias: list[PrintedLikelihoodBias]
    gen_bias: list[PrintedGenBias]
    gen_bias_by_axis: dict[str, dict[str, float]]
    tuned_gen_bias_by_axis: dict[str, dict[str, float]]
    reduction: dict[str, float]
    parroting_replies: dict[str, float]
    offensive_replies: dict[str, float]
    prompt_offensiveness: dict[str, tuple[float, float]]
    extremes_template: str
    offensive_extremes_templates: list[str]
    phrase_rates: dict[str, dict[str, tuple[float, float]]]
    human_evaluation: dict[str, dict[str, float]]


PRINTED = from_json(Printed, yaml.safe_load(Path(__file__).with_name("paper.yaml").read_text(encoding="utf-8")))
_ORIGINAL = {row.model: row for row in PRINTED.gen_bias if row.tuning is None}

# The keys are models, and then axes or clusters. Gen Bias values are ×1000.
FULL_GEN_BIAS = {model: row.full for model, row in _ORIGINAL.items()}
PARTIAL_GEN_BIAS = {model: row.partial for model, row in _ORIGINAL.items()}
SUMMED_CLUSTER_GEN_BIAS = {model: row.summed for model, row in _ORIGINAL.items()}
