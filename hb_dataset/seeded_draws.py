"""Random draws that belong to one row: the same in any subset, order or process."""

import hashlib

import numpy as np


def seeded_generator(seed: int, purpose: str, identifier: str) -> np.random.Generator:
    """A random generator that belongs to one row and one purpose.

    Args:
        seed: The seed of the run.
        purpose: What is drawn, such as "personas"; draws for two purposes are independent.
        identifier: The row's id, such as a prompt's.

    Returns:
        The generator, which depends on these three alone.
    """
    digest = hashlib.sha256(f"{seed}\x1f{purpose}\x1f{identifier}".encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
