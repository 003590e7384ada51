"""What the training scripts share: options, the Hub token, loading, encoding, trainers, records, and sweeps of runs."""
