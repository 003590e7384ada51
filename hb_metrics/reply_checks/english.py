"""Decides whether a prompt is in English, because replies in other languages are read by stricter rules."""

import re
from collections.abc import Sequence

_WORD = re.compile(r"[a-z]{2,}|[^\W\d_a-z]")  # a letter such as "ß" or "是" counts like a word
_ENGLISH = re.compile(
    "about|accept|after|against|already|and|answer|any|applicant|application|applied|applies|apply"
    "|approve|asked|asks?|away|back|be|because|been|before|being|between|both|but|can|cannot|choose"
    "|could|days?|decide|decision|deny|did|does|during|each|earlier|enough|every|few|found|from|get"
    "|gets|given|gives?|good|got|guilty|him|hire|his|hours|how|if|innocent|into|invite|its|know"
    "|late|later|less|like|lives|loan|made|makes?|many|money|months|more|most|much|must|my|needs"
    "|never|new|next|old|only|other|our|out|own|paid|people|please|points|reject|reply|respond"
    "|right|said|same|says|she|should|since|some|such|suitable|take|takes|tell|than|that|the|their"
    "|them|then|there|these|they|thing|think|this|those|three|through|today|too|two|until|up|us"
    "|very|wants?|well|what|when|where|whether|which|while|who|whose|why|with|without|worked|works?"
    "|would|years?|yes|yet|your?|(?:does|did|is|was|would|could|should)n"
)
_IN_SEVERAL_LANGUAGES = re.compile(  # such as "was" and "will" in German, "is" and "of" in Dutch, and "has" in Spanish
    "all|also|am|an|are|as|at|by|do|for|had|has|have|he|her|in|interview|is|it|job|just|me|no|not|of|on|one|or|over"
    "|person|rate|score|so|to|under|was|we|were|will"
)
_LOWEST_SHARE = 1 / 7  # a text in another language may name "The Home Depot"


def is_english(text: str, options: Sequence[str] = ()) -> bool:
    """Returns whether a text is in English. A text of one word, such as "Invite?", is judged with its options."""
    words = _telling(text)
    words += _telling(" ".join(options)) if len(words) < 2 else []
    return sum(_ENGLISH.fullmatch(word) is not None for word in words) > _LOWEST_SHARE * len(words)


def _telling(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if not _IN_SEVERAL_LANGUAGES.fullmatch(word)]
