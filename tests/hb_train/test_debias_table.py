"""The table of debiasing and its costs."""

import json

from hb_train.debias_table import write_debias_table


def write(folder, name, bias=None, dst=None, crg=None):
    files = {"bias/results.json": bias, "dst/dst.json": dst, "crg/crg.json": crg}
    for file, content in files.items():
        if content is not None:
            path = folder / name / file
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(content))


def reddit(t, lmp):
    bias = {"t": t, "p_value": 0.01, "t_log": None, "share_t1_likelier": 0.5}
    return {"reddit": {"by_bias_type": {"gender": bias}, "lmp": lmp}}


def test_a_line_for_each_model_that_was_measured(tmp_path):
    write(tmp_path, "cda", {**reddit(-1.234, 31.25), "dialogue": {"perplexity": 54.72}}, {"f1": 0.9, "accuracy": 0.91})
    write(tmp_path, "before", reddit(2.0, None), crg={"bleu_4": 1.5, "meteor_exact_stem": 6.75, "nist_2": None})
    write_debias_table(tmp_path, ["before", "cda"])
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert lines[0].startswith("| model | t | p | t of logs | t1 likelier | LMP |")
    assert lines[2] == "| before | +2.00 | 0.010 | – | 50.0% | – | – | – | – | 1.50 | 6.75 | – |"
    assert lines[3] == "| cda | -1.23 | 0.010 | – | 50.0% | 31.2 | 54.7 | 0.900 | 0.910 | – | – | – |"
    assert lines[4] == ""
    assert len({line.count("|") for line in lines[:4]}) == 1
