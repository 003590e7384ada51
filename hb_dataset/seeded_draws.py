"""Random draws that depend only on their row, so they are equal in any subset, order or process."""

import hashlib

import numpy as np


def seeded_generator(seed: int, purpose: str, identifier: str) -> np.random.Generator:
    """Makes a random generator for one row and one purpose.

    Args:
        seed: The seed of the run.
        purpose: The purpose of the draw, such as "personas"; draws for different purposes are independent.
        identifier: The row's id, such as a prompt's.

    Returns:
        The generator, which depends only on these three arguments.
    """
    digest = hashlib.sha256(f"{seed}\x1f{purpose}\x1f{identifier}".encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
