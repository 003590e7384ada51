"""Lets people compare the replies of two runs (Smith et al., 2022, C.2.2), or label the replies of one run."""
