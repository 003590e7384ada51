import hashlib

import numpy as np


def seeded_generator(seed: int, purpose: str, identifier: str) -> np.random.Generator:
    """Creates a random generator for one purpose and one row (`identifier`).

    The numbers do not depend on which other rows are drawn, in what order or by which process. Generators for different
    purposes or rows are independent.
    """
    digest = hashlib.sha256(f"{seed}\x1f{purpose}\x1f{identifier}".encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
