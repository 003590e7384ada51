"""Finds clusters of correlated styles in a run's replies (Smith et al., 2022, A.7)."""
