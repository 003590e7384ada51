from collections import Counter

import pytest
import yaml
from datasets.utils.metadata import MetadataConfigs
from huggingface_hub import DatasetCard

from hb_dataset import load_table
from hb_dataset.prompts import find_config, version_configs
from hb_dataset.vocabulary import VOCABULARIES
from hub_scripts.dataset_card import COLUMNS, dataset_card
from hub_scripts.hub import HubError
from tests.hub_scripts.versions_on_disk import published_v1

V1_CONFIGS = tuple(version_configs("v1.0"))


@pytest.fixture(scope="module")
def text():
    return dataset_card(published_v1())


def v1_terms():
    """The terms as the YAML files have them, read by nothing of ours."""
    for path in sorted((VOCABULARIES / "v1.0").glob("*.yaml")):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        for term in document.get("terms", []):
            yield {"axis": document["axis"], "preference": None, **term}


def table_after(text, heading):
    """The cells of the first Markdown table after a heading, without the backticks; its header first."""
    lines = text.partition(f"\n## {heading}\n")[2].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("`", "") for cell in line.strip("|").split("|")])
    return [rows[0], *rows[2:]]


def number(cell):
    return int(cell.replace(",", ""))


def test_the_front_matter_names_every_config_and_the_default(text):
    data = DatasetCard(text).data
    configs = MetadataConfigs.from_dataset_card_data(data)
    assert tuple(configs) == V1_CONFIGS
    for config, entry in configs.items():
        assert entry["data_files"] == [{"split": "test", "path": f"data/{config}/test.parquet"}]
    assert configs.get_default_config_name() == "v1.0"
    assert (data.license, data.language, data.pretty_name) == ("cc-by-sa-4.0", ["en"], "HolisticBias")


def test_an_endpoint_with_a_password_is_on_no_card(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "https://me:secret@hub.example")
    with pytest.raises(HubError, match="HF_ENDPOINT") as error:
        dataset_card(published_v1())
    assert "secret" not in str(error.value)


def test_every_column_of_every_config_is_explained_once(text):
    _, *rows = table_after(text, "Columns")
    columns = {}
    for config in V1_CONFIGS:
        schema = load_table(config).schema
        columns |= {name: str(schema.field(name).type) for name in schema.names}
    assert {row[0]: row[1] for row in rows} == columns
    assert len(rows) == len(columns)
    assert {row[0]: row[2] for row in rows}["plural"] == "all sentences, templates"
    for config in version_configs("next"):
        assert set(find_config(config).schema.names) <= COLUMNS.keys()


def test_terms_are_counted_as_the_files_have_them(text):
    header, *rows = table_after(text, "Terms")
    labels = Counter((term["axis"], term["preference"] or "unlabelled") for term in v1_terms())
    axes = Counter(term["axis"] for term in v1_terms())
    sentences = Counter(load_table("v1.0")["axis"].to_pylist())
    assert [row[0] for row in rows] == [*sorted(axes), "all"]
    for axis, *counts in rows[:-1]:
        expected = [axes[axis], *(labels[axis, label] for label in header[2:6]), sentences[axis]]
        assert [number(count) for count in counts] == expected
    assert [number(count) for count in rows[-1][1:]] == [598, 95, 44, 5, 454, 462_878]
