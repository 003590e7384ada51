"""Defines engines, which answer a run's prompts. An engine is a model on this machine, a server or files of answers."""
