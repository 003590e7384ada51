"""Finds terms in texts, whatever their typography, and replaces them in the unmodified text.

Models write the same term with curly apostrophes, non-breaking hyphens, soft hyphens, ligatures, combining accents or
Markdown. `plain_text` replaces these characters with plain ones and keeps a map to the original positions. Every search
for terms or phrases reads a plain text, and the patterns come from `words_pattern` and `whole_words`.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from hb_dataset.written_text import IGNORABLE

_APOSTROPHE = re.compile(
    "(?:REVERSED |MODIFIER LETTER )?PRIME"
    "|(?!.*(?:COMBINING|CANADIAN| ACCENT GERESH| WITH | PRECEDED )).*"
    "(?<!DOUBLE )(?:APOSTROPHE|ACUTE ACCENT|HALF RING|(?:TURNED|REVERSED) COMMA|GERESH|SALTILLO)"
    "|(?:LEFT|RIGHT|SINGLE HIGH-REVERSED-9)(?: SINGLE)? QUOTATION MARK|MODIFIER LETTER (?:VERTICAL LINE|GLOTTAL STOP)"
)
_HYPHENS = "\u2043\u2212\u02d7"  # signs that look like hyphens; Unicode's category Pd contains the others
_NO_HYPHEN = re.compile("EM DASH|HORIZONTAL BAR|WAV")
# The character that stands for all invisible ones, and those that underline or strike the letter before them.
_UNSEEN = "\u200b\u0332-\u0338"
_LIGATURES = "ĲĳǄ-ǌǱ-ǳﬀ-ﬆ"
_UNSEEN_OR_LIGATURE = re.compile(f"[{_UNSEEN}{_LIGATURES}]")
_ACCENT = re.compile("[\u0300-\u036f]")
_ACCENTED = re.compile(r"\w[\u0300-\u036f]+")
_RESIZED = re.compile(rf"\w[\u0300-\u036f]+|[{_UNSEEN}]+|[{_LIGATURES}]")
_ASCII = bytes(range(128))
# Each of these patterns begins with a literal, because `re` finds literals much faster. Underscores around words are
# Markdown. In identifiers, such as "snake_case" and "_private", they are word characters.
_EMPHASIS = re.compile(r"_(?<!\w_)_*+(?=\S)[^_\0]*+(?<!\s)_++(?!\w)")
_BACKTICK_IN_WORD = re.compile(r"`(?<=[^\W\d_]`)(?=[^\W\d_])")
_MARK_BESIDE_GAP = re.compile(r"\*(?:(?<=[ -]\*)|(?=[ -]))")
# Markdown inside a word: "**E**mily" and "Emil**y**".
_STARS_IN_WORD, _LINES_IN_WORD = (
    re.compile(
        rf"{sign}(?P<s>{sign}{{0,2}})[^\W\d_]+{sign}(?P=s)(?=[^\W\d_])|{sign}(?<=[^\W\d_]{sign})(?P<t>{sign}{{0,2}})[^\W\d_]+{sign}(?P=t)(?!{sign})"
    )
    for sign in (r"\*", "_")
)
_MARKS = r"*~`\\"  # Markdown, which may surround a part of a term: "**hard**-of-hearing"
SPACE = rf"[{_MARKS}]*\s[\s{_MARKS}]*"  # a pattern for the characters between words
# Letters of scripts without spaces: Thai, Lao, Burmese, Khmer, kana and Chinese.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
# A character that continues a word. Such scripts, and Korean particles, stand directly beside foreign words.
# Ignoring the case of so many characters would take long to compile.
_IN_WORD = rf"(?-i:[^\W{UNSPACED}\uac00-\ud7a3])"
_WHITE_SPACE = "\t\n\v\f\r\x1c\x1d\x1e\x1f"


@dataclass(frozen=True)
class PlainText:
    """A text in plain characters.

    Attributes:
        original: The text that it comes from.
        same_length: The original with plain characters, before parts of the text were shortened or lengthened.
    """

    text: str
    original: str
    same_length: str

    @cached_property
    def _anchors(self) -> list[tuple[int, int]]:
        """A position in `text` and the same position in `original`, for the start and after each resized part."""
        anchors, length, end = [(0, 0)], 0, 0
        if self.text is not self.same_length:
            for match in _RESIZED.finditer(self.same_length):
                length += match.start() - end + len(_resized(match[0]))
                end = match.end()
                anchors.append((length, end))
        return anchors

    def original_position(self, position: int) -> int:
        plain, original = self._anchors[bisect_right(self._anchors, (position, len(self.original))) - 1]
        return original + position - plain

    def original_span(self, start: int, end: int) -> tuple[int, int]:
        """Returns the same span in `original`, with the Markdown around its first letters, as in "**M**uslim"."""
        first = self.original_position(start)
        while first and self.same_length[first - 1] == "\u200b" and self.original[first - 1] in "*_":
            first -= 1
        return first, self.original_position(end)

    def with_replaced(self, edits: Iterable[tuple[int, int, str]]) -> str:
        """Replaces spans in the original text. Each edit is a start and an end in `text`, and the new words."""
        pieces, end = [], 0
        for start, stop, new in edits:
            first, last = self.original_span(start, stop)
            pieces += [self.original[end:first], new]
            end = last
        return "".join([*pieces, self.original[end:]])

    def masked(self, pattern: re.Pattern[str], mask: str) -> str:
        """Replaces the matches of a pattern, and the Markdown around them, in the original text."""
        edits = []
        for match in pattern.finditer(self.text):
            start, end = match.span()
            while start > 0 and self.text[start - 1] in _MARKS and self.text[start - 1] == self.text[end : end + 1]:
                start, end = start - 1, end + 1
            edits.append((start, end, mask))
        return self.with_replaced(edits)


def plain_text(text: str) -> PlainText:
    """Replaces typographic characters with plain ones. Upper and lower case are kept.

    Apostrophes, hyphens (also dashes, except em dashes) and spaces of all kinds become "'", "-" and " ". Letters are in
    Unicode normal form KC, and "İ" and "ı" become "I" and "i". Invisible characters are removed. Underscores around
    words become "*".
    """
    same_length = text
    if "*" in text:
        same_length = _STARS_IN_WORD.sub(lambda match: match[0].replace("*", "\u200b"), same_length)
    if "_" in text:
        same_length = _LINES_IN_WORD.sub(lambda match: match[0].replace("_", "\u200b"), same_length)
        same_length = _EMPHASIS.sub(lambda match: match[0].replace("_", "*"), same_length)
    if "`" in text:
        same_length = _BACKTICK_IN_WORD.sub("'", same_length)
    if text.isascii():
        return PlainText(same_length.replace("\u200b", ""), text, same_length)
    # Bytes are much faster to search than characters.
    encoded = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    others = "".join({*encoded.decode("utf-8", "surrogatepass"), "\u200b"})
    for character in others:
        if character != _PLAIN[ord(character)]:
            same_length = same_length.replace(character, _PLAIN[ord(character)])
    plain = same_length
    if _ACCENT.search(others):
        plain = _ACCENTED.sub(lambda match: _resized(match[0]), plain)
    for character in _UNSEEN_OR_LIGATURE.findall(others):
        plain = plain.replace(character, _resized(character))
    return PlainText(plain, text, same_length)


def squeezed(text: str) -> str:
    """Returns a plain text in lower case, with single spaces, and without Markdown beside spaces and hyphens."""
    plain = plain_text(text).text.lower()
    for character in _WHITE_SPACE:  # `replace` is much faster than `re.sub`
        plain = plain.replace(character, " ")
    for character in _MARKS:
        plain = plain.replace(character, "*")
    while "**" in plain:
        plain = plain.replace("**", "*")
    plain = _MARK_BESIDE_GAP.sub("", plain)
    while "  " in plain:
        plain = plain.replace("  ", " ")
    return plain


def words_pattern(words: str, *, same_signs: bool = False) -> str:
    """Returns a regular expression for words in a plain text. A trailing "*" in `words` stands for any letters.

    Unless `same_signs` is true, hyphens and spaces may be replaced with one another. A hyphen may also be missing, and
    so may a space before a capital letter: "LatinAmerican" is "Latin American", but "Maryann" is not "Mary Ann".
    """
    if same_signs:
        space, hyphen = SPACE, f"[{_MARKS}]*-[{_MARKS}]*"
    else:
        gap = rf"[\s\-{_MARKS}]"
        space, hyphen = rf"(?:{gap}+|(?-i:(?<=[^\W\d_A-Z])(?=[A-Z])))", f"{gap}*"
    escaped = re.escape(re.sub(" ?- ?", "-", " ".join(plain_text(words).text.split())))
    return escaped.replace(r"\*", r"\w*").replace(r"\-", hyphen).replace(r"\ ", space)


def whole_words(patterns: Iterable[str], flags: int = re.IGNORECASE) -> re.Pattern[str]:
    """Compiles patterns into one, which prefers the longest. Matches do not begin or end inside a word."""
    longest_first = sorted(set(patterns), key=lambda pattern: (-len(pattern), pattern))
    return re.compile(rf"(?<!{_IN_WORD})(?:{'|'.join(longest_first)})(?!{_IN_WORD})", flags)


def as_it_looks(text: str) -> str:
    """Replaces each character with the plain small letter that it resembles, such as "g4y" with "gay".

    The text keeps its length. "i" and "1" become "l". Accents are removed.
    """
    return text.translate(_LOOKS)


class _PlainCharacters(dict[int, str]):
    def __missing__(self, code: int) -> str:
        character = chr(code)
        name, category = unicodedata.name(character, ""), unicodedata.category(character)
        normal = unicodedata.normalize("NFKC", character)
        is_letter = character.isalnum() and normal.isalnum() and len(normal) == 1
        if _APOSTROPHE.fullmatch(name):
            self[code] = "'"
        elif character in _HYPHENS or (category == "Pd" and not _NO_HYPHEN.search(name)):
            self[code] = "-"
        elif character.isspace():
            self[code] = " "
        elif category == "Cf" or IGNORABLE.match(character):
            self[code] = "\u200b"
        else:
            self[code] = normal if is_letter else character
        return self[code]


class _Looks(dict[int, int]):
    def __missing__(self, code: int) -> int:
        base = ord(unicodedata.normalize("NFKD", chr(code))[0].lower()[0])
        self[code] = self.get(base, base)
        return self[code]


_PLAIN = _PlainCharacters(str.maketrans({"İ": "I", "ı": "i"}))
# Digits and signs, then Cyrillic and Greek letters.
_LOOKS = _Looks(str.maketrans("013457869@$|!iıаеорсухіјѕһԁαεικονρτυχ", "oleastbggasllllaeopcyxljshdaelkovptux"))


def _resized(part: str) -> str:
    part = unicodedata.normalize("NFC", part).replace("İ", "I").replace("i\u0307", "i")
    return _UNSEEN_OR_LIGATURE.sub(lambda match: unicodedata.normalize("NFKC", match[0] * match[0].isalpha()), part)
