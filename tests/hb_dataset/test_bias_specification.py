import pytest

from hb_dataset.bias_specification import TargetPair, read_specification, specification_names
from hb_dataset.yaml_lines import FaultsError

SMALL = """\
bias_type: size
dimension: size
group_1: small cats
group_2: large cats
pairs:
  - t1: kitten
    t2: cat
target_terms_1:
  - kittens are
target_terms_2:
  - cats are
attributes_1:
  - sleep*
attributes_2:
  - awake
"""

# Numbers of entries in the paper's lists (appendix A), each entry once: T1, pairs, A1, A2.
SIZES = {
    "religion1": (22, 4, 52, 42),
    "religion2": (26, 5, 49, 39),
    "race": (18, 9, 53, 46),
    "gender": (25, 16, 22, 21),
    "queerness": (19, 13, 62, 39),
}


@pytest.mark.parametrize("name", specification_names())
def test_a_specification_has_what_the_appendix_lists(name):
    specification = read_specification(name)

    lists = specification.target_terms_1, specification.pairs, specification.attributes_1, specification.attributes_2
    assert tuple(map(len, lists)) == SIZES[name]
    assert specification.bias_type == name
    assert specification.published_two_way == (name in {"religion1", "religion2", "race"})
    assert len(specification.target_terms_2) == len(specification.target_terms_1)
    assert "appendix A" in specification.source


def test_the_authors_name_is_translated():
    with pytest.raises(FileNotFoundError, match="'orientation', but this toolkit calls it 'queerness'; use one of "):
        read_specification("orientation")
    assert specification_names() == sorted(SIZES)


def test_one_of_your_own_is_read_from_its_path(tmp_path):
    path = tmp_path / "size.yaml"
    path.write_text(SMALL, encoding="utf-8")

    specification = read_specification(path)

    assert specification.pairs == (TargetPair(t1="kitten", t2="cat"),)
    assert specification.attributes_1 == ("sleep*",)
    assert read_specification(str(path)) == specification
    assert hash(read_specification(path)) == hash(specification)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("bias_type: size", "bias_type: sizes", "size.yaml:1: `bias_type` is 'sizes'; write `bias_type: size`"),
        ("group_2: large", "group2: large", "size.yaml:4: unknown key 'group2'; did you mean 'group_2'?"),
        ("    t2: cat", "    t3: cat", "size.yaml:7: unknown key 't3'; allowed: t1, t2"),
        ("    t2: cat", "    t2: kitten", "size.yaml:6: pairs t1 and t2 are both 'kitten'"),
        ("pairs:\n  - t1: kitten\n    t2: cat", "pairs: []", "size.yaml:5: pairs [] is invalid: Tuple should have at"),
        ("attributes_2:\n  - awake", "attributes_2: awake", "size.yaml:14: attributes_2 'awake' is not a list"),
        ("  - sleep*", "  - sl*p", "size.yaml:13: attributes_1 'sl*p' has a * that is not at the end of a word"),
    ],
)
def test_a_fault_is_reported_with_its_line_and_remedy(tmp_path, old, new, fault):
    assert old in SMALL
    (tmp_path / "size.yaml").write_text(SMALL.replace(old, new), encoding="utf-8")
    with pytest.raises(FaultsError) as error:
        read_specification(tmp_path / "size.yaml")
    assert any(str(reported).startswith(fault) for reported in error.value.faults), error.value
