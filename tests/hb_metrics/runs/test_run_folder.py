import json
import re
from importlib.metadata import version
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_dataset import load_table
from hb_dataset.prompts import config_vocabulary
from hb_dataset.whole_files import write_atomically, write_text
from hb_metrics.runs.finished_run import read_prompts
from hb_metrics.runs.run_folder import (
    LAYOUT,
    NOT_A_RUN_ERROR,
    OTHER_LAYOUT_ERROR,
    OTHER_SETTINGS_ERROR,
    PROMPTS_FILE,
    RUN_FILE,
    open_run,
    package_versions,
    plural_forms,
    read_json,
    table_digest,
    with_plurals,
    write_json,
    write_prompts,
)

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


@pytest.mark.parametrize("before", [None, "old"])
@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_write_that_fails_leaves_everything_as_it_was(tmp_path, before, failure):
    path = tmp_path / "file.txt"
    if before is not None:
        path.write_text(before)
    untouched = content(tmp_path)

    def write_half(scratch):
        scratch.write_text("half a file")
        raise failure

    with pytest.raises(type(failure)):
        write_atomically(path, write_half)
    assert content(tmp_path) == untouched


def test_a_write_that_fails_before_it_makes_a_file_tells_its_own_error(tmp_path):
    with pytest.raises(ZeroDivisionError):
        write_atomically(tmp_path / "file.txt", lambda scratch: 1 / 0)


def test_a_file_is_replaced_only_when_the_new_one_is_whole(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    seen = []

    def write(scratch):
        for part in ("new", "est"):
            with scratch.open("a") as file:
                file.write(part)
            seen.append(path.read_text())
        assert scratch.parent == path.parent  # a rename is atomic within a file system only

    write_atomically(path, write)

    assert seen == ["old", "old"]
    assert content(tmp_path) == {"file.txt": b"newest"}


def test_text_is_utf_8(tmp_path):
    write_text(tmp_path / "file.txt", "“naïve”\n")

    assert content(tmp_path) == {"file.txt": "“naïve”\n".encode()}


def test_json_comes_back_as_it_was_written(tmp_path):
    written = {"“é”": [1, 0.1, None, True, {"a": 1e-300}], "": "\u2028"}
    write_json(tmp_path / "file.json", written)

    assert read_json(tmp_path / "file.json") == written


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_json_does_not_have_are_refused(tmp_path, value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "file.json", {"deep": [{"down": value}]})
    assert content(tmp_path) == {}


@pytest.mark.parametrize("wrong", [b"", b'{"settings": {"mod', b"\xff\xfe"], ids=["empty", "cut off", "not UTF-8"])
def test_an_unreadable_run_file_is_named_and_kept(used, wrong):
    (used / RUN_FILE).write_bytes(wrong)

    with pytest.raises(ValueError, match=re.escape(f"'{used / RUN_FILE}' cannot be read")):
        open_run(used, RUN)
    assert content(used) == {RUN_FILE: wrong}


@pytest.mark.parametrize("wrong", ["[]", "null", "3"])
def test_a_run_file_that_holds_no_run_is_named_and_kept(used, wrong):
    (used / RUN_FILE).write_text(wrong)

    with pytest.raises(ValueError, match=re.escape(str(used))):
        open_run(used, RUN)
    assert content(used) == {RUN_FILE: wrong.encode()}


def test_a_new_folder_is_made_with_its_parents(tmp_path):
    folder = tmp_path / "runs" / "gpt2"

    assert open_run(folder, RUN) is False
    assert content(folder).keys() == {RUN_FILE}
    assert json.loads((folder / RUN_FILE).read_text()) == RUN


def test_an_empty_folder_is_taken_even_if_it_has_hidden_files(tmp_path):
    (tmp_path / ".hidden").touch()

    assert open_run(tmp_path, RUN) is False
    assert read_json(tmp_path / RUN_FILE) == RUN


def test_the_same_run_goes_on_and_nothing_changes(used):
    (used / "results.json").write_text("{}")
    before = content(used)

    assert open_run(used, RUN) is True
    assert content(used) == before


OTHER_RUNS = {
    "changed": ({"settings": {**RUN["settings"], "alpha": 0.1}}, ["settings.alpha is 0.05 there and 0.1 here"]),
    "no longer null": (
        {"settings": {**RUN["settings"], "revision": "main"}},
        ["settings.revision is None there and 'main' here"],
    ),
    "switched": (
        {"settings": {**RUN["settings"], "include_gendered": False}},
        ["settings.include_gendered is True there and False here"],
    ),
    "added": ({"data": {**RUN["data"], "seed": 7}}, ["data.seed is not recorded there and 7 here"]),
    "removed": ({"data": {"digest": "00ff"}}, ["data.num_prompts is 12 there and not recorded here"]),
    "several": (
        {"settings": {**RUN["settings"], "model": "bert"}, "data": {"digest": "11", "num_prompts": 13}},
        [
            "settings.model is 'gpt2' there and 'bert' here",
            "data.digest is '00ff' there and '11' here",
            "data.num_prompts is 12 there and 13 here",
        ],
    ),
    "new section": ({"scoring": {"path": "tree"}}, ["scoring.path is not recorded there and 'tree' here"]),
}


@pytest.mark.parametrize(("changes", "differences"), OTHER_RUNS.values(), ids=OTHER_RUNS)
def test_a_run_with_other_settings_is_told_each_of_them(used, changes, differences):
    before = content(used)

    with pytest.raises(ValueError, match="holds a run with other settings") as error:
        open_run(used, {**RUN, **changes})
    lines = "\n".join(f"  {difference}" for difference in differences)
    assert str(error.value) == OTHER_SETTINGS_ERROR.format(folder=used, differences=lines)
    assert content(used) == before


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")

    with pytest.raises(ValueError, match="has files in it") as error:
        open_run(tmp_path, RUN)
    assert str(error.value) == NOT_A_RUN_ERROR.format(folder=tmp_path, file=RUN_FILE)
    assert content(tmp_path) == {"thesis.tex": b"mine"}


def test_the_releases_that_can_move_a_number_are_recorded():
    versions = package_versions()

    assert {name: versions[name] for name in ("torch", "scipy")} == {name: version(name) for name in ("torch", "scipy")}


@pytest.mark.parametrize("earlier", [{}, {"layout": {"version": 1}}, {"layout": {"version": LAYOUT + 1}}])
def test_a_run_of_another_layout_is_named_and_left_alone(tmp_path, earlier):
    record = {**{name: value for name, value in RUN.items() if name != "layout"}, **earlier}
    write_json(tmp_path / RUN_FILE, {**record, "versions": {"holistic-bias": "0.0.9"}})
    before = content(tmp_path)

    with pytest.raises(ValueError, match="measure again in a new folder") as error:
        open_run(tmp_path, RUN)
    layout = earlier.get("layout", {"version": 1})["version"]
    assert str(error.value) == OTHER_LAYOUT_ERROR.format(folder=tmp_path, other=layout, layout=LAYOUT, release="0.0.9")
    assert content(tmp_path) == before


def test_a_job_that_records_no_layout_goes_on_in_its_folder(tmp_path):
    record = {"settings": {"alpha": 0}}

    assert open_run(tmp_path, record) is False
    assert open_run(tmp_path, record) is True


# --- prompts ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["v1.0-small", "next-intersections"])
def prompts(request):
    table = load_table(request.param)
    table = table.take(pa.array(range(0, len(table), 7)))
    return with_plurals(table, config_vocabulary(request.param))


def test_plurals_are_those_of_the_vocabulary(prompts):
    config = "next-intersections" if "first_descriptor" in prompts.column_names else "v1.0-small"
    known = {term.term: term.plural for term in config_vocabulary(config).descriptors}
    plurals = {}
    for name in ("descriptor", "first_descriptor", "second_descriptor"):
        if name in prompts.column_names:
            terms, forms = prompts[name].to_pylist(), prompts[f"{name}_plural"].to_pylist()
            assert forms == [known.get(term) or None for term in terms]
            plurals |= {term: form for term, form in zip(terms, forms, strict=True) if form is not None}
    assert plural_forms(prompts) == plurals
    assert plurals


def test_prompts_are_written_once_and_read_back_with_their_plurals(prompts, used):
    write_prompts(used, prompts)
    path = used / PROMPTS_FILE
    first = path.stat()
    write_prompts(used, prompts)

    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    assert read_prompts(used).equals(prompts)
    assert plural_forms(read_prompts(used)) == plural_forms(prompts)


def test_prompts_of_another_run_are_not_read_but_kept_aside_and_written_again(used, tmp_path, capsys):
    prompts = with_plurals(load_table("v1.0-small").slice(0, 5), config_vocabulary("v1.0-small"))
    other = tmp_path / "other"
    open_run(other, {**RUN, "data": {"digest": "11"}})
    write_prompts(other, prompts.slice(0, 2))
    (used / PROMPTS_FILE).write_bytes((other / PROMPTS_FILE).read_bytes())

    with pytest.raises(ValueError, match="is of another run than the one that is recorded beside it"):
        read_prompts(used)
    write_prompts(used, prompts)
    assert "does not hold the prompts of this run; it is written again, and kept as .prompts" in capsys.readouterr().out
    assert (used / f".{PROMPTS_FILE}.1.aside").read_bytes() == (other / PROMPTS_FILE).read_bytes()
    assert read_prompts(used).equals(prompts)


@pytest.mark.parametrize("kept", [0, 4, 2000, -8])
def test_damaged_prompts_are_kept_aside_and_written_again(used, kept, capsys):
    prompts = with_plurals(load_table("v1.0-small").slice(0, 500), config_vocabulary("v1.0-small"))
    write_prompts(used, prompts)
    whole = (used / PROMPTS_FILE).read_bytes()
    (used / PROMPTS_FILE).write_bytes(whole[:kept])
    write_prompts(used, prompts)

    assert f"{PROMPTS_FILE} is damaged (" in capsys.readouterr().out
    assert (used / PROMPTS_FILE).read_bytes() == whole
    assert (used / f".{PROMPTS_FILE}.1.aside").read_bytes() == whole[:kept]


# --- digests ----------------------------------------------------------------------------------------------------------


text_or_null = st.none() | st.text(max_size=3)
rows = st.lists(st.tuples(text_or_null, st.booleans() | st.none()), min_size=1, max_size=20)


def as_table(rows):
    texts, flags = zip(*rows, strict=True)
    return pa.table({"text": pa.array(texts, pa.string()), "plural": pa.array(flags, pa.bool_())})


@given(rows, st.lists(st.integers(0, 20), max_size=4))
@settings(max_examples=100, deadline=None)
def test_a_digest_does_not_depend_on_chunks(rows, cuts):
    whole = as_table(rows)
    cuts = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    pieces = [as_table(rows[low:high]) for low, high in pairwise(cuts)]

    assert table_digest(pa.concat_tables(pieces)) == table_digest(whole)


@given(rows, st.data())
@settings(max_examples=100, deadline=None)
def test_a_digest_depends_on_the_rows_alone_not_on_the_table_they_were_cut_from(rows, data):
    start = data.draw(st.integers(0, len(rows) - 1))
    stop = data.draw(st.integers(start + 1, len(rows)))

    assert table_digest(as_table(rows).slice(start, stop - start)) == table_digest(as_table(rows[start:stop]))


@pytest.fixture(scope="module")
def few():
    return load_table("v1.0-small").slice(0, 12)


def test_a_digest_does_not_depend_on_metadata_nor_on_plurals(few):
    assert table_digest(with_plurals(few, config_vocabulary("v1.0-small"))) == table_digest(few)
    assert table_digest(few.replace_schema_metadata({"made": "today"})) == table_digest(few)


@pytest.mark.parametrize("column", ["id", "axis", "descriptor", "descriptor_gender", "template"])
@pytest.mark.parametrize("value", ["something else", "", None])
def test_a_digest_changes_with_any_cell(few, column, value):
    cells = few[column].to_pylist()
    cells[3] = value if cells[3] != value else "x"
    changed = few.set_column(few.schema.get_field_index(column), column, pa.array(cells, pa.string()))

    assert table_digest(changed) != table_digest(few)


def test_a_digest_changes_with_the_order_of_rows_and_the_name_of_a_column(few):
    assert table_digest(few.take([1, 0, *range(2, len(few))])) != table_digest(few)
    assert table_digest(few.rename_columns({"axis": "axes"})) != table_digest(few)
