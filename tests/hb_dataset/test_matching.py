"""Every search for terms and phrases, on one table of typography; and matches that point into the original text."""

import dataclasses
import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hb_dataset.awareness import read_awareness
from hb_dataset.bias_specification import TargetPair, read_specification
from hb_dataset.counterfactuals import counterfactual
from hb_dataset.frequency import count_descriptors
from hb_dataset.matching import plain_text, squeezed, whole_words, words_pattern
from hb_metrics.collect.classifiers.censoring import censor, mask_groups, name_pattern
from hb_metrics.measurements.awareness.compute import takes_up
from hb_metrics.measurements.identity_leakage import NamedPerson, mentions_in
from hb_metrics.reply_checks.parroting import is_parroting
from hb_metrics.reply_checks.phrase_rates import phrase_rates
from hb_metrics.reply_checks.refusal_rules import match_rules, read_refusal_rules
from hb_train.debiasing.terms import find_terms, term_pattern
from tests.hb_metrics.measurements.identity_leakage.test_in_replies import leakage_of

TERM = "first-rate née o'fin"  # has a hyphen, an accent, an apostrophe, spaces and letters that have a ligature
NAME = "Zoë O'Fin-Day"
FULL_WIDTH = {code: code + 0xFEE0 for code in range(ord("!"), ord("~") + 1)}
SPELLINGS = {
    "as listed": str,
    "capitals": str.upper,
    "NFD": lambda term: unicodedata.normalize("NFD", term),
    "full width": lambda term: term.translate(FULL_WIDTH),
    "mathematical": lambda term: term.translate({code: code - ord("a") + 0x1D41A for code in range(97, 123)}),
    "ligature": lambda term: term.replace("fi", "ﬁ"),
    "long s": lambda term: term.replace("s", "ſ"),
    "dotless i": lambda term: term.replace("i", "ı"),
    "dotted I": lambda term: term.upper().replace("I", "İ"),
    "lower case of a dotted I": lambda term: term.replace("i", "i\u0307"),
    "each letter underlined": lambda term: re.sub(r"(\w)", "\\1\u0332", term),
    "possessive": lambda term: f"{term}’s",
}
for sign in "‐‑‒–−﹣－˗⁃\u05be\u1806\u058a\u2e40":
    SPELLINGS[f"hyphen {sign}"] = lambda term, sign=sign: term.replace("-", sign)
for sign in "’‘ʼ＇`´ʻ′ʾʿꞌ\u05f3\u055a":
    SPELLINGS[f"apostrophe {sign}"] = lambda term, sign=sign: term.replace("'", sign)
for space in ("\xa0", "\u2009", "\u202f", "\u3000", "\n", "\t", "  ", "\r\n"):
    SPELLINGS[f"space {space!a}"] = lambda term, space=space: term.replace(" ", space)
for sign in "\xad\u200b\u200c\u200d\u2060\ufeff\ufe0f\u200e\u3164\u115f\ufff9\U000e0061":
    SPELLINGS[f"invisible {sign!a}"] = lambda term, sign=sign: term[:2] + sign + term[2:-1] + sign + term[-1]
for mark in ("_", "__", "___", "*", "**", "***", "`", "~~", '"', "—", "/", "\\_", "😀"):
    SPELLINGS[f"between {mark}"] = lambda term, mark=mark: f"{mark}{term}{mark}"
for mark in ("_", "*", "**", "~~", "`"):
    SPELLINGS[f"first word between {mark}"] = lambda term, mark=mark: mark + term.replace(" ", f"{mark} ", 1)
    SPELLINGS[f"part between {mark}"] = lambda term, mark=mark: mark * ("-" in term) + term.replace("-", f"{mark}-", 1)
for mark in ("_", "*", "**", "***"):
    SPELLINGS[f"a letter between {mark}"] = lambda term, mark=mark: f"{mark}{term[0]}{mark}{term[1:]}"
    SPELLINGS[f"last letter between {mark}"] = lambda term, mark=mark: f"{term[:-1]}{mark}{term[-1]}{mark}"
OTHERS = {
    "in a longer word": lambda term: f"x{term}x",
    "at the end of a word": lambda term: f"é{term}",
    "an identifier": lambda term: f"my_{term}_count",
    "a private identifier": lambda term: f"self._{term}",
    "without accents": lambda term: term.replace("é", "e").replace("ë", "e"),
    "with other accents": lambda term: term.replace("é", "è").replace("ë", "e\u0300"),
    "with an em dash": lambda term: term.replace("-", "—"),
    "with a letter more": lambda term: term.replace("-", "y-"),
}
SPECIFICATION = dataclasses.replace(read_specification("gender"), pairs=(TargetPair(t1=TERM, t2="other"),))
NEED = dataclasses.replace(read_awareness()[0], taken_up=(f"{TERM[:-1]}*",))
PERSON = NamedPerson("axis", TERM, None, f"a {TERM} person", "a left-handed person")
SEARCHES = {
    "masking": (TERM, lambda text: censor(text, (TERM, None)) != text),
    "groups": (TERM, lambda text: mask_groups([text], [[TERM]]) != [text]),
    "names": (NAME, lambda text: name_pattern(NAME).search(plain_text(text).text)),
    "leakage": (TERM, lambda text: mentions_in([text], [PERSON])[0]),
    "frequency": (TERM, lambda text: count_descriptors([[text]], [TERM])[0] == [1]),
    "counterfactual": (TERM, lambda text: counterfactual(text, SPECIFICATION)),
    "debiasing": (TERM, lambda text: find_terms(text, term_pattern([TERM]))),
    "needs": (TERM, lambda text: takes_up(text, NEED.taken_up, "zzz")),
}


@pytest.mark.parametrize("search", SEARCHES)
def test_every_search_reads_every_spelling(search):
    term, matches = SEARCHES[search]
    missed = [name for name, spell in SPELLINGS.items() if not matches(f"So you say {spell(term)} and known.")]
    assert missed == []
    if term is TERM:  # the parts of a name are names, too
        assert [name for name, spell in OTHERS.items() if matches(f"So you say {spell(term)} and known.")] == []


def test_phrases_refusals_and_repetitions_in_every_spelling():
    def spelled(text, *without):
        return {name: spell(text) for name, spell in SPELLINGS.items() if name not in without}

    phrase, question = "don't know what that is", "Why can't I find it, first-rate fin?"
    for name, words in spelled(phrase).items():
        assert phrase_rates([f"Well, I {words}."], ["d"], ["a"], {}).phrases["confusion"][phrase] == 1, name
    replies = spelled(question, "between 😀", "possessive")
    repeated = is_parroting([question] * len(replies), [*replies.values()])
    assert [name for name, is_repeated in zip(replies, repeated, strict=True) if not is_repeated] == []
    replies = spelled("I can't assist with that", "between /", "possessive")
    refusals = match_rules([*replies.values()], read_refusal_rules()).refusals
    assert [name for name, rule in zip(replies, refusals, strict=True) if rule < 0] == []


TEXTS = st.text([*"abAİıéß_*`~-’‑ﬁǆ😀\u0301\u0307\u0332\u200d\ufe0f\xad\u3000 "])


@given(TEXTS, TEXTS)
def test_masks_replace_only_the_mention(before, after):
    """The rest of the text is unmodified, whatever stands before and after the mention."""
    pattern = whole_words([words_pattern("d1")])
    masked = plain_text(f"{before} D1 {after}").masked(pattern, "X")
    assert masked == f"{before} X {after}" or masked.startswith(f"{before} X ")
    assert plain_text(f"{before} D1 {after}").with_replaced([]) == f"{before} D1 {after}"


@pytest.mark.parametrize("mark", ["_", "*", "**", "***"])
def test_a_mask_takes_emphasis_inside_its_word_along(mark):
    for term in (f"{mark}M{mark}uslim", f"Musli{mark}m{mark}", f"Mus{mark}l{mark}im"):
        assert censor(f"I met {term} men.", ("Muslim", None)) == "I met left-handed men."
        (mention,) = find_terms(f"I met {term} men.", term_pattern(["Muslim"]))
        assert (mention.start, mention.end) == (6, 6 + len(term))


def test_a_missing_space_is_read_only_before_a_capital():
    named = {"LatinAmerican": True, "latinAmerican": True, "latin-american": True, "latinamerican": False}
    assert {text: censor(text, ("Latin American", None)) == "left-handed" for text in named} == named
    names = {"Mary Ann": True, "MaryAnn": True, "Mary-Ann": True, "Maryann": False, "MARYANN": False}
    assert {text: name_pattern("Mary Ann").fullmatch(text) is not None for text in names} == names


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("José", "Jose JOSE JOSÉ"),
        ("Nguyễn", "Nguyen"),
        ("Łukasz", "Lukasz LUKASZ"),
        ("María-José", "Maria Jose Maria-Jose"),
        ("Bjørn", "Bjorn"),
    ],
)
def test_a_name_without_its_accents_is_the_name(name, written):
    assert [word for word in written.split() if not name_pattern(name).fullmatch(word)] == []
    assert not name_pattern(name).fullmatch(written.split()[0].lower())
    for short, word in (("Ái Lê", "AI"), ("Thế Vũ", "The"), ("Đỗ Anh", "Do")):
        assert not name_pattern(short).fullmatch(word)


def test_squeezed_texts_have_single_spaces_and_no_markdown_in_gaps():
    assert squeezed("**A**\n_b_  c` d") == "*a b c d"


def test_leakage_sees_the_own_term_that_masking_missed():
    """Letters of other scripts, accents, digits and signs hide a term from masking, but not from the classifier."""
    hidden = ["D-e-a-f", "d.e.a.f", "déaf", "De4f", "DEА\u0301F"]
    texts = ["no one", *hidden, "he'll fade after, de af, leaf, dead"]
    assert [censor(text, ("deaf", None)) for text in texts] == texts
    people = [PERSON._replace(descriptor=term) for term in ("deaf", "tall")]
    keys = [("axis", "deaf")] * len(texts)
    assert [bool(mentions) for mentions in mentions_in(texts, people, keys)] == [False, *[True] * len(hidden), False]
    assert not any(mentions_in(texts, people, [("axis", "tall")] * len(texts)))
    columns = [["deaf"] * 4 + ["tall"] * 3, ["t"] * 7, ["axis"] * 7]

    def reaction(texts):
        return np.array([[1.0, 0.0] if "left-handed" in text else [0.0, 1.0] for text in texts])

    leakage = leakage_of(texts, columns, people, reaction)
    assert (leakage.num_in_view, leakage.value) == (3, 0)
    assert leakage.hidden_value == pytest.approx(1000 * 2 * 0.375**2)
