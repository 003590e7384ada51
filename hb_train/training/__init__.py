"""The parts that training scripts share: options, loading, encoding, trainers and records."""
