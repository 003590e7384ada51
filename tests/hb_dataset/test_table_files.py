"""What would be read wrong in silence from a table of somebody else is an error that names the file and the row."""

import gzip
import json
import os
import re

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hb_dataset import table_files
from hb_dataset.dialogue_pairs import read_dialogue
from hb_dataset.frequency import read_frequencies
from hb_dataset.names import read_names
from hb_dataset.own_prompts import read_own_prompts
from hb_dataset.table_files import number_in, read_table, text_in
from hb_dataset.vocabulary import read_vocabulary
from hb_metrics.run.answer_files import read_log_probabilities_file, read_replies_file
from hb_train.tuning.own_rows import own_anchors

ROWS = [("How are you?", "Fine, and you?"), ("Tell me.\nNow.", ' "One"'), ("And then?", "好。")]


def write(path, rows=ROWS):
    """Rows of a prompt and a reply, in the format of the name."""
    named = [{"prompt": prompt, "reply": reply} for prompt, reply in rows]
    inner = path.name.removesuffix(".gz")
    if inner.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(named), path)
        return path
    quoted = [[f'"{text.replace(chr(34), chr(34) * 2)}"' for text in row] for row in [("prompt", "reply"), *rows]]
    lines = map(",".join, quoted) if inner.endswith(".csv") else map(json.dumps, named)
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet", "a.csv.gz", "a.jsonl.gz"])
def test_each_format_gives_the_rows_that_the_file_has_now(name, tmp_path):
    """Also if the file is replaced by another one of the same time, as tar, rsync and cp -p do."""
    path = tmp_path / name
    for rows in (ROWS, [(f"{prompt} Again?", reply[::-1]) for prompt, reply in ROWS]):
        os.utime(write(path, rows), (1_700_000_000, 1_700_000_000))
        assert [(row["prompt"], row["reply"]) for _, row in read_table(path, ("prompt",), ("reply",))] == rows
        assert read_dialogue(path, num_replies=3).prompts == [" ".join(prompt.split()) for prompt, _ in rows]


# The needed and the optional columns of files.
FILES = {
    "replies": (read_replies_file, "id reply", "text num_tokens truncated turn reasoning wanted"),
    "log-probabilities": (read_log_probabilities_file, "id log_probability num_tokens", "text wanted"),
    "dialogue": (lambda path: read_dialogue(path, num_replies=1), "prompt reply", "other"),
    "frequencies": (read_frequencies, "axis descriptor per_million", "other"),
    "names": (read_names, "name group", "note source Unnamed"),
    "prompts": (lambda path: read_own_prompts(str(path)), "prompt", "id question system outcome favourable topic"),
    "anchors": (lambda path: own_anchors(str(path), read_vocabulary(), 2, seed=0), "prompt", "reply system"),
}
CELLS = {
    "id": ["a", "b"],
    "reply": ["Hi.", "No."],
    "log_probability": [-5.25, -6.5],
    "num_tokens": [3, 4],
    "name": ["Ada", "Bo"],
    "group": ["A", "B"],
    "prompt": ["Hello!", "Who?"],
    "axis": ["age", "age"],
    "descriptor": ["old", "young"],
    "per_million": [7, 0.5],
}


@pytest.mark.parametrize("name", FILES)
def test_rows_that_lack_a_value_or_have_two_are_refused(name, tmp_path):
    read, needed, _ = FILES[name]
    row = {column: CELLS[column][0] for column in needed.split()}
    for missing in row:
        path = tmp_path / f"{missing}.jsonl"
        path.write_text(json.dumps(row) + "\n" + json.dumps({key: row[key] for key in row.keys() - {missing}}))
        with pytest.raises(ValueError, match=rf"{missing}\.jsonl', line 2: {missing} is missing; write the value"):
            read(path)
        twice = json.dumps(row)[:-1] + f', "{missing}": "two"}}'
        path.write_text(f"{json.dumps(row)}\n\n{twice}\n")
        with pytest.raises(ValueError, match=rf"line 3 .*the key '{missing}' occurs twice; remove one"):
            read(path)


@pytest.mark.parametrize("name", FILES)
def test_a_blank_cell_of_an_optional_column_is_no_value(name, tmp_path):
    read, needed, optional = FILES[name]
    paths = [tmp_path / f"a{suffix}" for suffix in (".csv", ".jsonl", ".parquet")]

    def content(table):
        table.to_csv(paths[0], index=False)
        table.to_json(paths[1], orient="records", lines=True)
        table.to_parquet(paths[2])
        return [re.sub(r"'/\S+', (line|row) \d", "", repr(read(path))) for path in paths]

    table = pd.DataFrame({column: CELLS[column] for column in needed.split()})
    expected = content(table)
    for blank in ("", "  ", None, float("nan")):
        assert content(table.assign(**dict.fromkeys(optional.split(), blank))) == expected


def test_rows_for_the_other_kind_of_answer_need_no_value(tmp_path):
    path, row = tmp_path / "a.jsonl", {"id": "a", "text": "Hi!"}
    answers = {"wanted": "reply", "reply": "Ho."}, {"wanted": "log_probability", "log_probability": -5, "num_tokens": 3}
    path.write_text("".join(json.dumps(row | answer) + "\n" for answer in answers))
    assert [given.reply for given in read_replies_file(path)] == ["Ho."]
    assert [given.log_probability for given in read_log_probabilities_file(path)] == [-5]


NOT_NUMBERS = ["-5_2", "1_0", "٥", "-５", "0x10", "nan", "inf", "1e999", "5 2", "--5", "1,5", True, [5], {}, 10**400]


def test_a_number_is_the_text_that_csv_files_have():
    """pandas writes whole numbers as floats if a cell is empty."""
    values = {70: "70", 0.5: "0.5", 3.0: "3", float("nan"): None, "01": "01"}
    assert [text_in("row 1", {"id": value}, "id") for value in values] == list(values.values())
    with pytest.raises(ValueError, match="id is True; pass a text"):
        text_in("row 1", {"id": True}, "id")


def test_numbers():
    for value in NOT_NUMBERS:
        with pytest.raises(ValueError, match=r"^here: n is .*; pass a finite number$"):
            number_in("here", {"n": value}, "n")
    texts = {"-5.25": -5.25, " 7 ": 7.0, "+1e3": 1000.0, ".5": 0.5, "5.": 5.0, "1E-2": 0.01, "": None, "  ": None}
    assert {text: number_in("here", {"n": text}, "n") for text in texts} == texts
    assert [number_in("here", {"n": value}, "n") for value in (3, -0.5, None)] == [3.0, -0.5, None]


def test_repeated_rows_and_rates_below_zero_are_refused(tmp_path):
    path = tmp_path / "rates.csv"
    for rows, message in (("age,old,5\nage,old,6\n", "line 3: .* earlier row"), ("age,old,-1\n", "0")):
        path.write_text(f"axis,descriptor,per_million\n{rows}")
        with pytest.raises(ValueError, match=message):
            read_frequencies(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "prompt,answer\nHi,Ho\n", r"has no column reply; .* \(the columns are: prompt, answer\)"),
        ("a.csv", 'prompt,reply\na,"b\n', "is not CSV"),
        ("a.csv", "prompt;reply\na;b\n", "by semicolons; save it with commas"),
        ("a.csv", "prompt;reply\na, or so;b\n", "save it with commas"),
        ("a.csv", '"prompt";"reply"\n"a";"b"\n', "save it with commas"),
        ("a.csv", "prompt,reply\na,Well, hello\n", "line 2 has 3 cells, but the header has 2; .*put quotes"),
        ("a.csv", "prompt,reply\na,caf\u00e9\n".encode("latin-1"), "is not UTF-8 .*; save it again in UTF-8"),
        ("a.jsonl", '{"prompt": "\\ud800", "reply": "Ho"}', "pass a text without unpaired surrogates"),
        ("a.jsonl", '{"prompt": "Hi", ', "line 1 is not a JSON object"),
        ("a.parquet", b"PAR1", "cannot be read as Parquet"),
        ("a.csv", "prompt,reply,reply\na,b,c\n", "has two columns with the same name"),
        ("a.csv.gz", gzip.compress(b"prompt,reply\n" * 99, mtime=0)[:-9], "cannot be read"),
        ("a.docx", "Hi", r"does not end in one of \.parquet, \.jsonl, \.csv"),
    ],
)
def test_files_that_cannot_be_used_say_why(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=f"{re.escape(str(tmp_path / name))}.*{message}"):
        read_dialogue(tmp_path / name, num_replies=1)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.jsonl.gz"])
def test_a_file_above_the_limit_ends_with_a_message(name, tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "MAX_BYTES", 2**20)
    path = write(tmp_path / name, [(f"prompt {number}", "reply " * 300) for number in range(999)])
    with pytest.raises(ValueError, match=r"is larger than the limit of 1 MiB; remove rows and columns"):
        read_table(path, ("prompt",))


def test_a_table_keeps_texts_as_they_are(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes('\ufeffid,reply\r\na,"He said ""hi, all""\r\nand left"\r\n\r\nb,NA\r\n'.encode())
    places, rows = zip(*read_table(path, ("reply",)), strict=True)
    assert [row["reply"] for row in rows] == ['He said "hi, all"\r\nand left', "NA"]
    assert [place.rpartition(", ")[2] for place in places] == ["line 2", "line 5"]  # as editors count
    path.write_text(f"id,reply\na,{'So ' * 99_999}\n")  # a thought of 32,000 tokens
    assert [row["reply"] for _, row in read_table(path, ("reply",))] == ["So " * 99_999]
