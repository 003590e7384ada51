"""Engines answer a run's requests. An engine is a model loaded here, a server, or files of answers."""
