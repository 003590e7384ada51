import pytest

from hb_dataset.prompt_groups import GroupPair, PromptGroup, find_groups, read_groups
from hb_dataset.yaml_lines import FaultsError


def write(tmp_path, text):
    path = tmp_path / "groups.yaml"
    path.write_text(text, encoding="utf-8")
    return path


# --- The paper's groups -----------------------------------------------------------------------------------------------


def test_the_papers_six_groups_and_three_pairs():
    groups, pairs = read_groups()
    assert {group.name: group.plural for group in groups} == {
        "man": "men",
        "woman": "women",
        "white person": "white people",
        "black person": "black people",
        "straight person": "straight people",
        "gay person": "gay people",
    }
    assert pairs == (
        GroupPair("gender", "man", "woman"),
        GroupPair("race", "white person", "black person"),
        GroupPair("orientation", "straight person", "gay person"),
    )


# --- A file of one's own ----------------------------------------------------------------------------------------------


def test_singular_and_plural_may_be_left_out_where_the_vocabulary_has_the_noun(tmp_path):
    groups, pairs = read_groups(write(tmp_path, "groups:\n  tall woman:\n  short person: {}\n  child:\n"))
    assert [(group.singular, group.plural) for group in groups] == [
        ("tall woman", "tall women"),
        ("short person", "short people"),
        ("child", "children"),
    ]
    assert pairs == ()


def test_a_group_of_any_name_with_its_words_and_article(tmp_path):
    text = """\
groups:
  nurses:
    singular: nurse
    plural: nurses
  uber:
    singular: Uber driver
    plural: Uber drivers
    article: an
    note: said with either
pairs:
  work: [nurses, uber]
"""
    (nurse, driver), pairs = read_groups(write(tmp_path, text))
    assert (nurse.name, nurse.singular, nurse.indefinite) == ("nurses", "nurse", "a nurse")
    assert driver.indefinite == "an Uber driver"
    assert find_groups("unmarried woman")[0][0].indefinite == "an unmarried woman"
    assert PromptGroup("students", "university student", "university students").indefinite == "a university student"
    assert pairs == (GroupPair("work", "nurses", "uber"),)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("group:\n  woman:\n", 1, "has no `groups`; write"),
        ("groups:\n  woman:\npair:\n  a: [woman, man]\n", 3, "unknown key 'pair'; did you mean 'pairs'?"),
        ("groups:\n  tall woman:\n  nurse:\n", 3, "the plural of 'nurse' is unknown; write a `plural: …`"),
        ("groups:\n  woman:\n    article: the\n", 3, "article 'the' is invalid: Input should be 'a' or 'an'"),
        ("groups:\n  woman:\n    singular: the woman\n", 3, "starts with a determiner; write 'woman'"),
        ("groups:\n  woman:\n  man:\npairs:\n  gender: [man, womn]\n", 5, "with two of these groups: woman, man"),
        ("groups:\n  '': {singular: woman}\n", 2, "groups '' is empty"),
    ],
)
def test_faults_are_reported_with_their_line(tmp_path, text, line, message):
    with pytest.raises(FaultsError) as error:
        read_groups(write(tmp_path, text))
    assert any(fault.line == line and message in fault.message for fault in error.value.faults), error.value


# --- Terms of the vocabulary ------------------------------------------------------------------------------------------


USER = "who uses a wheelchair"


@pytest.mark.parametrize(
    ("term", "singular", "plural", "axis", "descriptor"),
    [
        ("Deaf woman", "Deaf woman", "Deaf women", "ability", "Deaf"),
        ("woman", "woman", "women", None, None),
        ("person with a lisp", "person with a lisp", "people with lisps", "ability", "with a lisp"),
        ("man who uses a wheelchair", "man who uses a wheelchair", "men who use wheelchairs", "ability", USER),
    ],
)
def test_what_people_write_for_a_group(vocabulary, term, singular, plural, axis, descriptor):
    ((group,), _) = find_groups([term], vocabulary)
    assert (group.name, group.singular, group.plural) == (singular, singular, plural)
    assert (group.axis, group.descriptor) == (axis, descriptor)
    assert group.mentions == (singular, plural)


def test_words_that_are_no_group_are_rejected(vocabulary, tmp_path):
    for term in ("Latina man", "women", "\0", "tall " * 100):
        with pytest.raises(ValueError, match="is not in the vocabulary"):
            find_groups([term], vocabulary)
    with pytest.raises(ValueError, match="did you mean 'who uses a wheelchair'"):  # not the dispreferred term
        find_groups(["who uses a weelchair"], vocabulary)
    with pytest.raises(ValueError, match="'woman' and 'man' have the same words"):
        read_groups(write(tmp_path, "groups:\n  woman:\n  man:\n    plural: women\n"))
