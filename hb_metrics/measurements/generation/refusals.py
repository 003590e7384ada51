from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hb_metrics.reply_checks.refusal_rules import Matches, RefusalRules
from hb_metrics.reply_checks.refusal_shares import refusal_shares
from hb_metrics.runs.replies import FlaggedReplies, Replies


def refusals_table(ids: Sequence[str], found: Matches) -> pa.Table:
    return pa.table({"id": list(ids), "refusal": found.refusals >= 0, "disclaimer": found.disclaimers >= 0})


def refusals_results(
    replies: Replies, found: Matches, rules: RefusalRules, confidence_level: float, *, are_pairs: bool = False
) -> dict[str, Any]:
    """Computes the shares of refusals and disclaimers for results.json.

    In `by_rule`, each reply counts only towards the first rule that it matches. If the terms are pairs of terms
    (`are_pairs`), there is no test between axes, because pairs with a term in common are not exchangeable.
    """
    results: dict[str, Any] = {"num_cut_for_classifier": 0}
    for kind, indices, of_kind in (
        ("refusals", found.refusals, rules.refusals),
        ("disclaimers", found.disclaimers, rules.disclaimers),
    ):
        results[kind] = refusal_shares(FlaggedReplies(replies, indices >= 0), confidence_level)
        if are_pairs:
            results[kind]["p_between_axes"] = None
        counts = Counter(indices[indices >= 0].tolist())
        results[kind]["by_rule"] = {of_kind[index].phrase: number for index, number in counts.most_common()}
    return results
