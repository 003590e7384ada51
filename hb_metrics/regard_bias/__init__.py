"""Provides regard bias over syntactic structures (Aggarwal et al., 2022) as an `evaluate` module."""
