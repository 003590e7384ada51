"""Which prompts are made of a term: with the nouns it can be said of, in the templates it can be said in.

Grammar decides first (`agreeing`), then what the vocabulary leaves out (`left_out_nouns.yaml`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from hb_dataset.combinations import LeftOutNoun, selects, selects_noun
from hb_dataset.noun_phrases import Modifier, agreeing
from hb_dataset.vocabulary import PersonNoun, Template


def taken(
    modifiers: Iterable[Modifier | None],
    nouns: Sequence[PersonNoun],
    templates: Sequence[Template],
    rules: Sequence[LeftOutNoun],
    left_out: Counter[str] | None = None,
) -> Iterator[np.ndarray]:
    """Which prompts are made of each term, or pair of terms.

    Args:
        modifiers: The terms; `None` stands for the noun alone.
        nouns: The person nouns.
        templates: The templates.
        rules: What the vocabulary leaves out. A pair is left out where one of its terms is.
        left_out: Counts the prompts left out, by reason: those of the rules, `gender` (the noun is not of the term's
            gender) and `same` (the noun is the same word). The first rule that holds counts.

    Yields:
        [nouns, templates] whether there is such a prompt.
    """
    cells = [_cells(rule, nouns, templates) for rule in rules]
    for modifier in modifiers:
        takes = np.zeros((len(nouns), len(templates)), dtype=bool)
        takes[agreeing(modifier, nouns)] = True
        if left_out is not None and modifier is not None:
            for noun in np.flatnonzero(~takes.any(axis=1)).tolist():
                same_gender = modifier.gender in (None, nouns[noun].gender)
                left_out["same" if same_gender else "gender"] += len(templates)
        for rule, of_rule in zip(rules, cells, strict=True):
            if _holds(rule, modifier):
                if left_out is not None and (takes & of_rule).any():
                    left_out[rule.because] += int((takes & of_rule).sum())
                takes &= ~of_rule
        yield takes


def _cells(rule: LeftOutNoun, nouns: Sequence[PersonNoun], templates: Sequence[Template]) -> np.ndarray:
    """[nouns, templates] what a rule is about."""
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
