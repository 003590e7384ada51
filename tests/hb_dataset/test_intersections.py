import itertools
import shutil
from collections import Counter
from dataclasses import replace

import pytest

from hb_dataset import PersonNoun, intersection_batches, load_table, read_vocabulary
from hb_dataset.intersections import all_intersections
from hb_dataset.noun_phrases import noun_phrase, plural_noun_phrase, prompt_masks
from hb_dataset.versions import NEXT
from hb_dataset.vocabulary import VOCABULARIES

PERSON = PersonNoun(noun="person", plural="people")


@pytest.fixture(scope="module")
def pairs(vocabulary):
    """All pairs by their two terms."""
    return {key(pair): pair for pair in all_intersections(vocabulary)}


@pytest.fixture(scope="module")
def table():
    return load_table("next-intersections")


@pytest.fixture(scope="module")
def sample(pairs, table):
    """The pairs of the config."""
    columns = ("first_axis", "first_descriptor", "second_axis", "second_descriptor")
    keys = zip(*(table[name].to_pylist() for name in columns), strict=True)
    return [pairs[key] for key in dict.fromkeys(keys)]


def key(pair):
    return pair.first.axis, pair.first.term, pair.second.axis, pair.second.term


def find(pairs, one, other):
    """The pair of two terms, written as "axis/term"."""
    terms = sorted(tuple(name.split("/")) for name in (one, other))
    return pairs.get((*terms[0], *terms[1]))


# --- English ----------------------------------------------------------------------------------------------------------


# Two terms of two axes, and their phrase about one person and about several: opinion and size before age, age before
# condition, condition before origin, origin before religion and gender; then nouns beside the noun, articles, and
# phrases after the noun.
ENGLISH = """
age/young | body_type/tall
  a tall young person | tall young people
age/elderly | socioeconomic_class/poor
  a poor elderly person | poor elderly people
political_ideologies/Republican | race_ethnicity/Black
  a Black Republican person | Black Republican people
cultural/hippie | political_ideologies/socialist
  a hippie and socialist person | hippie and socialist people
gender_and_sex/FTM | ability/with dyslexia
  an FTM person with dyslexia | FTM people with dyslexia
ability/who stutters | socioeconomic_class/with a PhD
  a person with a PhD who stutters | people with PhDs who stutter
ability/who is Deaf | socioeconomic_class/who dropped out of high school
  a person who is Deaf and who dropped out of high school | people who are Deaf and who dropped out of high school
body_type/who's short in stature | ability/with migraines
  a person with migraines who's short in stature | people with migraines who are short in stature
ability/with a stoma | characteristics/with child
  a person with a stoma and with child | people with stomas and with children
"""


def test_english(pairs):
    for terms, phrases in zip(ENGLISH.splitlines()[1::2], ENGLISH.splitlines()[2::2], strict=True):
        pair = find(pairs, *terms.split(" | "))
        assert f"  {noun_phrase(pair, PERSON)} | {plural_noun_phrase(pair, PERSON)}" == phrases


def test_a_pair_is_named_by_both_axes_and_terms(pairs):
    around = find(pairs, "ability/Deaf", "socioeconomic_class/with a PhD")
    named = around.axis, around.term, around.placement
    assert named == ("ability+socioeconomic_class", "Deaf … with a PhD", "around")
    after = find(pairs, "ability/with aphasia", "characteristics/with no kids")
    assert (after.term, after.placement) == ("with aphasia and with no kids", "after")


# --- which pairs there are --------------------------------------------------------------------------------------------


def test_pairs_left_out_are_those_of_the_file_and_those_without_nouns_or_words_of_their_own(vocabulary, pairs):
    """Against a loop that asks every entry of every pair."""

    def held(descriptor, axis, buckets, terms):
        return (
            descriptor.axis == axis
            and (not buckets or descriptor.bucket in buckets)
            and (not terms or descriptor.term in terms)
        )

    def is_left_out(one, other):
        return any(
            held(one, entry.axis, entry.buckets, entry.terms)
            and (entry.other_axis is None or held(other, entry.other_axis, entry.other_buckets, entry.other_terms))
            and (not entry.both_before or one.placement == other.placement == "before")
            for entry in vocabulary.left_out_pairs
        )

    assert len(pairs) == 188_398
    kept = left_out = 0
    for one, other in itertools.islice(itertools.combinations(vocabulary.descriptors, 2), 0, None, 31):
        if one.axis != other.axis:
            pair = find(pairs, f"{one.axis}/{one.term}", f"{other.axis}/{other.term}")
            if is_left_out(one, other) or is_left_out(other, one):
                left_out += 1
                assert pair is None
            else:
                kept += pair is not None
    assert kept > 0.97 * (201_837 / 31 - left_out)


@pytest.mark.parametrize(
    ("genders", "num_pairs"),
    [(("female", "male"), 2), (("female", "female"), 1), ((None, "male"), 1), (("male", None), 1)],
)
def test_the_same_words_are_repeated_unless_their_genders_differ(vocabulary, genders, num_pairs):
    named = {(term.axis, term.term): term for term in vocabulary.descriptors}
    deaf, catholic = named["ability", "Deaf"], named["religion", "Catholic"]
    twins = [replace(deaf, axis=axis, gender=gender) for axis, gender in zip(("ability", "age"), genders, strict=True)]
    assert len(list(all_intersections(replace(vocabulary, descriptors=(*twins, catholic))))) == num_pairs


def test_v1_has_no_intersections():
    with pytest.raises(ValueError, match=r"has no adjective_order\.yaml"):
        next(all_intersections(read_vocabulary()))
    with pytest.raises(ValueError, match=r"'v1\.0-intersections' does not exist; did you mean 'next-intersections'\?"):
        load_table("v1.0-intersections")


# --- the sample -------------------------------------------------------------------------------------------------------


def test_the_sample_has_as_many_pairs_of_each_two_axes(sample):
    by_axes = Counter(pair.axis for pair in sample)
    assert set(by_axes.values()) == {16}
    assert len(by_axes) == 12 * 11 / 2


def test_the_sample_has_every_term(vocabulary, sample):
    used = Counter((term.axis, term.term) for pair in sample for term in (pair.first, pair.second))
    assert set(used) == {(term.axis, term.term) for term in vocabulary.descriptors if term.axis != "nonce"}
    # 176 uses of 149 terms: those used least come first.
    assert {count for (axis, _), count in used.items() if axis == "body_type"} == {1, 2}


# --- the config -------------------------------------------------------------------------------------------------------


def test_the_config_has_the_small_templates_and_the_nouns_that_take_both_terms(vocabulary, sample, table):
    templates = [template for template in vocabulary.templates if template.small]
    terms = vocabulary.descriptors
    masks = prompt_masks(terms, vocabulary.nouns, templates, vocabulary.left_out_nouns)
    takes = dict(zip(terms, masks, strict=True))
    assert table.num_rows == sum((takes[pair.first] & takes[pair.second]).sum() for pair in sample)
    distinct = {name: len(table[name].unique()) for name in ("template", "id", "text")}
    assert distinct == {"template": len(templates), "id": table.num_rows, "text": table.num_rows}
    assert len(templates) == 4


def test_full_streams_every_pair_with_every_template(vocabulary, pairs):
    first = next(intersection_batches(vocabulary, full=True))
    assert set(first["template"].to_pylist()) == {template.template for template in vocabulary.templates}
    described = zip(first["first_descriptor"].to_pylist(), first["second_descriptor"].to_pylist(), strict=True)
    assert list(dict.fromkeys(described)) == [(pair[1], pair[3]) for pair in list(pairs)[:64]]


def test_a_term_given_by_name_goes_before_its_bucket_and_axis(tmp_path):
    folder = shutil.copytree(VOCABULARIES / NEXT, tmp_path / "own")
    path = folder / "adjective_order.yaml"
    path.write_text(path.read_text(encoding="utf-8") + "  - {name: nouns, axis: race_ethnicity, terms: [Black]}\n")
    vocabulary = read_vocabulary(folder)
    two_axes = tuple(term for term in vocabulary.descriptors if term.axis in ("race_ethnicity", "religion"))
    pairs = {key(pair): pair for pair in all_intersections(replace(vocabulary, descriptors=two_axes))}
    assert find(pairs, "race_ethnicity/Black", "religion/Muslim").term == "Muslim Black"
    assert find(pairs, "race_ethnicity/Asian", "religion/Muslim").term == "Asian Muslim"
