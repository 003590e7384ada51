import hashlib

import numpy as np


def seeded_generator(seed: int, purpose: str, identifier: str) -> np.random.Generator:
    """Makes a generator for draws that are the same in any subset, order or process.

    Draws for different purposes or rows (`identifier`) are independent.
    """
    digest = hashlib.sha256(f"{seed}\x1f{purpose}\x1f{identifier}".encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
