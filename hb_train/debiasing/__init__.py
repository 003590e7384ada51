"""Debiasing on stereotyped phrases: a file for each method, and their shared code (Barikeri et al., 2021)."""
