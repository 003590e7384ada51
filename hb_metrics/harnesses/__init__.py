"""Our tasks in the harnesses that people already run: Inspect, lm-evaluation-harness and lighteval."""
