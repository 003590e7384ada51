"""From comments to candidates for annotation: clean, query, crop (RedditBias, Barikeri et al. 2021, section 2.2).

    for candidate in candidates(open("comments.txt"), read_specification("gender")):
        ...  # people label candidate.comment and candidate.phrase

A comment is a candidate if it is short and contains a target term of group 1 (T1) and a stereotype of that group (A1).
One search covers all of the paper's queries, T1 × A1. The phrase is cut around the target with up to 15 words, since a
part can be biased where the whole is not.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from hb_dataset.bias_specification import BiasSpecification

MAX_CHARACTERS = 150
WINDOW = 7


# The parts that the paper removes; the words of a Markdown link are kept.
_MARKDOWN_LINK = re.compile(r"\[([^\[\]]*)\]\((?:https?://|www\.|/)[^()\s]*\)", re.IGNORECASE)
_URL = re.compile(r"(?:\bhttps?://|\bwww\.)\S+", re.IGNORECASE)
_NOT_PUBLISHED = re.compile(r"[^\w\s.!?-]")  # the published comments have no other punctuation
_USER_NAME = re.compile(r"(?<![\w/])/?u/[\w-]+|(?<![\w.])@\w[\w-]*", re.IGNORECASE)


class Candidate(NamedTuple):
    """A comment with a target term and an attribute.

    Attributes:
        row: The index of the comment in the input, from 0.
        comment: The comment, cleaned.
        phrase: The first token of the target, with up to seven tokens (separated by white space) on either side (paper:
            up to 15 words).
        target: The first target term of T1, as written in the comment.
        attribute: The first attribute of A1, as written in the comment.
    """

    row: int
    comment: str
    phrase: str
    target: str
    attribute: str


def clean_comment(text: str, *, published: bool = False) -> str:
    """The comment in lower case, without URLs, user names and extra white space.

    Args:
        text: The comment.
        published: Whether to remove all punctuation but ".", "!", "?" and "-" too, as in the comments that the authors
            published ("dont").
    """
    text = _MARKDOWN_LINK.sub(r"\1", text)
    text = _USER_NAME.sub(" ", _URL.sub(" ", text))
    text = _NOT_PUBLISHED.sub("", text) if published else text
    return " ".join(text.lower().split())


def candidates(
    comments: Iterable[str],
    specification: BiasSpecification,
    *,
    max_characters: int | None = MAX_CHARACTERS,
    published_cleaning: bool = False,
    counts: Counter[str] | None = None,
) -> Iterator[Candidate]:
    """Yields the comments that contain a target term of T1 and an attribute of A1.

    Args:
        comments: Raw comments; read once, never stored.
        specification: The specification with T1 and A1. Both match whole words; `greed*` matches the start of a word.
        max_characters: Leave out cleaned comments with this many characters or more (paper: 150); `None`: leave out
            none.
        published_cleaning: The argument `published` of `clean_comment`.
        counts: If passed, counts the comments `read` and the comments left out as `too_long`, `without_target` or
            `without_attribute`.

    Yields:
        The candidates, in the order of the comments.

    Raises:
        TypeError: A comment is not text.
    """
    if isinstance(comments, str):
        raise TypeError("comments is one string; pass an iterable of strings")
    counts = Counter() if counts is None else counts
    for row, raw in enumerate(comments):
        if not isinstance(raw, str):
            raise TypeError(f"comment {row} (counted from 0) is {type(raw).__name__}, not text; pass strings")
        counts["read"] += 1
        comment = clean_comment(raw, published=published_cleaning)
        if max_characters is not None and len(comment) >= max_characters:
            counts["too_long"] += 1
            continue
        target = _terms_pattern(specification.target_terms_1).search(comment)
        if target is None:
            counts["without_target"] += 1
            continue
        attribute = _terms_pattern(specification.attributes_1).search(comment)
        if attribute is None:
            counts["without_attribute"] += 1
            continue
        yield Candidate(row, comment, _window(comment, target.start()), target[0], attribute[0])


def _window(comment: str, start: int) -> str:
    """The token at a character of the comment, with up to `WINDOW` tokens on either side of it."""
    tokens = list(re.finditer(r"\S+", comment))
    target = next(index for index, token in enumerate(tokens) if token.end() > start)
    return " ".join(token[0] for token in tokens[max(0, target - WINDOW) : target + WINDOW + 1])


@lru_cache(maxsize=256)
def _terms_pattern(terms: tuple[str, ...]) -> re.Pattern[str]:
    """Any of the terms as whole words, the longest first; a * at the end of a word stands for the rest of it."""
    longest_first = sorted(terms, key=lambda term: (-len(term), term))
    words = (re.escape(term).replace(r"\*", r"\w*").replace(r"\ ", r"\s+") for term in longest_first)
    return re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", re.IGNORECASE)
