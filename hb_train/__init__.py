"""Bias tuning: replies to labels to a tuned model (Smith et al., 2022, section 4 and appendix C)."""
