"""Tunes models (Smith et al., 2022), debiases models (Barikeri et al., 2021), and measures the side effects."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "GenBiasCallback":
        raise AttributeError(f"module 'hb_train' has no attribute '{name}'")
    from hb_train.while_training import GenBiasCallback

    return GenBiasCallback
