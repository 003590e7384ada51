"""Code that the training scripts share: options, loading, encoding, trainers and records."""
