"""Debiasing on stereotyped phrases: a file for each method, and what the methods share (Barikeri et al., 2021)."""
