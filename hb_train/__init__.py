"""Trains models for bias tuning (Smith et al., 2022) and debiasing (Barikeri et al., 2021), and measures the costs."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "GenBiasCallback":
        raise AttributeError(f"module 'hb_train' has no attribute '{name}'")
    from hb_train.while_training import GenBiasCallback

    return GenBiasCallback
