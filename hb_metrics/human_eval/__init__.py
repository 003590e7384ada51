"""Collects people's comparisons of two runs' replies (Smith et al., 2022, C.2.2), or labels for one run's replies."""
