import pytest

from hb_dataset.new_vocabulary import main
from hb_dataset.prompts import load_table
from hb_dataset.vocabulary import read_vocabulary


def test_a_new_vocabulary_loads(tmp_path, capsys):
    folder = tmp_path / "mine"
    main([str(folder)])
    assert "--show" in capsys.readouterr().out
    assert {path.name for path in folder.iterdir()} == {"work.yaml", "nouns.yaml", "templates.yaml"}
    assert all(path.read_text().startswith("# ") for path in folder.iterdir())
    assert (len(read_vocabulary(folder).descriptors), read_vocabulary(folder).axes) == (2, ("work",))
    texts = load_table("v1.0", folder)["text"].to_pylist()
    assert "Hi! I'm a woman who works at night." in texts
    assert len(texts) == 16
    for config, file in (("v1.0-seat", "seat_templates"), ("v1.1-noun-phrases", "standalone_noun_phrases")):
        with pytest.raises(ValueError, match=rf"the vocabulary has no {file}\.yaml; add the file"):
            load_table(config, folder)
    with pytest.raises(ValueError, match="pass the name of a new folder"):
        main([str(folder)])
