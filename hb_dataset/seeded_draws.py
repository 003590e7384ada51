from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import gcd

import numpy as np
import pyarrow as pa

from hb_dataset.grouped import grouped
from hb_dataset.prompt_columns import content_digest


def seeded_generator(seed: int, purpose: str, identifier: str) -> np.random.Generator:
    """Creates a random generator for one purpose and one row (`identifier`).

    The numbers do not depend on which other rows are drawn, in what order or by which process. Generators for different
    purposes or rows are independent.
    """
    digest = bytes.fromhex(content_digest(str(seed), purpose, identifier))
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))


Term = tuple[str, str | None]


def balanced_sample(prompts: pa.Table, number: int, *, seed: int) -> pa.Table:
    """Draws `number` prompts, spread evenly over terms and templates, in their original order.

    An axis with a tenth of the terms gets a tenth of the drawn prompts, rounded up or down. If every term has prompts
    in every template, the number of prompts varies by at most one across terms, and by at most one across templates. A
    larger sample contains every smaller sample with the same seed. The order of the table's rows does not affect the
    sample.
    """
    if not 1 <= number <= prompts.num_rows:
        raise ValueError(
            f"sample is {number:,}; set a number from 1 to {prompts.num_rows:,}, or omit the option to use all prompts"
        )
    ids, axes, descriptors, templates = (prompts[name].to_pylist() for name in ("id", "axis", "descriptor", "template"))
    cells: dict[Term, dict[str, list[int]]] = {}
    # `pop` takes the last element, so the first prompt must be last.
    for row in sorted(range(len(ids)), key=lambda row: _digest(seed, "prompt", ids[row]), reverse=True):
        cells.setdefault((axes[row], descriptors[row]), {}).setdefault(templates[row], []).append(row)
    terms = _order_terms(list(cells), seed)
    cycle = sorted(set(templates), key=lambda template: _digest(seed, "template", template))
    step = len(cycle) // gcd(len(cycle), len(terms))  # after this many turns, a term would repeat its first template
    used: dict[Term, Counter[str]] = {term: Counter() for term in terms}
    drawn: list[int] = []
    turn = 0
    while len(drawn) < number:
        for position, term in enumerate(terms):
            if len(drawn) == number:
                break
            of_term = cells[term]
            if not of_term:
                continue
            first = turn * len(terms) + position + turn // step
            rank = {cycle[(first + offset) % len(cycle)]: offset for offset in range(len(cycle))}
            uses = used[term]
            _, _, template = min((uses[name], rank[name], name) for name in of_term)
            uses[template] += 1
            drawn.append(of_term[template].pop())
            if not of_term[template]:
                del of_term[template]
        turn += 1
    return prompts.take(pa.array(sorted(drawn), pa.int64()))


def _order_terms(terms: Sequence[Term], seed: int) -> list[Term]:
    """Orders the terms so that the axes take turns in proportion to their sizes (Steiner & Yeomans, 1993)."""
    mixed = sorted(terms, key=lambda term: _digest(seed, "term", *map(str, term)))
    queues = grouped((term[0], term) for term in mixed)
    axes = sorted(queues, key=lambda axis: _digest(seed, "axis", axis))
    share = {axis: Fraction(len(queues[axis]), len(terms)) for axis in axes}
    taken = dict.fromkeys(axes, 0)
    order = []
    for place in range(1, len(terms) + 1):
        open_axes = [axis for axis in axes if taken[axis] < len(queues[axis]) and taken[axis] < place * share[axis]]
        axis = min(open_axes, key=lambda axis: (taken[axis] + 1) / share[axis])
        order.append(queues[axis][taken[axis]])
        taken[axis] += 1
    return order


def _digest(seed: int, *parts: str) -> str:
    return content_digest(str(seed), "sample", *parts)
