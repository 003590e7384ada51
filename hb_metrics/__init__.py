"""Bias metrics of language models, and code that computes their inputs.

Each metric is an `evaluate` module in a separate folder (`likelihood_bias/`); `inference/` runs models, `measure.py`
is the main job, `report/` writes its report. This file imports nothing, so `import hb_metrics` is fast.
"""
