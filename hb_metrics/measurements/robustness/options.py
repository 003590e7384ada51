"""Robustness over templates has no options of its own."""

from dataclasses import dataclass


@dataclass
class RobustnessOptions:
    """No options."""
