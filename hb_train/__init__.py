"""Training: bias tuning (Smith et al., 2022), debiasing, and what debiasing costs (Barikeri et al., 2021)."""

from typing import Any

_MODULES = {"GenBiasCallback": "callback", "gen_bias_reward": "reward"}


def __getattr__(name: str) -> Any:
    """What is used while training; it imports torch, which takes seconds, and so not before it is asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module 'hb_train' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"hb_train.while_training.{_MODULES[name]}"), name)
