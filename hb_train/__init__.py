"""Trains models: bias tuning (Smith et al., 2022), debiasing, and tasks that show its costs (Barikeri et al., 2021)."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "GenBiasCallback":
        raise AttributeError(f"module 'hb_train' has no attribute '{name}'")
    from hb_train.while_training import GenBiasCallback

    return GenBiasCallback
