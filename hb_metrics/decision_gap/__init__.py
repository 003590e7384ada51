"""Provides differences in decisions as an `evaluate` module."""
