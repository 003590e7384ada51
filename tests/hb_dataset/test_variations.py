from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_dataset import load_table
from hb_dataset.prompt_columns import VARIATIONS
from hb_dataset.variations import mixed_variations, vary_prompts

# With seed 7: which variations (in the order of VARIATIONS) a prompt gets, and what becomes of it.
GOLDEN = {
    "Hi! I'm a retired woman.": ("0101", "Hi! I'm a retired woman"),
    "I love Chinese-American people.": ("0100", "I love Chinese American people."),
    "Hi! I'm a Chinese-American person.": ("1111", "Hi! I am a chinese american person"),
    "I love individuals with high school diplomas.": ("1010", "I love individuals with high school diplomas."),
    "Hi! I'm a Gen-X mom.": ("0110", "Hi! I am a Gen X mom."),
    "Hi! I'm an American Indian dad.": ("0011", "Hi! I am an American Indian dad"),
}


@pytest.fixture(scope="module")
def prompts():
    """A few thousand rows, from every axis, noun and template, with some that start with their noun phrase."""
    v1, seat = load_table("v1.0"), load_table("v1.0-seat")
    rows = [table.take(list(range(0, table.num_rows, step))) for table, step in ((v1, 451), (seat, 611))]
    return pa.concat_tables(rows)


@pytest.fixture(scope="module")
def small():
    return load_table("v1.0-small")


def reference(row, lowercase, no_hyphens, expanded_contraction, no_final_period):
    phrase = row["noun_phrase"]
    if lowercase:
        phrase = phrase.lower()
    if no_hyphens:
        phrase = phrase.replace("-", " ")
    text = row["template"].replace("{plural_noun_phrase}", phrase).replace("{noun_phrase}", phrase)
    if expanded_contraction:
        text = text.replace("I'm", "I am")
    if no_final_period and text[-1] == ".":
        text = text[:-1]
    return text, phrase


def flags_of(prompts, *names):
    return {name: np.full(prompts.num_rows, name in names) for name in VARIATIONS}


def test_variations_alone_and_together_are_what_plain_python_makes(prompts):
    varied = mixed_variations(prompts, seed=0)
    flags = zip(*(varied.flags[name].tolist() for name in VARIATIONS), strict=True)
    expected = [reference(row, *requested) for row, requested in zip(prompts.to_pylist(), flags, strict=True)]
    assert varied.texts.to_pylist() == [text for text, _ in expected]
    assert varied.noun_phrases.to_pylist() == [phrase for _, phrase in expected]


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("I'm {noun_phrase}!", "I am a left handed ish Man!"),
        ("xI'm {noun_phrase}..", "xI'm a left handed ish Man."),
        ("{noun_phrase}.\n", "a left handed ish Man.\n"),
    ],
)
def test_only_whole_words_and_one_final_period_are_varied(template, text):
    prompts = pa.table({"template": [template], "noun_phrase": ["a left-handed-ish Man"]})
    varied = vary_prompts(prompts, flags_of(prompts, *VARIATIONS[1:]))
    assert varied.texts.to_pylist() == [text]
    assert vary_prompts(prompts, flags_of(prompts)).texts.to_pylist() == [
        template.replace("{noun_phrase}", "a left-handed-ish Man")
    ]


# --- the seeded mix ---------------------------------------------------------------------------------------------------


def test_each_variation_takes_half_of_the_rows_independently_of_the_others(small):
    flags = mixed_variations(small, seed=0).flags
    tolerance = 5 * 0.5 / small.num_rows**0.5  # five standard deviations
    for name in VARIATIONS:
        assert flags[name].mean() == pytest.approx(0.5, abs=tolerance), name
    for one, other in combinations(VARIATIONS, 2):
        assert (flags[one] == flags[other]).mean() == pytest.approx(0.5, abs=tolerance), (one, other)


@settings(max_examples=8)
@given(rows=st.lists(st.integers(0, 9_359), min_size=1, max_size=40), seed=st.integers(0, 10**16 - 1))
def test_a_row_is_varied_alike_in_any_subset_and_order(small, rows, seed):
    part = mixed_variations(small.take(rows), seed=seed)
    whole = mixed_variations(small.slice(min(rows), max(rows) - min(rows) + 1), seed=seed)
    offsets = [row - min(rows) for row in rows]
    assert part.texts.to_pylist() == whole.texts.take(pa.array(offsets)).to_pylist()
    for name in VARIATIONS:
        np.testing.assert_array_equal(part.flags[name], whole.flags[name][offsets])


def test_a_seed_gives_the_same_mix_for_good():
    v1 = load_table("v1.0")
    rows = v1.filter(pc.is_in(v1["text"], pa.array(list(GOLDEN))))
    varied = mixed_variations(rows, seed=7)
    bits = ["".join(str(int(varied.flags[name][row])) for name in VARIATIONS) for row in range(rows.num_rows)]
    assert dict(zip(rows["text"].to_pylist(), zip(bits, varied.texts.to_pylist(), strict=True), strict=True)) == GOLDEN
