import json

import pytest

from hb_dataset.dialogue_pairs import read_reference_texts


def test_reference_texts_come_from_a_file_of_lines_or_a_column(tmp_path):
    lines, rows = tmp_path / "lines.txt", tmp_path / "rows.jsonl"
    lines.write_text("I like  tea.\n\nIt rained all day.\n \nNo, thanks.\n")
    rows.write_text("\n".join(json.dumps({"prompt": "Hi!", "reply": text}) for text in ("One two.", "Three four.")))

    from_lines, from_rows = read_reference_texts(lines), read_reference_texts(rows)

    assert from_lines.texts == ["I like tea.", "It rained all day.", "No, thanks."]
    assert (from_lines.ids, from_lines.num_blank, from_lines.source) == (["0", "2", "4"], 2, "lines.txt")
    assert (from_rows.texts, from_rows.num_blank) == (["One two.", "Three four."], 0)
    assert from_lines.description()["num_texts"] == 3


def test_a_file_without_texts_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("\n \n")
    with pytest.raises(ValueError, match=r"a\.txt has no texts"):
        read_reference_texts(tmp_path / "a.txt")
