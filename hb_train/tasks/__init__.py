"""The costs of debiasing: state tracking and response generation (Barikeri et al., 2021, section 3)."""
