"""Bias tuning: the training rows and the methods of tune.py (Smith et al., 2022, section 4 and appendix C.1)."""
