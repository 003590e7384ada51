"""Tasks for the harnesses that people already run: Inspect and lm-evaluation-harness."""
