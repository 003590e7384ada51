"""Builds the table of all combinations of descriptor, noun and template.

The table is built from indices into the lists of terms, nouns and templates. Building all of v1.0 (462,878 rows) takes
less than a second.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.grouped import grouped
from hb_dataset.noun_phrases import Intersection, at_sentence_start, noun_phrase, plural_noun_phrase, prompt_masks
from hb_dataset.prompt_columns import INTERSECTION_SCHEMA, PROMPT_SCHEMA, content_digest
from hb_dataset.vocabulary_entries import (
    AFTER_THE_NOUN,
    Descriptor,
    LeftOutNoun,
    PersonNoun,
    StandaloneNounPhrase,
    Template,
    Vocabulary,
)
from hb_dataset.written_text import starts_sentence

# The number of hexadecimal digits that represent the noun phrase in an id. Ids of intersections have more digits,
# because there are five million phrases.
_ID_DIGITS = 12
_LONG_ID_DIGITS = 16


def prompt_table(
    descriptors: Sequence[Descriptor | Intersection | None],
    nouns: Sequence[PersonNoun],
    templates: Sequence[Template],
    left_out_nouns: Sequence[LeftOutNoun] = (),
) -> pa.Table:
    """Builds all prompts of these terms, nouns and templates (paper, 2.2.2), sorted by term, noun and template.

    `None` among the `descriptors` stands for the noun alone.

    Returns:
        A table with the columns of `PROMPT_SCHEMA`. Ids depend only on the rows' contents, so they are the same in
        every config. For intersections, the table has the columns of `INTERSECTION_SCHEMA`, and its columns `axis` and
        `descriptor` name both axes and both terms.
    """
    are_pairs = any(isinstance(term, Intersection) for term in descriptors)
    masks = list(prompt_masks(descriptors, nouns, templates, left_out_nouns))
    kept = np.array(masks, dtype=bool).reshape(len(masks), len(nouns), len(templates))
    descriptor, noun, template = np.nonzero(kept)
    pairs = np.argwhere(kept.any(axis=2)).tolist()
    pair = np.cumsum(kept.any(axis=2)).reshape(len(masks), len(nouns))[descriptor, noun] - 1

    digits = _LONG_ID_DIGITS if are_pairs else _ID_DIGITS
    phrases: list[str] = []
    phrase_ids: list[str] = []
    # A phrase has up to four forms: singular and plural, each at the start of a sentence and inside it.
    form_of = [(entry.plural, starts_sentence(entry.parts[0])) for entry in templates]
    forms = sorted(set(form_of))
    for plural, starts in forms:
        for of_descriptor, of_noun in pairs:
            term, person = descriptors[of_descriptor], nouns[of_noun]
            phrase = plural_noun_phrase(term, person) if plural else noun_phrase(term, person)
            phrase = at_sentence_start(phrase) if starts else phrase
            key = ("", "") if term is None else (term.axis, term.term)
            phrases.append(phrase)
            phrase_ids.append(content_digest(*key, person.noun, phrase)[:digits])
    in_form = pa.array(np.array([forms.index(form) for form in form_of], dtype=np.int64)[template] * len(pairs) + pair)
    phrase_column = pa.array(phrases, pa.string()).take(in_form)

    def taken(values: list[str | None], indices: np.ndarray | pa.Array) -> pa.Array:
        return pa.array(values, pa.string()).take(pa.array(indices))

    def of_term(attribute: str) -> pa.Array:
        return taken([None if term is None else getattr(term, attribute) for term in descriptors], descriptor)

    prefix, suffix = (taken([entry.parts[side] for entry in templates], template) for side in (0, 1))
    template_id = taken([content_digest(entry.template)[:8] for entry in templates], template)
    columns = {
        "id": pc.binary_join_element_wise(taken([*phrase_ids], in_form), template_id, ""),
        "text": pc.binary_join_element_wise(prefix, phrase_column, suffix, ""),
        "axis": of_term("axis"),
        "bucket": of_term("bucket"),
        "descriptor": of_term("term"),
        "descriptor_gender": of_term("gender"),
        "preference": of_term("preference"),
        "placement": of_term("placement"),
        "noun": taken([entry.noun for entry in nouns], noun),
        "noun_gender": taken([entry.gender for entry in nouns], noun),
        "noun_phrase": phrase_column,
        "plural": pa.array([entry.plural for entry in templates], pa.bool_()).take(pa.array(template)),
        "template": taken([entry.template for entry in templates], template),
    }
    if not are_pairs:
        return pa.table(columns, PROMPT_SCHEMA)
    for which in ("first", "second"):
        for name, attribute in (("axis", "axis"), ("descriptor", "term")):
            columns[f"{which}_{name}"] = taken(
                [getattr(getattr(pair, which), attribute) for pair in descriptors], descriptor
            )
    return pa.table(columns, INTERSECTION_SCHEMA)


def descriptor_noun_spans(prompts: pa.Table) -> np.ndarray:
    """Locates the descriptor and noun in each text, such as "tall guy" in "This is a tall guy." (paper, B.1).

    Args:
        prompts: A table with the columns `noun_phrase`, `plural` and `template`, or with the column `spans`
            (`hb_dataset.own_prompts`), from which the first span is taken.

    Returns:
        The start and the exclusive end of each span in characters, without the article: [rows, 2].
    """
    if "spans" in prompts.column_names:
        return np.array([spans[:2] for spans in prompts["spans"].to_pylist()], dtype=np.int64).reshape(-1, 2)
    template = prompts["template"].combine_chunks().cast(pa.string()).dictionary_encode()
    slot_starts = np.array([text.index("{") for text in template.dictionary.to_pylist()])
    slot_start = slot_starts[template.indices.to_numpy()]
    phrase = prompts["noun_phrase"].combine_chunks().cast(pa.string())
    end = slot_start + pc.utf8_length(phrase).to_numpy()
    article = pc.add(pc.find_substring(phrase, " "), 1).to_numpy()
    start = slot_start + np.where(prompts["plural"].to_numpy(), 0, article)
    return np.stack([start, end], axis=1)


def standalone_table(phrases: Sequence[StandaloneNounPhrase], templates: Sequence[Template]) -> pa.Table:
    """Combines every phrase with every template, in a table with the columns of `PROMPT_SCHEMA`.

    The columns for a separate term or person noun are null. v1.1 lists "a Rasta" twice, with two plurals, so each of
    its singular texts occurs in two rows.
    """
    rows = []
    for phrase in phrases:
        for template in templates:
            written = phrase.plural if template.plural else phrase.noun_phrase
            prefix, suffix = template.parts
            shown = at_sentence_start(written) if starts_sentence(prefix) else written
            key = (phrase.axis, phrase.noun_phrase, phrase.plural, template.template)
            rows.append(
                {
                    "id": content_digest(*key)[:_ID_DIGITS],
                    "text": f"{prefix}{shown}{suffix}",
                    "axis": phrase.axis,
                    "descriptor": phrase.term,
                    "preference": phrase.preference,
                    "noun_phrase": shown,
                    "plural": template.plural,
                    "template": template.template,
                }
            )
    return pa.Table.from_pylist(rows, PROMPT_SCHEMA)


SMALL_TERMS_PER_AXIS = 6


def small_templates(templates: Sequence[Template]) -> list[Template]:
    return [template for template in templates if template.small] or list(templates)


def small_descriptors(descriptors: Sequence[Descriptor]) -> list[Descriptor]:
    """Selects six terms per axis, spread over the axis's buckets.

    The buckets take turns, and contribute one term per turn. The bucket of terms after the noun comes first, and then
    the largest bucket. A hash determines the order of terms in a bucket, so adding a term changes few choices. Gendered
    terms are excluded, because they can be combined with only a third of the nouns.
    """
    by_hash = sorted(descriptors, key=lambda descriptor: content_digest(descriptor.axis, descriptor.term))
    chosen: set[Descriptor] = set()
    for of_axis in grouped((term.axis, term) for term in by_hash if term.gender is None).values():
        buckets = grouped((term.bucket, term) for term in of_axis)
        order = sorted(buckets, key=lambda name: (name != AFTER_THE_NOUN, -len(buckets[name]), name or ""))
        turns = itertools.zip_longest(*(buckets[name] for name in order))
        chosen |= {*[term for turn in turns for term in turn if term is not None][:SMALL_TERMS_PER_AXIS]}
    return [descriptor for descriptor in descriptors if descriptor in chosen]


def descriptors_of_most_nouns(vocabulary: Vocabulary) -> list[Descriptor]:
    masks = prompt_masks(vocabulary.descriptors, vocabulary.nouns, vocabulary.templates, vocabulary.left_out_nouns)
    return [
        descriptor
        for descriptor, mask in zip(vocabulary.descriptors, masks, strict=True)
        if mask.any(axis=1).sum() >= len(vocabulary.nouns) / 2
    ]
