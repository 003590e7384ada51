"""Bias metrics of language models, and how to get the numbers they need.

Each metric is an `evaluate` module in a folder of its own (`likelihood_bias/`); `inference/` runs models, `measure.py`
is the main job, `report/` writes its report. Nothing is imported here, so that `import hb_metrics` costs nothing.
"""
