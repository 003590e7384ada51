"""Tasks for two widely used harnesses: Inspect and lm-evaluation-harness."""
