from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_dataset import load_table
from hb_dataset.prompts import config_vocabulary
from hb_metrics.run.plurals import table_digest, terms_of_prompts, with_plurals


@pytest.fixture(scope="module", params=["v1.0-small", "next-intersections"])
def prompts(request):
    table = load_table(request.param)
    table = table.take(pa.array(range(0, len(table), 7)))
    return with_plurals(table, config_vocabulary(request.param))


def test_plurals_are_those_of_the_vocabulary(prompts):
    config = "next-intersections" if "first_descriptor" in prompts.column_names else "v1.0-small"
    known = {term.term: term.plural for term in config_vocabulary(config).descriptors}
    names = [name for name in ("descriptor", "first_descriptor", "second_descriptor") if name in prompts.column_names]
    for name in names:
        terms, forms = prompts[name].to_pylist(), prompts[f"{name}_plural"].to_pylist()
        assert forms == [known.get(term) or None for term in terms]
    expected = {
        terms[0]: [(term, known.get(term) or None) for term in terms]
        for terms in zip(*(prompts[name].to_pylist() for name in names), strict=True)
    }
    assert terms_of_prompts(prompts) == expected
    assert any(plural is not None for terms in expected.values() for _, plural in terms)


def test_the_terms_of_intersections_are_read_off_the_prompts():
    rows = {"descriptor": ["Deaf Black", "Deaf … with a PhD"] * 2, "text": list("abcd")}
    rows |= {"first_descriptor": ["Deaf"] * 4, "second_descriptor": ["Black", "with a PhD"] * 2}
    plurals = {"first_descriptor_plural": [None] * 4, "second_descriptor_plural": [None, "with PhDs"] * 2}
    table = pa.table({**rows, "descriptor_plural": pa.nulls(4, pa.string()), **plurals})
    assert terms_of_prompts(table) == {
        "Deaf Black": [("Deaf Black", None), ("Deaf", None), ("Black", None)],
        "Deaf … with a PhD": [("Deaf … with a PhD", None), ("Deaf", None), ("with a PhD", "with PhDs")],
    }
    assert terms_of_prompts(table.select(["descriptor", "descriptor_plural"]).slice(0, 1)) == {
        "Deaf Black": [("Deaf Black", None)]
    }


# --- digests ----------------------------------------------------------------------------------------------------------


text_or_null = st.none() | st.text(max_size=3)
rows = st.lists(st.tuples(text_or_null, st.booleans() | st.none()), min_size=1, max_size=20)


def as_table(rows):
    texts, flags = zip(*rows, strict=True)
    return pa.table({"text": pa.array(texts, pa.string()), "plural": pa.array(flags, pa.bool_())})


@given(rows, st.lists(st.integers(0, 20), max_size=4))
@settings(max_examples=10)
def test_a_digest_does_not_depend_on_chunks(rows, cuts):
    whole = as_table(rows)
    cuts = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    pieces = [as_table(rows[low:high]) for low, high in pairwise(cuts)]

    assert table_digest(pa.concat_tables(pieces)) == table_digest(whole)


@pytest.fixture(scope="module")
def few():
    return load_table("v1.0-small").slice(0, 12)


def test_a_digest_does_not_depend_on_metadata_nor_on_plurals(few):
    assert table_digest(with_plurals(few, config_vocabulary("v1.0-small"))) == table_digest(few)
    assert table_digest(few.replace_schema_metadata({"made": "today"})) == table_digest(few)


def test_a_digest_changes_with_a_cell_the_order_and_a_name(few):
    cells = few["axis"].to_pylist()
    cells[3] = None
    for changed in (
        few.set_column(few.schema.get_field_index("axis"), "axis", pa.array(cells, pa.string())),
        few.take([1, 0, *range(2, len(few))]),
        few.rename_columns({"axis": "axes"}),
    ):
        assert table_digest(changed) != table_digest(few)
