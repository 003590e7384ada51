"""What answers a run's requests: a model that is loaded here, or files of what was answered elsewhere."""
