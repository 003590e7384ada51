import re
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_dataset import load_table
from hb_dataset.prompts import config_vocabulary
from hb_dataset.whole_files import write_atomically
from hb_metrics.run.record import Record
from hb_metrics.run.run_folder import (
    LAYOUT,
    RUN_FILE,
    open_run,
    read_json,
    table_digest,
    terms_of_prompts,
    with_plurals,
    write_json,
    write_once,
)
from hb_metrics.run.tables import Tables

RUN = {
    "layout": {"version": LAYOUT},
    "settings": {"model": "gpt2", "alpha": 0.05, "revision": None, "include_gendered": True},
    "data": {"digest": "00ff", "num_prompts": 12},
}


@pytest.fixture
def used(tmp_path):
    """The folder of a run that was started."""
    folder = tmp_path / "run"
    open_run(folder, RUN)
    return folder


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_write_that_fails_leaves_everything_as_it_was(tmp_path, failure):
    path = tmp_path / "file.txt"
    path.write_text("old")
    untouched = content(tmp_path)

    def write_half(scratch):
        scratch.write_text("half a file")
        raise failure

    with pytest.raises(type(failure)):
        write_atomically(path, write_half)
    assert content(tmp_path) == untouched


DAMAGED = (b"", b"\xff\xfe", b"[]", b'{"settings": {"mod', b'{"a": {"b": 1, "b": 1}}', b'{"a":' * 100_000)


@pytest.mark.parametrize("wrong", DAMAGED, ids=range(len(DAMAGED)))
def test_an_unreadable_run_file_is_named_and_kept(used, wrong):
    (used / RUN_FILE).write_bytes(wrong)

    with pytest.raises(ValueError, match=re.escape(f"'{used / RUN_FILE}' ")):
        open_run(used, RUN)
    assert content(used) == {RUN_FILE: wrong}


def test_a_run_starts_in_a_new_or_empty_folder(tmp_path):
    open_run(tmp_path / "runs" / "gpt2", RUN)
    assert read_json(tmp_path / "runs" / "gpt2" / RUN_FILE) == RUN
    (tmp_path / "runs" / ".hidden").touch()
    with pytest.raises(ValueError, match="contains files"):
        open_run(tmp_path / "runs", RUN)
    assert [path.name for path in (tmp_path / "runs" / "gpt2").iterdir()] == [RUN_FILE]
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "file.json", {"deep": [{"down": float("nan")}]})


def test_a_folder_that_cannot_be_is_named_and_nothing_is_made(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    for name, existing in (("file", "file"), ("file/run", "file"), ("link", "link"), ("link/run", "link")):
        with pytest.raises(ValueError, match=f"'{tmp_path / existing}' is not a folder to which you can write"):
            open_run(tmp_path / name, RUN)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


OTHER_RUNS = [
    ({"data": {**RUN["data"], "seed": 7}}, ["data.seed is not recorded there and 7 here"]),
    (
        {"settings": {**RUN["settings"], "model": "bert"}, "data": {"digest": "11"}},
        [
            "settings.model is 'gpt2' there and 'bert' here",
            "data.digest is '00ff' there and '11' here",
            "data.num_prompts is 12 there and not recorded here",
        ],
    ),
]


@pytest.mark.parametrize(("changes", "differences"), OTHER_RUNS)
def test_each_setting_that_differs_is_named(used, changes, differences):
    before = content(used)
    with pytest.raises(ValueError, match="contains a run with other settings") as error:
        open_run(used, {**RUN, **changes})
    assert str(error.value).splitlines()[1:-1] == [f"  {difference}" for difference in differences]
    assert content(used) == before


@pytest.mark.parametrize("earlier", [{}, {"layout": {"version": 1}}, {"layout": {"version": LAYOUT + 1}}])
def test_a_run_of_another_layout_is_named_and_left_alone(tmp_path, earlier):
    record = {**{name: value for name, value in RUN.items() if name != "layout"}, **earlier}
    write_json(tmp_path / RUN_FILE, {**record, "versions": {"holistic-bias": "0.0.9"}})
    before = content(tmp_path)

    layout = earlier.get("layout", {"version": 1})["version"]
    with pytest.raises(ValueError, match=rf"layout {layout}, but .* only the layout {LAYOUT}; .*: 0\.0\.9$"):
        open_run(tmp_path, RUN)
    assert content(tmp_path) == before


# --- prompts ----------------------------------------------------------------------------------------------------------


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


def test_a_section_that_a_record_lacks_is_named():
    with pytest.raises(ValueError, match=r"run\.json has no section 'generation'.*measure again"):
        Record({}).generation  # noqa: B018
    with pytest.raises(AttributeError):
        Record({}).nothing  # noqa: B018


def changed_page(content):
    return content[:40] + bytes([content[40] ^ 1]) + content[41:]


def changed_footer(content):
    """A footer whose metadata cannot be parsed, for which pyarrow raises OSError."""
    return content[:-30] + bytes(byte ^ 255 for byte in content[-30:-8]) + content[-8:]


@pytest.mark.parametrize("damage", [None, lambda _: b"", lambda _: b"PAR1 and no more", changed_page, changed_footer])
def test_a_table_is_made_once_unless_it_is_damaged(damage, used):
    path, made = used / "leakage" / "moves.parquet", []

    def make():
        made.append(1)
        return pa.table({"move": [0.5]})

    write_once(path, make)
    if damage is not None:
        path.write_bytes(damage(path.read_bytes()))
        with pytest.raises(ValueError, match=r"damaged.*run the same `measure` command again"):
            Tables(used).read("leakage/moves.parquet")
    write_once(path, make)
    assert len(made) == (1 if damage is None else 2)
    assert pq.read_table(path)["move"].to_pylist() == [0.5]
