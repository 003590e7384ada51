"""Bias metrics of language models. This file imports nothing, so `import hb_metrics` is fast."""
