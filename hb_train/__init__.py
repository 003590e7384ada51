"""Training: bias tuning (Smith et al., 2022), debiasing, and what debiasing costs (Barikeri et al., 2021)."""
