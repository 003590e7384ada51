"""Engines, which answer a run's requests: a model loaded here, a server, or files of answers."""
