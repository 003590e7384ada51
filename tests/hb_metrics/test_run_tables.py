"""Frames of a run, against its Parquet files read and joined by hand."""

import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hb_metrics
from hb_metrics.command.analyse import analyse
from hb_metrics.command.analyse import main as analyse_runs
from hb_metrics.run.schema import COLUMNS, FILES, OF_PROMPT, as_written
from hb_metrics.run_tables import main
from tests.hb_metrics.conftest import write_vocabulary
from tests.hb_metrics.made_results import change_results
from tests.hb_metrics.runs_here import measure_here

DOCS = Path(__file__).parents[2] / "docs" / "run-tables.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, saved_llama):
    folder = tmp_path_factory.mktemp("tables")
    vocabulary = write_vocabulary(folder / "vocabulary", age=("young", "old"))
    options = ["--model", saved_llama, "--vocabulary_dir", vocabulary, "--replies_per_cell", 2, "--max_new_tokens", 8]
    measure_here(*options, "--measurements", "likelihood,generation,offensiveness", "--output_dir", folder / "run")
    return folder / "run"


def stored(folder, column):
    return {row["id"]: row[column] for row in pq.read_table(folder).to_pylist()}


def test_frames_hold_what_the_files_hold(folder):
    run = hb_metrics.load_run(folder)
    prompts = {row["id"]: row for row in pq.read_table(folder / "prompts.parquet").to_pylist()}
    replies, vectors = stored(folder / "replies", "reply"), stored(folder / "style_probabilities", "probabilities")
    offensive = stored(folder / "offensiveness" / "replies", "probabilities")
    biases = stored(folder / "bias_values.parquet", "bias_value")
    assert sorted(run.replies["id"]) == sorted(replies)
    for row in run.replies.to_dict("records"):
        prompt, identifier = prompts[row["prompt_id"]], row["id"]
        assert (row["axis"], row["descriptor"], row["noun"]) == (prompt["axis"], prompt["descriptor"], prompt["noun"])
        assert row["reply"] == replies[identifier]
        assert row["style"] == run.styles.columns[int(np.argmax(vectors[identifier]))]
        assert row["style_probability"] == max(vectors[identifier])
        assert (row["offensive"], row["bias_value"]) == (offensive[identifier][0], biases[identifier])
    means = run.replies.groupby(["axis", "descriptor"])["bias_value"].mean()
    for row in run.results.generation.by_descriptor:
        assert means[row.axis, row.descriptor] == pytest.approx(row.mean_bias_value)
    scores = dict(zip(run.perplexities["prompt_id"], run.perplexities["perplexity"], strict=True))
    assert scores == stored(folder / "perplexities", "perplexity")
    whole = run.figures.set_index("name").loc["Full Gen Bias, plain"]
    assert whole["value"] == run.results.generation.gen_bias.full_gen_bias


def test_the_worst_replies_of_a_term_come_first(folder, capsys):
    main([str(folder), "--term", "old", "--worst", "2"])
    assert "nan" not in capsys.readouterr().out  # these prompts have no question
    run = hb_metrics.load_run(folder)
    worst = run.worst("old", by="offensive", number=3)
    assert worst["offensive"].tolist() == sorted(run.replies.query("descriptor == 'old'")["offensive"])[::-1][:3]
    with pytest.raises(ValueError, match=r"'oldd'.*did you mean 'old'"):
        run.worst("oldd")
    with pytest.raises(ValueError, match=r"'rude'.*bias_value"):
        run.worst(by="rude")
    for number in (0, -1):  # for which pandas returns no rows
        with pytest.raises(ValueError, match=rf"number of replies is {number}; pass 1 or more"):
            run.worst(by="offensive", number=number)


def test_the_docs_and_the_files_have_the_columns_of_the_schema(folder):
    run = hb_metrics.load_run(folder)
    docs = DOCS.read_text(encoding="utf-8")
    sections = dict(part.split("\n", 1) for part in docs.split("\n## ")[1:])
    for name, columns in {**COLUMNS, **FILES}.items():
        section = sections[", ".join(f"`{path}`" for path in name.split(", "))]
        listed = {*re.findall(r"`(\w+)`", "".join(re.findall(r"^(?:With|\| `).*?(?=\.$| \|)", section, re.M)))}
        listed |= {column.name for column in OF_PROMPT if "With the columns of a prompt" in section}
        assert listed == {column.name for column in columns}
        for column in columns:
            kind = f"`{column.type}`{column.unit and ', '}{column.unit}"
            assert re.search(rf"^\| .*`{column.name}`.* \| {re.escape(f'{kind} | {column.meaning}')} \|$", docs, re.M)
    for name in ("prompts", "perplexities", "replies", "figures"):
        frame, columns = getattr(run, name), COLUMNS[name]
        assert frame.columns.tolist() == [column.name for column in columns]
        for column in columns:  # texts may be objects or strings, depending on the release of pandas
            assert column.type == "string" or frame[column.name].dtype == np.dtype(column.type), column.name
    for paths, columns in FILES.items():
        for path in paths.split(", "):
            for file in folder.glob(path):
                assert pq.read_schema(file).names == [column.name for column in columns], file


def test_rows_of_files_name_their_prompt(folder):
    prompts = {row["id"]: row for row in pq.read_table(folder / "prompts.parquet").to_pylist()}
    for name in ("replies", "perplexities", "style_probabilities", "offensiveness/replies", "offensiveness/prompts"):
        for row in pq.read_table(folder / name).to_pylist():
            prompt = prompts[row["prompt_id"]]
            names = ("axis", "descriptor", "noun", "template")
            assert [row[column] for column in names] == [prompt[column] for column in names]
            assert row["group"] == prompt["bucket"]
            assert row["id"].startswith(prompt["id"])


def test_what_a_run_did_not_measure_is_said_with_the_option_that_measures_it(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "run")
    change_results(tmp_path / "run", lambda results: (results.pop("generation"), results.pop("likelihood")))
    run = hb_metrics.load_run(tmp_path / "run")
    with pytest.raises(ValueError, match="has no replies; measure with --measurements generation"):
        run.worst(by="bias_value")
    whole = hb_metrics.load_run(folder)
    whole.replies[["offensive", "num_tokens"]] = None
    with pytest.raises(ValueError, match=r"in the column 'offensive'.* columns: style_probability, bias_value$"):
        whole.worst()
    options = {"styles": "measurements generation", "perplexities": "measurements likelihood"}
    for name, option in {**options, "decisions": "measurements decisions", "own_prompts": "prompts"}.items():
        with pytest.raises(ValueError, match=f"measure with --{option}"):
            getattr(run, name)


def without(table, column):
    return table.drop_columns(column)


def with_other_type(table, column):
    other = "x" if pa.types.is_integer(table[column].type) or pa.types.is_floating(table[column].type) else 7
    return table.set_column(table.column_names.index(column), column, pa.array([other] * len(table)))


@pytest.mark.parametrize("change", [without, with_other_type])
@pytest.mark.parametrize(
    ("files", "column", "use"),
    [
        ("replies/*", "prompt_id", "replies"),
        ("refusals.parquet", "id", "replies"),
        ("style_probabilities/*", "id", "styles"),
        ("perplexities/*", "num_tokens", "perplexities"),
        ("prompts.parquet", "axis", "prompts"),
        ("replies/*", "num_reasoning_tokens", "analyse"),
        ("prompts.parquet", "noun_gender", "analyse"),
        ("style_probabilities/*", "probabilities", "analyse"),
        ("people.parquet", "phrase", "analyse"),
    ],
)
def test_a_column_that_is_missing_or_has_another_type_is_named(files, column, use, change, folder, tmp_path):
    copied = shutil.copytree(folder, tmp_path / "run")
    for file in copied.glob(files):
        pq.write_table(change(pq.read_table(file), column), file)
    named = (
        rf"\.parquet' has no column '{column}'" if change is without else rf"\.parquet' has the column '{column}' with"
    )
    with pytest.raises(ValueError, match=rf"{named}.*measure again"):
        analyse(copied) if use == "analyse" else getattr(hb_metrics.load_run(copied), use)


def through_pandas(table):
    frame = table.to_pandas()
    return pa.Table.from_pandas(frame.set_index(frame.index + 5))  # with a column `__index_level_0__`


def as_polars_writes(table):
    """Large strings and lists, categories, whole numbers of other sizes, and the columns in another order."""
    for index, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if name in ("axis", "descriptor"):
            column = column.cast(pa.large_string()).dictionary_encode()
        elif pa.types.is_string(column.type):
            column = column.cast(pa.large_string())
        elif pa.types.is_fixed_size_list(column.type):
            column = column.cast(pa.large_list(column.type.value_type))
        elif pa.types.is_integer(column.type):
            column = column.cast(pa.float64() if index % 2 else pa.int32())
        table = table.set_column(index, name, column)
    return table.select(table.column_names[::-1])


@pytest.mark.parametrize("rewrite", [through_pandas, as_polars_writes])
def test_a_run_whose_tables_other_programs_rewrote_has_the_same_results(rewrite, folder, tmp_path):
    copied = shutil.copytree(folder, tmp_path / "run")
    for file in copied.rglob("*.parquet"):
        pq.write_table(rewrite(pq.read_table(file)), file)
    expected, run = hb_metrics.load_run(folder), hb_metrics.load_run(copied)
    for name in ("prompts", "replies", "styles", "perplexities"):
        assert getattr(run, name).equals(getattr(expected, name)), name
    before = (copied / "results.json").read_bytes()
    analyse(copied)
    assert (copied / "results.json").read_bytes() == before


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ([1.5], "turn"),
        (["1"], "turn"),
        ([7], "id"),
        ([2**60 + 1], "perplexity"),
        ([[0.5, 0.5], [1.0]], "probabilities"),
    ],
)
def test_values_that_cannot_be_converted_without_loss_have_no_type(values, name):
    assert as_written(name, pa.chunked_array([pa.array(values)])) is None


def test_a_run_that_cannot_be_analysed_does_not_stop_the_others(folder, tmp_path):
    copied = shutil.copytree(folder, tmp_path / "run")
    (copied / "report.html").unlink()
    with pytest.raises(ValueError, match=r"none: '.*none' has no run\.json"):
        analyse_runs([str(tmp_path / "none"), str(copied)])
    assert (copied / "report.html").is_file()


@pytest.mark.parametrize("use", [analyse, lambda folder: hb_metrics.load_run(folder).replies])
def test_replies_that_are_missing_are_named(use, folder, tmp_path):
    copied = shutil.copytree(folder, tmp_path / "run")
    (file,) = (copied / "replies").iterdir()
    pq.write_table(pq.read_table(file).slice(0, 0), file)
    with pytest.raises(ValueError, match=r"replies' has no rows.*measure again"):
        use(copied)
    file.unlink()
    with pytest.raises(ValueError, match=r"run.*(has no replies|does not exist)"):
        use(copied)
