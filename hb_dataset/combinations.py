"""What goes with what: the entries of the files that say how terms combine, and the faults in them.

`adjective_order.yaml` has the order of terms before a noun, `left_out_pairs.yaml` the terms that are not put together,
and `left_out_nouns.yaml` the terms that are not said of some nouns.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Literal

from pydantic.dataclasses import dataclass

from hb_dataset.hints import did_you_mean
from hb_dataset.yaml_entries import STRICT_KEYS, Key, Located, Remark, Text
from hb_dataset.yaml_lines import Fault

if TYPE_CHECKING:
    from hb_dataset.vocabulary import Descriptor, PersonNoun

ADJECTIVE_ORDER_FILE = "adjective_order.yaml"
LEFT_OUT_FILE = "left_out_pairs.yaml"
LEFT_OUT_NOUNS_FILE = "left_out_nouns.yaml"


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class AdjectiveClass:
    """Terms that take the same place among the adjectives before a noun: an axis, buckets of it, or terms of it.

    The file's order is the order of the classes from the farthest from the noun to the nearest. Where several entries
    hold a term, the one that names the term counts, else the one that names its bucket.
    """

    name: Key
    axis: Key
    buckets: tuple[Key, ...] | None = None
    terms: tuple[Text, ...] | None = None
    note: Remark | None = None
    source: Remark | None = None


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class LeftOutPair:
    """Terms that are not put together with terms of another axis; without `other_axis`, with any.

    `because` is `same` (one says what the other says), `contradictory` (they cannot both be true of one person at one
    time), `misread` (side by side they say something else), `harmful` or `meaningless`. With `both_before`, that is so
    only where both stand before the noun ("a pretty Deaf woman" may be read as "fairly Deaf").
    """

    axis: Key
    because: Literal["same", "contradictory", "misread", "harmful", "meaningless"]
    buckets: tuple[Key, ...] | None = None
    terms: tuple[Text, ...] | None = None
    other_axis: Key | None = None
    other_buckets: tuple[Key, ...] | None = None
    other_terms: tuple[Text, ...] | None = None
    both_before: bool = False
    note: Remark | None = None
    source: Remark | None = None


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class LeftOutNoun:
    """Terms that are not said of some nouns; without `axis`, no term is, nor is the noun put into a sentence alone.

    The nouns are named by `nouns`, `noun_buckets` or `noun_genders`; without any of them, all nouns are meant. With
    `template_buckets`, the terms are not said of the nouns in these templates only.

    `because` is `same` (the noun says what the term says), `contradictory` (they cannot both be true of one person at
    one time), `misgendering` (they name a gender that people whom the term names do not have), `misread` (together they
    say something else) or `harmful`.
    """

    axis: Key | None = None
    because: Literal["same", "contradictory", "misgendering", "misread", "harmful"]
    buckets: tuple[Key, ...] | None = None
    terms: tuple[Text, ...] | None = None
    nouns: tuple[Text, ...] | None = None
    noun_buckets: tuple[Key, ...] | None = None
    noun_genders: tuple[Text, ...] | None = None
    template_buckets: tuple[Key, ...] | None = None
    note: Remark | None = None
    source: Remark | None = None


def selects(
    descriptor: "Descriptor", axis: str, buckets: Collection[str] | None, terms: Collection[str] | None
) -> bool:
    """Whether an entry that names an axis, and buckets or terms of it, means a term."""
    return (
        descriptor.axis == axis
        and (buckets is None or descriptor.bucket in buckets)
        and (terms is None or descriptor.term in terms)
    )


def selects_noun(entry: LeftOutNoun, noun: "PersonNoun") -> bool:
    """Whether an entry means a noun."""
    return (
        (entry.nouns is None or noun.noun in entry.nouns)
        and (entry.noun_buckets is None or noun.bucket in entry.noun_buckets)
        and (entry.noun_genders is None or noun.gender in entry.noun_genders)
    )


def order_faults(classes: list[Located], left_out: list[Located], descriptors: list[Located]) -> Iterator[Fault]:
    """Selectors that hold nothing, two places for one term, and terms without a place."""
    first: dict[tuple, Located] = {}
    for each in classes:
        entry = each.entry
        yield from _selector_faults(each, entry.axis, entry.buckets, entry.terms, "", descriptors)
        named = [("term", term) for term in entry.terms or ()] or [("bucket", name) for name in entry.buckets or ()]
        for place in named or [("axis", entry.axis)]:
            before = first.setdefault((entry.axis, *place), each)
            if before is not each:
                what = f"{place[0]} {place[1]!r}"
                yield Fault(each.file, each.line, f"{what} has a place in line {before.line} already; remove one")
    places = first.keys()
    paired = {located.entry.axis for located in descriptors} - {
        pair.entry.axis
        for pair in left_out
        if not (pair.entry.buckets or pair.entry.terms or pair.entry.other_axis or pair.entry.both_before)
    }
    for axis in sorted(paired) if classes else ():
        terms = [located.entry for located in descriptors if located.entry.axis == axis]
        without = [
            term.term
            for term in terms
            if term.placement == "before"
            and not {(axis, "term", term.term), (axis, "bucket", term.bucket), (axis, "axis", axis)} & places
        ]
        if without:
            yield Fault(
                ADJECTIVE_ORDER_FILE,
                1,
                f"{without[0]!r} of the axis {axis!r} has no place among the adjectives; add an entry with "
                f"`axis: {axis}` to the class it belongs to",
            )


def left_out_pair_faults(pairs: list[Located], descriptors: list[Located]) -> Iterator[Fault]:
    """Names of no axis, bucket or term, and pairs that are not of two axes."""
    for each in pairs:
        entry = each.entry
        yield from _selector_faults(each, entry.axis, entry.buckets, entry.terms, "", descriptors)
        if entry.other_axis is not None:
            yield from _selector_faults(
                each, entry.other_axis, entry.other_buckets, entry.other_terms, "other_", descriptors
            )
        elif entry.other_buckets or entry.other_terms:
            yield Fault(each.file, each.line, "entry has no `other_axis`, of which it names buckets or terms; write it")
        if entry.other_axis == entry.axis:
            yield Fault(each.file, each.line, f"`other_axis` is {entry.axis!r} again; pairs are of two axes")


def left_out_noun_faults(
    entries: list[Located], descriptors: list[Located], nouns: list[Located], templates: list[Located]
) -> Iterator[Fault]:
    """Names of no term, noun or group of them, and entries that do not say what they mean."""
    groups = {
        "nouns": ("noun", "nouns.yaml", {located.entry.noun for located in nouns}),
        "noun_buckets": ("noun bucket", "nouns.yaml", {located.entry.bucket for located in nouns} - {None}),
        "noun_genders": ("noun gender", "nouns.yaml", {located.entry.gender for located in nouns} - {None}),
        "template_buckets": (
            "template bucket",
            "templates.yaml",
            {located.entry.bucket for located in templates} - {None},
        ),
    }
    for each in entries:
        entry = each.entry
        if entry.axis is not None:
            yield from _selector_faults(each, entry.axis, entry.buckets, entry.terms, "", descriptors)
        elif entry.buckets or entry.terms:
            yield Fault(each.file, each.line, "entry has no `axis`, of which it names buckets or terms; write it")
        named = [name for name in ("nouns", "noun_buckets", "noun_genders") if getattr(entry, name) is not None]
        if len(named) > 1:
            yield Fault(each.file, each.line, f"entry has `{named[0]}` and `{named[1]}`; write one of them")
        if not named and entry.template_buckets is None:
            yield Fault(
                each.file,
                each.line,
                "entry names no noun; write `nouns:`, `noun_buckets:` or `noun_genders:`, "
                "or `template_buckets:` if it is about all nouns",
            )
        for name, (what, file, allowed) in groups.items():
            values = getattr(entry, name)
            if values == ():
                yield Fault(each.file, each.line, f"`{name}` is empty; name some, or leave the key out")
            for value in values or ():
                if value not in allowed:
                    hint = did_you_mean(value, sorted(allowed))
                    known = f"allowed: {', '.join(sorted(allowed))}" if allowed else "there are none"
                    yield Fault(each.file, each.line, f"{what} {value!r} is not in {file}; {hint}{known}")
    everywhere = [
        each.entry
        for each in entries
        if each.entry.template_buckets is None
        and (each.entry.nouns or each.entry.noun_buckets or each.entry.noun_genders)
    ]
    for file, line, descriptor in descriptors:
        rules = [
            entry
            for entry in everywhere
            if entry.axis is None or selects(descriptor, entry.axis, entry.buckets, entry.terms)
        ]
        takes = [located.entry for located in nouns if descriptor.gender in (None, located.entry.gender)]
        if rules and all(any(selects_noun(rule, noun) for rule in rules) for noun in takes):
            yield Fault(
                file,
                line,
                f"term {descriptor.term!r} is said of no noun; remove it, or leave fewer nouns out of it in "
                f"{LEFT_OUT_NOUNS_FILE}",
            )


def _selector_faults(
    where: Located,
    axis: str,
    buckets: tuple[str, ...] | None,
    terms: tuple[str, ...] | None,
    prefix: str,
    descriptors: list[Located],
) -> Iterator[Fault]:
    """Names of no axis, bucket or term."""
    known = [located.entry for located in descriptors if located.entry.axis == axis]
    if not known:
        axes = sorted({located.entry.axis for located in descriptors})
        hint = did_you_mean(axis, axes)
        yield Fault(where.file, where.line, f"{prefix}axis {axis!r} is not there; {hint}allowed: {', '.join(axes)}")
        return
    if buckets and terms:
        yield Fault(where.file, where.line, f"entry has `{prefix}buckets` and `{prefix}terms`; write one of them")
    for name, given, allowed in (
        ("bucket", buckets, {entry.bucket for entry in known if entry.bucket}),
        ("term", terms, {entry.term for entry in known}),
    ):
        if given == ():
            yield Fault(where.file, where.line, f"`{prefix}{name}s` is empty; name some, or leave the key out")
        for value in given or ():
            if value not in allowed:
                hint = did_you_mean(value, sorted(allowed)) or f"see {axis}.yaml"
                yield Fault(where.file, where.line, f"{name} {value!r} is not in the axis {axis!r}; {hint.strip()}")
