from inspect import signature

import pytest

from hb_metrics.space_page import app


def test_clients_of_the_page_call_its_inputs_by_name():
    def show(rows, path, *values):
        return rows, path, values

    app._name_inputs(show, ("rows", "file", "pairs", "seed"))
    assert str(signature(show)) == "(rows=None, file=None, pairs=None, seed=None)"
    assert show(1, 2, 3, 4) == (1, 2, (3, 4))


def test_a_title_that_names_no_metric_is_refused(tmp_path, monkeypatch):
    card = tmp_path / "README.md"
    card.write_text("---\ntitle: Full Bias\n---\n")
    with pytest.raises(ValueError, match=r"title 'Full Bias', but there is no full_bias\.py"):
        app.metric_name(app.SpaceCard.load(card))
