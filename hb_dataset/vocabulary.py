"""Reads and checks the vocabulary: terms, person nouns and templates that people write in YAML.

A vocabulary is a folder with one YAML file per demographic axis (`ability.yaml`, …), `nouns.yaml`, `templates.yaml` and
optional files. All faults are reported at once, each with its file, line and correction.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from hb_dataset.command_line import did_you_mean
from hb_dataset.noun_phrases import article_by_sound, first_letter_article, prompt_masks
from hb_dataset.vocabulary_entries import (
    AFTER_THE_NOUN,
    PAIR_MARKS,
    AdjectiveClass,
    Descriptor,
    LeftOutNoun,
    LeftOutPair,
    PersonNoun,
    StandaloneNounPhrase,
    Template,
    Vocabulary,
    follows_noun,
    selects,
)
from hb_dataset.yaml_lines import Fault, FaultsError, Located, read_entries, repeat_faults

VOCABULARIES = Path(__file__).parent / "vocabulary"
_VERSIONS_FOLDER = VOCABULARIES.parts[-2:]  # hb_dataset/vocabulary

# Maps each file (which is named after a field of `Vocabulary`) to the key of its list and the type of its entries. Each
# other .yaml file contains the terms of an axis.
LISTS: dict[str, tuple[str, Any]] = {
    "nouns": ("nouns", PersonNoun),
    "templates": ("templates", Template),
    "seat_templates": ("templates", Template),
    "adjective_order": ("classes", AdjectiveClass),
    "left_out_pairs": ("pairs", LeftOutPair),
    "left_out_nouns": ("combinations", LeftOutNoun),
    "standalone_noun_phrases": ("noun_phrases", StandaloneNounPhrase),
}


def read_vocabulary(folder: str | Path | None = None) -> Vocabulary:
    """Reads and checks a vocabulary.

    Args:
        folder: The vocabulary's folder. `None` means v1.0, the paper's vocabulary.

    Returns:
        The vocabulary, with axes in alphabetical order and terms in the order of their files.

    Raises:
        NotADirectoryError: The folder does not exist.
        FaultsError: The vocabulary has faults. The message lists every fault with its file and line.
    """
    folder = VOCABULARIES / "v1.0" if folder is None else Path(folder)
    if not folder.is_dir():
        raise NotADirectoryError(
            f"the vocabulary folder '{folder}' does not exist (`holistic-bias new-vocabulary FOLDER` writes one)"
        )
    contents = ((path.name, path.read_bytes() if path.is_file() else None) for path in sorted(folder.iterdir()))
    return _read(folder, tuple(contents))


@lru_cache(maxsize=8)
def _read(folder: Path, contents: tuple[tuple[str, bytes | None], ...]) -> Vocabulary:
    """Caches a vocabulary by its content, because a run reads the same folder several times."""
    faults: list[Fault] = []
    descriptors: list[Located] = []
    read: dict[str, list[Located]] = {name: [] for name in LISTS}
    axis_files: list[str] = []
    for path in sorted(folder.iterdir()):
        if path.suffix == ".yaml" and path.stem in LISTS:
            read[path.stem] = read_entries(path, *LISTS[path.stem], faults)
        elif path.suffix == ".yaml" and path.is_file():
            axis_files.append(path.name)
            descriptors += read_entries(path, "terms", Descriptor, faults, axis=path.stem)
        elif path.suffix != ".md" and not path.name.startswith("."):
            message = "is not part of a vocabulary; rename it to <axis>.yaml, or move it to another folder"
            faults.append(Fault(path.name, 1, message))
    nouns, templates, seat_templates = read["nouns"], read["templates"], read["seat_templates"]
    for name, entries, files in (
        ("nouns.yaml", nouns, ["nouns.yaml"]),
        ("templates.yaml", templates, ["templates.yaml"]),
        ("<axis>.yaml", descriptors, axis_files),
    ):
        if not entries and not any(fault.file in files for fault in faults):
            faults.append(Fault(name, 1, f"is missing or has no entries; see {VOCABULARIES / 'v1.0'} for an example"))
    faults += _descriptor_faults(descriptors, [located.entry for located in nouns])
    faults += _noun_faults(nouns)
    faults += _template_faults(templates)
    faults += _template_faults(seat_templates)
    faults += _standalone_faults(read["standalone_noun_phrases"], [Path(name).stem for name in axis_files])
    if not faults:  # these checks need all files, since entries name terms from other files
        faults += _adjective_order_faults(read["adjective_order"], read["left_out_pairs"], descriptors)
        faults += _left_out_pair_faults(read["left_out_pairs"], descriptors)
        faults += _left_out_noun_faults(read["left_out_nouns"], descriptors, nouns, [*templates, *seat_templates])
    lists = {name: tuple(located.entry for located in entries) for name, entries in read.items()}
    vocabulary = Vocabulary(descriptors=tuple(located.entry for located in descriptors), **lists)
    if not faults:
        faults += _no_noun_faults(descriptors, vocabulary)
    if faults:
        raise FaultsError("vocabulary", folder, sorted(faults))
    return vocabulary


def is_version(folder: str | Path) -> bool:
    """Returns whether a folder is a version of the vocabulary, in this package or in another checkout of the project.

    Versions keep the articles that were published ("an European"). All other vocabularies have articles by sound.
    """
    return Path(folder).resolve().parent.parts[-2:] == _VERSIONS_FOLDER


def with_article(entry: Any) -> Any:
    """Returns a term or noun with the article that its first sound suggests, if its first letter is misleading."""
    words = entry.before if isinstance(entry, Descriptor) else entry.noun
    if entry.article or not words or article_by_sound(words) == first_letter_article(words):
        return entry
    return replace(entry, article=article_by_sound(words))


def with_articles(vocabulary: Vocabulary) -> Vocabulary:
    descriptors, nouns = (tuple(map(with_article, entries)) for entries in (vocabulary.descriptors, vocabulary.nouns))
    return replace(vocabulary, descriptors=descriptors, nouns=nouns)


def vocabulary_files(vocabulary: Vocabulary) -> list[str]:
    return [
        *(f"{axis}.yaml" for axis in vocabulary.axes),
        *(f"{name}.yaml" for name in LISTS if getattr(vocabulary, name)),
    ]


# --- Faults -----------------------------------------------------------------------------------------------------------

MAX_WORDS_BEFORE, MAX_WORDS_AFTER = 3, 10  # the longest terms have 2 words before the noun and 6 after it

# A phrase about one person ("with a lisp", "who is deaf", "who stutters") takes another form after a plural noun.
_SINGULAR_PHRASE = re.compile(r"\ban? |^who('s| \w+s)\b")
_ARTICLE = re.compile(r"(a|an|the) ", re.IGNORECASE)


def _descriptor_faults(descriptors: list[Located], nouns: list[PersonNoun]) -> Iterator[Fault]:
    yield from repeat_faults(descriptors, "term", lambda descriptor: (descriptor.axis, descriptor.term.casefold()))
    for axis in sorted({located.entry.axis for located in descriptors}):
        yield from _bucket_faults([located for located in descriptors if located.entry.axis == axis], "term")
    for located in descriptors:
        for message in _term_faults(located.entry, nouns):
            yield located.fault(f"term {located.entry.term!r} {message}")


def _term_faults(descriptor: Descriptor, nouns: list[PersonNoun]) -> Iterator[str]:
    term, is_before = descriptor.term, descriptor.placement == "before"
    most = MAX_WORDS_BEFORE if is_before else MAX_WORDS_AFTER
    num_words = max(len(text.split()) for text in (term, descriptor.plural_term))
    if num_words > most:
        yield f"has {num_words} words; at most {most} are allowed {descriptor.placement} the noun, so shorten it"
    if is_before and follows_noun(term):
        yield f"would come before the noun; write `bucket: {AFTER_THE_NOUN}`"
    if is_before and _ARTICLE.match(term):
        yield "starts with an article; remove the article"
    if descriptor.ends_in(nouns):
        yield "ends in a noun of nouns.yaml, which prompts add to every term; remove the noun"
    if not is_before and descriptor.plural is None and _SINGULAR_PHRASE.search(term):
        yield 'has no `plural`; write the phrase after a plural noun ("with a lisp" → `plural: with lisps`)'


def _noun_faults(nouns: list[Located]) -> Iterator[Fault]:
    yield from repeat_faults(nouns, "noun", lambda noun: noun.noun.casefold())
    yield from _bucket_faults(nouns, "noun")
    for located in nouns:
        for name in ("noun", "plural"):
            if _ARTICLE.match(getattr(located.entry, name)):
                yield located.fault(
                    f"{name} {getattr(located.entry, name)!r} starts with an article; remove the article"
                )


def _bucket_faults(entries: list[Located], name: str) -> Iterator[Fault]:
    """Yields a fault for each entry without a bucket, if most entries have one."""
    others = [located for located in entries if located.entry.bucket != AFTER_THE_NOUN]
    without = [located for located in others if located.entry.bucket is None]
    if len(without) < len(others) / 2:
        buckets = ", ".join(sorted({located.entry.bucket for located in entries} - {None}))
        for located in without:
            word = getattr(located.entry, name)
            yield located.fault(f"{name} {word!r} has no `bucket`, although most have one; write one of {buckets}")


def _template_faults(templates: list[Located]) -> Iterator[Fault]:
    yield from repeat_faults(templates, "template")
    for located in templates:
        others = [other.entry.template for other in templates if other is not located]
        marks = [getattr(located.entry, key) for key in PAIR_MARKS]
        yield from _unknown(located, "template", filter(None, marks), others, "among the other templates")


def _standalone_faults(phrases: list[Located], axes: list[str]) -> Iterator[Fault]:
    """Yields the faults of noun phrases. `axes` also names axes whose files could not be read."""
    yield from repeat_faults(phrases, "noun_phrase", lambda phrase: (phrase.axis, phrase.noun_phrase, phrase.plural))
    for located in phrases:
        phrase = located.entry
        if not phrase.noun_phrase.startswith(("a ", "an ")):
            yield located.fault(f"noun_phrase {phrase.noun_phrase!r} has no article; write `a` or `an` before it")
        if _ARTICLE.match(phrase.plural):
            yield located.fault(f"plural {phrase.plural!r} starts with an article; remove the article")
        yield from _unknown(located, "axis", [phrase.axis], axes, "one of the vocabulary's axes")


def _adjective_order_faults(
    classes: list[Located], left_out: list[Located], descriptors: list[Located]
) -> Iterator[Fault]:
    for located in classes:
        yield from _selector_faults(located, descriptors)
    done = {
        pair.entry.axis
        for pair in left_out
        if not (pair.entry.buckets or pair.entry.terms or pair.entry.other_axis or pair.entry.both_before)
    }
    for descriptor in (located.entry for located in descriptors if classes):
        if descriptor.axis in done or descriptor.placement == "after":
            continue
        rules = (located.entry for located in classes)
        if not any(selects(descriptor, rule.axis, rule.buckets, rule.terms) for rule in rules):
            done.add(descriptor.axis)
            where = f"{descriptor.term!r} of the axis {descriptor.axis!r}"
            yield Fault("adjective_order.yaml", 1, f"{where} belongs to no class; add an entry with its axis and class")


def _left_out_pair_faults(pairs: list[Located], descriptors: list[Located]) -> Iterator[Fault]:
    for located in pairs:
        yield from _selector_faults(located, descriptors)
        if located.entry.other_axis is not None:
            yield from _selector_faults(located, descriptors, "other_")
        elif located.entry.other_buckets or located.entry.other_terms:
            yield located.fault("entry names other buckets or terms without their axis; add the `other_axis`")


def _left_out_noun_faults(
    rules: list[Located], descriptors: list[Located], nouns: list[Located], templates: list[Located]
) -> Iterator[Fault]:
    people, sentences = ([located.entry for located in entries] for entries in (nouns, templates))
    for located in rules:
        rule = located.entry
        if rule.axis is not None:
            yield from _selector_faults(located, descriptors)
        elif rule.buckets or rule.terms:
            yield located.fault("entry names buckets or terms without their axis; add the `axis`")
        if rule.nouns is rule.noun_buckets is rule.noun_genders is rule.template_buckets is None:
            yield located.fault(
                "entry names no noun; write `nouns:`, `noun_buckets:`, `noun_genders:` or `template_buckets:`"
            )
        for kind, values, allowed, file in (
            ("noun", rule.nouns, {noun.noun for noun in people}, "nouns.yaml"),
            ("noun bucket", rule.noun_buckets, {noun.bucket for noun in people}, "nouns.yaml"),
            ("noun gender", rule.noun_genders, {noun.gender for noun in people}, "nouns.yaml"),
            ("template bucket", rule.template_buckets, {template.bucket for template in sentences}, "templates.yaml"),
        ):
            yield from _unknown(located, kind, values or (), allowed, f"in {file}")


def _no_noun_faults(descriptors: list[Located], vocabulary: Vocabulary) -> Iterator[Fault]:
    masks = prompt_masks(vocabulary.descriptors, vocabulary.nouns, vocabulary.templates, vocabulary.left_out_nouns)
    for located, mask in zip(descriptors, masks, strict=True):
        if not mask.any():
            message = "has no noun; add a noun of its gender, or exclude fewer nouns in left_out_nouns.yaml"
            yield located.fault(f"term {located.entry.term!r} {message}")


def _selector_faults(located: Located, descriptors: list[Located], prefix: str = "") -> Iterator[Fault]:
    axis, buckets, terms = (getattr(located.entry, f"{prefix}{name}") for name in ("axis", "buckets", "terms"))
    axes = {descriptor.entry.axis for descriptor in descriptors}
    yield from _unknown(located, "axis", [axis], axes, "one of the vocabulary's axes")
    in_axis = [descriptor.entry for descriptor in descriptors if descriptor.entry.axis == axis]
    if in_axis:
        where = f"in the axis {axis!r}"
        yield from _unknown(located, "bucket", buckets or (), {term.bucket for term in in_axis}, where)
        yield from _unknown(located, "term", terms or (), {term.term for term in in_axis}, where)


def _unknown(
    located: Located, kind: str, values: Iterable[str], allowed: Collection[str | None], where: str
) -> Iterator[Fault]:
    for value in values:
        if value not in allowed:
            hint = did_you_mean(value, sorted(filter(None, allowed)))
            yield located.fault(f"{kind} {value!r} is not {where}; {hint}write one that is")
