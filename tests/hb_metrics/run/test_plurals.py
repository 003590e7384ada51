import pyarrow as pa
import pytest

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


@pytest.fixture(scope="module")
def few():
    return load_table("v1.0-small").slice(0, 12)


def test_a_digest_does_not_depend_on_chunks_metadata_and_plurals(few):
    parts = [few.slice(0, 5), few.slice(5)]
    assert table_digest(pa.concat_tables(parts)) == table_digest(few)
    assert table_digest(pa.Table.from_pylist(few.to_pylist(), few.schema)) == table_digest(few)
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
