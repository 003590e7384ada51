"""Checks replies for parroting, repeated phrases, refusals, and changes in style after tuning (paper, C.2.1)."""
