"""Classifiers of ParlAI as models of transformers: reading checkpoints, converting them, running what comes of it."""
