"""Bias tuning: labelled replies, and the sweep of learning rates (Smith et al., 2022, section 4 and appendix C.1)."""
