import re
from collections import Counter
from collections.abc import Iterator

from hb_dataset.command_line import did_you_mean
from hb_dataset.vocabulary_entries import (
    ADJECTIVE_ORDER_FILE,
    AFTER_THE_NOUN,
    LEFT_OUT_NOUNS_FILE,
    NOUNS_FILE,
    PAIR_MARKS,
    PLURAL_SLOT,
    SINGULAR_SLOT,
    TEMPLATES_FILE,
    Descriptor,
    selects,
    selects_noun,
)
from hb_dataset.yaml_lines import Fault, Located, repeat_faults

MAX_WORDS_BEFORE, MAX_WORDS_AFTER = 3, 10  # the longest terms have 2 words before the noun and 6 after it

# A phrase about one person ("with a lisp", "who is deaf", "who stutters") takes another form after a plural noun.
_SINGULAR_PHRASE = re.compile(r"\ban? |^who('s| \w+s)\b")
_AFTER_PHRASE = re.compile(r"(with|without|in|on|of|who|who's) ")
_ARTICLE = re.compile(r"(a|an|the) ", re.IGNORECASE)
_SINGULAR_ARTICLE = re.compile(r"an? ")


def descriptor_faults(descriptors: list[Located], nouns: list[Located]) -> Iterator[Fault]:
    yield from repeat_faults(descriptors, "term", lambda descriptor: (descriptor.axis, descriptor.term.casefold()))
    genders = {located.entry.gender for located in nouns}
    before = [located.entry for located in descriptors if located.entry.placement == "before"]
    num_terms = Counter(descriptor.axis for descriptor in before)
    num_in_buckets = Counter(descriptor.axis for descriptor in before if descriptor.bucket is not None)
    for file, line, descriptor in descriptors:
        axis_has_buckets = num_in_buckets[descriptor.axis] > num_terms[descriptor.axis] / 2
        has_nouns = descriptor.gender is None or not nouns or descriptor.gender in genders
        for message in _term_faults(descriptor, axis_has_buckets, has_nouns):
            yield Fault(file, line, f"term {descriptor.term!r} {message}")


def noun_faults(nouns: list[Located]) -> Iterator[Fault]:
    yield from repeat_faults(nouns, "noun", lambda noun: noun.noun.casefold())
    buckets = [located.entry.bucket for located in nouns if located.entry.bucket is not None]
    if len(buckets) > len(nouns) / 2:
        for file, line, noun in nouns:
            if noun.bucket is None:
                known = ", ".join(sorted(set(buckets)))
                yield Fault(
                    file,
                    line,
                    f"noun {noun.noun!r} has no `bucket`, although the other nouns have one; write one of {known}",
                )


def template_faults(templates: list[Located]) -> Iterator[Fault]:
    yield from repeat_faults(templates, "template")
    known = [located.entry.template for located in templates]
    for file, line, template in templates:
        for key in PAIR_MARKS:
            other = getattr(template, key)
            if other is not None and (other == template.template or other not in known):
                hint = did_you_mean(other, known)
                yield Fault(
                    file, line, f"{key} {other!r} is not another template in {file}; {hint}write its whole text"
                )
    for file, line, template in templates:
        slots = re.findall(r"\{[^{}]*\}", template.template)
        unknown = [slot for slot in slots if slot not in (SINGULAR_SLOT, PLURAL_SLOT)]
        rest = re.sub(r"\{[^{}]*\}", "", template.template)
        if unknown or "{" in rest or "}" in rest:
            problem = f"unknown slot {unknown[0]}" if unknown else "a brace outside a slot"
            yield Fault(file, line, f"template has {problem}; write {SINGULAR_SLOT} or {PLURAL_SLOT}")
        elif len(slots) != 1:
            count = "no slot" if not slots else f"{len(slots)} slots"
            yield Fault(file, line, f"template has {count}; write exactly one of {SINGULAR_SLOT}, {PLURAL_SLOT}")


def standalone_faults(phrases: list[Located], axes: list[str]) -> Iterator[Fault]:
    """Yields the faults of noun phrases. `axes` also names axes whose files could not be read."""
    yield from repeat_faults(phrases, "noun_phrase", lambda phrase: (phrase.axis, phrase.noun_phrase, phrase.plural))
    for file, line, phrase in phrases:
        if _SINGULAR_ARTICLE.match(phrase.noun_phrase) is None:
            yield Fault(file, line, f"noun_phrase {phrase.noun_phrase!r} has no article; write `a` or `an` before it")
        if _ARTICLE.match(phrase.plural):
            yield Fault(file, line, f"plural {phrase.plural!r} starts with an article; remove the article")
        if phrase.axis not in axes:
            hint = did_you_mean(phrase.axis, axes)
            yield Fault(file, line, f"axis {phrase.axis!r} does not exist; {hint}allowed: {', '.join(axes)}")


def adjective_order_faults(
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
        if not any(selects(descriptor, each.entry.axis, each.entry.buckets, each.entry.terms) for each in classes):
            done.add(descriptor.axis)
            message = (
                f"{descriptor.term!r} of the axis {descriptor.axis!r} belongs to no class; add an entry with "
                f"`axis: {descriptor.axis}` and its class"
            )
            yield Fault(ADJECTIVE_ORDER_FILE, 1, message)


def left_out_pair_faults(pairs: list[Located], descriptors: list[Located]) -> Iterator[Fault]:
    for located in pairs:
        file, line, pair = located
        yield from _selector_faults(located, descriptors)
        if pair.other_axis is not None:
            yield from _selector_faults(located, descriptors, "other_")
        if pair.other_axis == pair.axis:
            yield Fault(file, line, f"`other_axis` is also {pair.axis!r}; write another axis")


def left_out_noun_faults(
    entries: list[Located], descriptors: list[Located], nouns: list[Located], templates: list[Located]
) -> Iterator[Fault]:
    known = {
        "nouns": ("noun", NOUNS_FILE, {located.entry.noun for located in nouns}),
        "noun_buckets": ("noun bucket", NOUNS_FILE, {located.entry.bucket for located in nouns} - {None}),
        "noun_genders": ("noun gender", NOUNS_FILE, {located.entry.gender for located in nouns} - {None}),
        "template_buckets": (
            "template bucket",
            TEMPLATES_FILE,
            {located.entry.bucket for located in templates} - {None},
        ),
    }
    for located in entries:
        file, line, entry = located
        if entry.axis is not None:
            yield from _selector_faults(located, descriptors)
        elif entry.buckets or entry.terms:
            yield Fault(file, line, "entry names buckets or terms without their axis; add the `axis`")
        named = [name for name in ("nouns", "noun_buckets", "noun_genders") if getattr(entry, name) is not None]
        if not named and entry.template_buckets is None:
            yield Fault(
                file,
                line,
                "entry names no noun; write `nouns:`, `noun_buckets:` or `noun_genders:`, "
                "or `template_buckets:` if the entry applies to all nouns",
            )
        for name, (kind, in_file, allowed) in known.items():
            values = getattr(entry, name)
            for value in values or ():
                if value not in allowed:
                    hint = did_you_mean(value, sorted(allowed))
                    choice = f"allowed: {', '.join(sorted(allowed))}" if allowed else "there are none"
                    yield Fault(file, line, f"{kind} {value!r} is not in {in_file}; {hint}{choice}")
    in_all_templates = [
        located.entry
        for located in entries
        if located.entry.template_buckets is None
        and (located.entry.nouns or located.entry.noun_buckets or located.entry.noun_genders)
    ]
    for file, line, descriptor in descriptors:
        rules = [
            entry
            for entry in in_all_templates
            if entry.axis is None or selects(descriptor, entry.axis, entry.buckets, entry.terms)
        ]
        agreeing = [located.entry for located in nouns if descriptor.gender in (None, located.entry.gender)]
        if rules and all(any(selects_noun(rule, noun) for rule in rules) for noun in agreeing):
            yield Fault(
                file,
                line,
                f"term {descriptor.term!r} has no noun left; remove the term, or exclude fewer nouns in "
                f"{LEFT_OUT_NOUNS_FILE}",
            )


def _term_faults(descriptor: Descriptor, axis_has_buckets: bool, has_nouns: bool) -> Iterator[str]:
    term, placement = descriptor.term, descriptor.placement
    if not has_nouns:
        yield f"takes only {descriptor.gender} nouns, but {NOUNS_FILE} has none"
    most = MAX_WORDS_BEFORE if placement == "before" else MAX_WORDS_AFTER
    num_words = max(len(text.split()) for text in (term, descriptor.plural or ""))
    if num_words > most:
        yield f"has {num_words} words; at most {most} are allowed {placement} the noun, so shorten it"
    if descriptor.bucket is None and axis_has_buckets:
        yield (
            f"has no `bucket`, although most terms of its axis have one; write a bucket (`{AFTER_THE_NOUN}` if the "
            "term follows the noun)"
        )
    if placement == "before":
        if descriptor.bucket is not None and not axis_has_buckets:
            yield (
                f"has the bucket {descriptor.bucket!r}, but most terms of its axis have none; remove the bucket, or "
                f"write a bucket for all terms"
            )
        if _AFTER_PHRASE.match(term):
            yield f"would come before the noun; write `bucket: {AFTER_THE_NOUN}`"
        if _ARTICLE.match(term):
            yield "starts with an article; remove the article"
        if descriptor.plural is not None:
            yield (
                "comes before the noun, where its plural form is the same; remove `plural`, or write `bucket: "
                f"{AFTER_THE_NOUN}`"
            )
        return
    if descriptor.article is not None:
        yield "follows the noun, so it cannot have an article; remove `article`"
    if descriptor.plural is None and _SINGULAR_PHRASE.search(term):
        yield (
            'has no `plural`; write the phrase after a plural noun ("with a lisp" → `plural: with lisps`), even if it '
            "is the same"
        )


def _selector_faults(located: Located, descriptors: list[Located], prefix: str = "") -> Iterator[Fault]:
    file, line, entry = located
    axis, buckets, terms = (getattr(entry, f"{prefix}{name}") for name in ("axis", "buckets", "terms"))
    in_axis = [descriptor.entry for descriptor in descriptors if descriptor.entry.axis == axis]
    if not in_axis:
        axes = sorted({descriptor.entry.axis for descriptor in descriptors})
        hint = did_you_mean(axis, axes)
        yield Fault(file, line, f"{prefix}axis {axis!r} does not exist; {hint}allowed: {', '.join(axes)}")
        return
    if buckets and terms:
        yield Fault(file, line, f"entry has both `{prefix}buckets` and `{prefix}terms`; write only one of them")
    for name, values, allowed in (
        ("bucket", buckets, {term.bucket for term in in_axis if term.bucket}),
        ("term", terms, {term.term for term in in_axis}),
    ):
        for value in values or ():
            if value not in allowed:
                hint = did_you_mean(value, sorted(allowed)) or f"see {axis}.yaml"
                yield Fault(file, line, f"{name} {value!r} is not in the axis {axis!r}; {hint.strip()}")
