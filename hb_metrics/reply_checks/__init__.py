"""Checks replies (paper, C.2.1): parroting, phrases, refusals, and changes in styles after tuning."""
