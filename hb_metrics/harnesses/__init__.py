"""Defines tasks for Inspect and for lm-evaluation-harness."""
