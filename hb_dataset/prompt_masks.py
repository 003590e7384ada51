from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from hb_dataset.noun_phrases import Modifier, agreeing
from hb_dataset.vocabulary_entries import LeftOutNoun, PersonNoun, Template, selects, selects_noun


def prompt_masks(
    modifiers: Iterable[Modifier | None],
    nouns: Sequence[PersonNoun],
    templates: Sequence[Template],
    rules: Sequence[LeftOutNoun],
    left_out: Counter[str] | None = None,
) -> Iterator[np.ndarray]:
    """Yields a mask [nouns, templates] for each term or pair of terms. The mask is true where a prompt exists.

    For a pair, a prompt exists only if it exists for both terms.

    `left_out` counts the excluded prompts by reason: `gender` (the noun does not have the term's gender), `same` (the
    term already contains the noun) or the reason in the first rule that excludes the prompt.
    """
    rule_masks = [_rule_mask(rule, nouns, templates) for rule in rules]
    for modifier in modifiers:
        mask = np.zeros((len(nouns), len(templates)), dtype=bool)
        mask[agreeing(modifier, nouns)] = True
        if left_out is not None and modifier is not None:
            for noun in np.flatnonzero(~mask.any(axis=1)).tolist():
                same_gender = modifier.gender in (None, nouns[noun].gender)
                left_out["same" if same_gender else "gender"] += len(templates)
        for rule, rule_mask in zip(rules, rule_masks, strict=True):
            if _holds(rule, modifier):
                if left_out is not None and (mask & rule_mask).any():
                    left_out[rule.because] += int((mask & rule_mask).sum())
                mask &= ~rule_mask
        yield mask


def _rule_mask(rule: LeftOutNoun, nouns: Sequence[PersonNoun], templates: Sequence[Template]) -> np.ndarray:
    of_nouns = [selects_noun(rule, noun) for noun in nouns]
    of_templates = [rule.template_buckets is None or template.bucket in rule.template_buckets for template in templates]
    return np.outer(of_nouns, of_templates).astype(bool)


def _holds(rule: LeftOutNoun, modifier: Modifier | None) -> bool:
    if rule.axis is None:
        return True
    axis = rule.axis
    return modifier is not None and any(
        selects(descriptor, axis, rule.buckets, rule.terms) for descriptor in modifier.descriptors
    )
