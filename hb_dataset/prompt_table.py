"""Every combination of descriptor, noun and template as one Arrow table, column by column.

Noun phrases are written out once per (descriptor, noun). Columns are never made row by row: their bytes are repetitions
of the values of a descriptor, a pair or a template, so that all of v1.0 (462,878 rows) takes a tenth of a second.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from itertools import chain, groupby, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.intersections import Intersection
from hb_dataset.noun_phrases import at_sentence_start, noun_phrases, plural_noun_phrases
from hb_dataset.prompt_masks import prompt_masks
from hb_dataset.vocabulary_entries import Descriptor, LeftOutNoun, PersonNoun, Template

_STRING_COLUMNS = [
    "id",
    "text",
    "axis",
    "bucket",
    "descriptor",
    "descriptor_gender",
    "preference",
    "placement",
    "noun",
    "noun_gender",
    "noun_phrase",
]
PROMPT_SCHEMA = pa.schema(
    [(name, pa.string()) for name in _STRING_COLUMNS] + [("plural", pa.bool_()), ("template", pa.string())]
)
# Hexadecimal digits of the noun phrase in an id; the longer is for the five million phrases of intersections.
_ID_DIGITS = 12
_LONG_ID_DIGITS = 16
# The most that one array of Arrow's strings can hold.
_MOST_BYTES = 2**31 - 1
INTERSECTION_COLUMNS = ("first_axis", "first_descriptor", "second_axis", "second_descriptor")
INTERSECTION_SCHEMA = pa.schema([*PROMPT_SCHEMA, *((name, pa.string()) for name in INTERSECTION_COLUMNS)])


def prompt_table(
    descriptors: Sequence[Descriptor | None],
    nouns: Sequence[PersonNoun],
    templates: Sequence[Template],
    left_out_nouns: Sequence[LeftOutNoun] = (),
    left_out: Counter[str] | None = None,
) -> pa.Table:
    """All prompts of these terms, nouns and templates (paper, 2.2.2).

    Args:
        descriptors: The terms; `None` stands for the noun alone.
        nouns: The person nouns.
        templates: The templates.
        left_out_nouns: The rules by which the vocabulary leaves prompts out.
        left_out: If given, counts the prompts left out, by reason; see `hb_dataset.prompt_masks`.

    Returns:
        A table with the columns of `PROMPT_SCHEMA`; rows by descriptor, then noun, then template. An id is derived
        from the row's content, the same in every config, and different for a term that is in two axes.
    """
    columns, _, kept = _columns(descriptors, nouns, templates, left_out_nouns, left_out)
    return _kept_rows(pa.table(columns, PROMPT_SCHEMA), kept)


def intersection_table(
    intersections: Sequence[Intersection],
    nouns: Sequence[PersonNoun],
    templates: Sequence[Template],
    left_out_nouns: Sequence[LeftOutNoun] = (),
    left_out: Counter[str] | None = None,
) -> pa.Table:
    """All prompts of these pairs of terms, nouns and templates.

    Args:
        intersections: The pairs.
        nouns: The person nouns.
        templates: The templates.
        left_out_nouns: The rules by which the vocabulary leaves prompts out.
        left_out: If given, counts the prompts left out, by reason; see `hb_dataset.prompt_masks`.

    Returns:
        A table like that of `prompt_table` with the columns of `INTERSECTION_SCHEMA`: `axis` and `descriptor` are those
        of the pair, and each of its two axes and terms has a column of its own.
    """
    columns, num_rows, kept = _columns(intersections, nouns, templates, left_out_nouns, left_out)
    for which in ("first", "second"):
        for name, attribute in (("axis", "axis"), ("descriptor", "term")):
            values = [getattr(getattr(pair, which), attribute) for pair in intersections]
            columns[f"{which}_{name}"] = _repeated(values, num_rows)
    return _kept_rows(pa.table(columns, INTERSECTION_SCHEMA), kept)


def descriptor_noun_spans(prompts: pa.Table) -> np.ndarray:
    """Where the descriptor and noun are in each text: "tall guy" in "This is a tall guy." (paper, B.1).

    Args:
        prompts: A table with the columns `noun_phrase`, `plural` and `template`.

    Returns:
        [rows, 2] start and end in characters, end not included; the article is not part of the span.
    """
    template = prompts["template"].combine_chunks().cast(pa.string()).dictionary_encode()
    slot_starts = np.array([text.index("{") for text in template.dictionary.to_pylist()])
    slot_start = slot_starts[template.indices.to_numpy()]
    phrase = prompts["noun_phrase"].combine_chunks().cast(pa.string())
    end = slot_start + pc.utf8_length(phrase).to_numpy()
    article = pc.add(pc.find_substring(phrase, " "), 1).to_numpy()
    start = slot_start + np.where(prompts["plural"].to_numpy(), 0, article)
    return np.stack([start, end], axis=1)


def content_digest(*parts: str) -> str:
    """SHA-256 (hex) of some texts, the same on every machine."""
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()


def _columns(
    descriptors: Sequence[Descriptor | Intersection | None],
    nouns: Sequence[PersonNoun],
    templates: Sequence[Template],
    left_out_nouns: Sequence[LeftOutNoun],
    left_out: Counter[str] | None,
) -> tuple[dict[str, pa.Array], np.ndarray, np.ndarray]:
    """The columns of `PROMPT_SCHEMA`, how many rows each descriptor has, and which rows are kept.

    A noun has a row for every template if it is kept in any of them; the third marks the rows of the others.
    """
    masks = list(prompt_masks(descriptors, nouns, templates, left_out_nouns, left_out))
    noun_indices = [np.flatnonzero(mask.any(axis=1)).tolist() for mask in masks]
    kept_by_descriptor = [mask[indices].ravel() for mask, indices in zip(masks, noun_indices, strict=True)]
    kept = np.concatenate([np.zeros(0, dtype=bool), *kept_by_descriptor])
    # A template takes one of four forms of each phrase: singular, plural, and both at the start of a sentence.
    parts = [template.parts for template in templates]
    form_of = [template.plural + 2 * (prefix == "") for template, (prefix, _) in zip(templates, parts, strict=True)]
    forms: dict[int, list[bytes]] = {}
    for form in sorted(set(form_of)):
        make = plural_noun_phrases if form % 2 else noun_phrases
        phrases = [
            phrase
            for descriptor, indices in zip(descriptors, noun_indices, strict=True)
            for phrase in make(descriptor, [nouns[index] for index in indices])
        ]
        forms[form] = [phrase.encode() for phrase in (map(at_sentence_start, phrases) if form > 1 else phrases)]

    pair_nouns = [nouns[index] for indices in noun_indices for index in indices]
    num_rows = np.array([len(indices) for indices in noun_indices], dtype=np.int64) * len(templates)
    of_pair = np.full(len(pair_nouns), len(templates))

    def of_descriptor(attribute: str) -> pa.Array:
        return _repeated([None if term is None else getattr(term, attribute) for term in descriptors], num_rows)

    digits = _LONG_ID_DIGITS if any(isinstance(term, Intersection) for term in descriptors) else _ID_DIGITS
    keys = [
        ("\x1f\x1f" if term is None else f"{term.axis}\x1f{term.term}\x1f") + f"{nouns[index].noun}\x1f"
        for term, indices in zip(descriptors, noun_indices, strict=True)
        for index in indices
    ]
    texts, phrase_column = _texts(forms, form_of, parts)
    columns = {
        "id": _ids(keys, forms, form_of, [template.template for template in templates], digits),
        "text": texts,
        "axis": of_descriptor("axis"),
        "bucket": of_descriptor("bucket"),
        "descriptor": of_descriptor("term"),
        "descriptor_gender": of_descriptor("gender"),
        "preference": of_descriptor("preference"),
        "placement": of_descriptor("placement"),
        "noun": _repeated([noun.noun for noun in pair_nouns], of_pair),
        "noun_gender": _repeated([noun.gender for noun in pair_nouns], of_pair),
        "noun_phrase": phrase_column,
        "plural": pa.array(np.tile([template.plural for template in templates], len(pair_nouns)), pa.bool_()),
        "template": _tiled([template.template for template in templates], len(pair_nouns)),
    }
    return columns, num_rows, kept


def _kept_rows(table: pa.Table, kept: np.ndarray) -> pa.Table:
    return table if kept.all() else table.filter(pa.array(kept)).combine_chunks()


def _texts(
    forms: dict[int, list[bytes]], form_of: Sequence[int], parts: Sequence[tuple[str, str]]
) -> tuple[pa.Array, pa.Array]:
    """The columns `text` and `noun_phrase`.

    Args:
        forms: Form → [pairs] the phrases in it.
        form_of: [templates] the form that each template takes.
        parts: [templates] the text before and after the phrase.
    """
    prefixes, suffixes = ([part.encode() for part in side] for side in zip(*parts, strict=True))
    texts: list[list[bytes]] = []
    phrases: list[list[bytes]] = []
    # The texts of neighboring templates that take the same form are made at once: the phrase joins the parts around it.
    for form, group in groupby(range(len(form_of)), key=form_of.__getitem__):
        run = list(group)
        inside = [suffixes[template] + prefixes[following] for template, following in pairwise(run)]
        around = [prefixes[run[0]], *inside, suffixes[run[-1]]]
        texts.append([phrase.join(around) for phrase in forms[form]])
        phrases.append([phrase * len(run) for phrase in forms[form]])
    lengths = {form: np.array([len(phrase) for phrase in of_form]) for form, of_form in forms.items()}
    phrase_lengths = np.stack([lengths[form] for form in form_of], axis=1)
    around_lengths = np.array([len(prefix) + len(suffix) for prefix, suffix in zip(prefixes, suffixes, strict=True)])
    return (
        _strings(b"".join(chain.from_iterable(zip(*texts, strict=True))), (phrase_lengths + around_lengths).ravel()),
        _strings(b"".join(chain.from_iterable(zip(*phrases, strict=True))), phrase_lengths.ravel()),
    )


def _ids(
    keys: Sequence[str], forms: dict[int, list[bytes]], form_of: Sequence[int], templates: Sequence[str], digits: int
) -> pa.Array:
    """The column `id`: `digits` digits of a hash of the phrase and its key, then eight of a hash of the template."""
    template_ids = [content_digest(template)[:8] for template in templates]
    start = [key.encode() for key in keys]
    phrase_ids = {
        form: [hashlib.sha256(key + phrase).digest()[: digits // 2] for key, phrase in zip(start, phrases, strict=True)]
        for form, phrases in forms.items()
    }
    phrases_differ = all(len(set(of_form)) == len(of_form) for of_form in phrase_ids.values())
    if not phrases_differ or len(set(template_ids)) < len(template_ids):
        raise RuntimeError("two prompts share an id; lengthen the digests in hb_dataset/prompt_table.py")
    ids = np.empty((len(keys), len(templates), digits + 8), dtype=np.uint8)
    hexadecimal = {form: b"".join(of_form).hex().encode() for form, of_form in phrase_ids.items()}
    for template, form in enumerate(form_of):
        ids[:, template, :digits] = np.frombuffer(hexadecimal[form], dtype=np.uint8).reshape(-1, digits)
        ids[:, template, digits:] = np.frombuffer(template_ids[template].encode(), dtype=np.uint8)
    return _strings(ids.ravel(), np.full(len(keys) * len(templates), digits + 8))


def _repeated(values: Sequence[str | None], times: np.ndarray) -> pa.Array:
    """[values] texts, each repeated `times` [values] times before the next."""
    encoded = _encoded(values)
    lengths = np.repeat(np.array([len(value) for value in encoded], dtype=np.int64), times)
    valid = np.repeat([value is not None for value in values], times) if None in values else None
    data = b"".join([value * number for value, number in zip(encoded, times.tolist(), strict=True)])
    return _strings(data, lengths, valid)


def _tiled(values: Sequence[str], times: int) -> pa.Array:
    """All values in their order, and that `times` times."""
    encoded = _encoded(values)
    return _strings(b"".join(encoded) * times, np.tile([len(value) for value in encoded], times))


def _encoded(values: Sequence[str | None]) -> list[bytes]:
    as_bytes = {value: b"" if value is None else value.encode() for value in set(values)}
    return [as_bytes[value] for value in values]


def _strings(data: bytes | np.ndarray, lengths: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """An array of strings from all their bytes, [strings] their lengths in bytes, and [strings] which are not null."""
    size = int(lengths.sum())
    if size > _MOST_BYTES:
        raise ValueError(
            f"a column would hold {size:,} bytes, and one table {_MOST_BYTES:,} at most; build fewer terms at a time"
        )
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(data), bitmap)
