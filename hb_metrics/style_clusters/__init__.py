"""Finds clusters of styles that go together in a run's replies (Smith et al., 2022, A.7)."""
