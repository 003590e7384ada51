"""Defines engines. An engine answers a run's prompts. It is a model on this machine, a server or files of answers."""
