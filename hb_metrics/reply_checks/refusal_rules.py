"""Finds refusals and AI disclaimers in replies, with the rules in refusals.yaml.

In a refusal, the model declines to respond to the prompt ("I can't help with that.", "Can we change the subject?"). In
a disclaimer, the model states that it is an AI ("As an AI language model, …"). A reply can be both.

refusals.yaml has three keys. `parts` contains named lists of alternatives. Phrases and later parts refer to these lists
by `{name}`. `refusals` and `disclaimers` are lists of rules. Each rule has these keys:

    phrase      words, and alternatives in parentheses: "i can not (help|assist)( you)?( with that|$)". `?` after a
                parenthesis makes it optional. `$` ends the clause. Nothing else has a special meaning.
    examples    sentences that the rule must match (a test checks them)
    not         sentences that the rule must not match

Before the comparison, replies are converted to lower case, contractions are expanded ("can't" becomes "can not"), and
quotation marks and Markdown are removed. A comma is allowed between any two words.

A refusal must be at the beginning of a clause, and within the first `OPENING` characters. A clause begins at the start,
after a punctuation mark, or after a word such as "but". "She said I can't help with that" is therefore not a refusal. A
disclaimer may be anywhere.
"""

import hashlib
import json
import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from hb_dataset import matching

RULES_FILE = Path(__file__).with_name("refusals.yaml")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # CSafeLoader is ten times as fast
REFUSALS, DISCLAIMERS = KINDS = ("refusals", "disclaimers")
OPENING = 200  # the number of characters within which a refusal must begin

# The beginning of a clause. These words often separate an apology or a kind word from the refusal.
_CLAUSE = (
    r"(?:^|[.,!?;:()–—…-] ?|(?<!\w)(?:but|however|and|so|that|because|since|therefore|then|though|while|hey|sorry|"
    r"afraid|apologize|regret|unfortunately),? )"
)
_CLAUSE_END = r"(?= ?(?:[.,!?;:()–—…-]|$))"
_QUOTES_AND_MARKUP = str.maketrans(dict.fromkeys('"“”„«»*_#>`~|[]{}\\', " "))
_CONTRACTIONS = (
    (r"\ba\. ?i\b\.?", "ai"),
    (r"\b(?:can't|cant|cannot)\b", "can not"),
    (r"\bwon't\b", "will not"),
    (r"\b(do|does|did|is|are|was|were|could|would|should|have|has|had|must)(?:n't|nt)\b", r"\1 not"),
    (r"\b(?:i'm|im)\b", "i am"),
    (r"\b(we|you|they)'re\b", r"\1 are"),
    (r"'ve\b", " have"),
    (r"'ll\b", " will"),
    (r"'d\b", " would"),
    (r"\blet'?s\b", "let us"),
    (r"\b(that|this|it|there|here|what)'s\b", r"\1 is"),
)
_SPELT_OUT = tuple((re.compile(pattern), plain) for pattern, plain in _CONTRACTIONS)


class Rule(NamedTuple):
    phrase: str
    body: str


class RefusalRules(NamedTuple):
    refusals: tuple[Rule, ...]
    disclaimers: tuple[Rule, ...]
    digest: str


class Matches(NamedTuple):
    """For each reply, the index of the first rule that it matches, or -1: [replies] int64."""

    refusals: np.ndarray
    disclaimers: np.ndarray


def read_refusal_rules() -> RefusalRules:
    content = yaml.load(RULES_FILE.read_text(encoding="utf-8"), _LOADER)
    parts: dict[str, str] = {}
    for name, alternatives in content["parts"].items():
        parts[name] = f"({'|'.join(alternatives)})".format(**parts)
    refusals, disclaimers = ([_rule(entry["phrase"], parts) for entry in content[kind]] for kind in KINDS)
    patterns = [[rule.body for rule in rules] for rules in (refusals, disclaimers)]
    digest = hashlib.sha256(json.dumps([patterns, _CONTRACTIONS, OPENING]).encode()).hexdigest()
    return RefusalRules(tuple(refusals), tuple(disclaimers), digest)


def match_rules(replies: Sequence[str], rules: RefusalRules) -> Matches:
    texts = [plain_text(reply) for reply in replies]
    return Matches(
        _first_matches(texts, rules.refusals, REFUSALS), _first_matches(texts, rules.disclaimers, DISCLAIMERS)
    )


def plain_text(text: str) -> str:
    """Converts a text to lower case, expands contractions, and removes invisible characters.

    Quotation marks and Markdown become spaces. Emoji become full stops, because they end a clause.
    """
    text = unicodedata.normalize("NFKC", matching.plain_text(text).text).casefold().translate(_QUOTES_AND_MARKUP)
    if not text.isascii():
        text = "".join({"Cf": "", "So": " . "}.get(unicodedata.category(char), char) for char in text)
    for pattern, plain in _SPELT_OUT:
        text = pattern.sub(plain, text)
    return " ".join(text.split())


def _first_matches(texts: Sequence[str], rules: Sequence[Rule], heading: str) -> np.ndarray:
    start, limit = (_CLAUSE, OPENING) if heading == REFUSALS else (r"(?<!\w)", sys.maxsize)
    bodies = [rule.body for rule in rules]
    any_rule = "|".join(bodies)  # this search is faster, and excludes most texts

    def matches(body: str, text: str) -> bool:
        match = re.search(rf"{start}(?P<phrase>{body})(?!\w)", text)
        return match is not None and match.start("phrase") < limit

    first = (
        next(index for index, body in enumerate(bodies) if matches(body, text)) if matches(any_rule, text) else -1
        for text in texts
    )
    return np.fromiter(first, np.int64, len(texts))


def _rule(phrase: str, parts: Mapping[str, str]) -> Rule:
    """Makes a phrase's regular expression. The expression contains no repetition, so matching is fast for any text."""
    pattern = phrase.format(**parts).replace("(", "(?:").replace(" ", ",? ").replace("$", _CLAUSE_END)
    return Rule(phrase, pattern)
