import pytest
import yaml
from datasets.utils.metadata import MetadataConfigs
from huggingface_hub import DatasetCard

from hb_dataset.prompts import version_configs
from hub_scripts.published_dataset import COLUMNS, dataset_card, published_dataset
from tests.hub_scripts.versions_on_disk import REPO_ID, SMALL_AXES, freeze_small, versions_of

V1_CONFIGS = tuple(config.name for config in version_configs("v1.0"))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return freeze_small(tmp_path_factory.mktemp("root"), "v1.0")


@pytest.fixture(scope="module")
def dataset(root):
    with versions_of(root):
        return published_dataset(REPO_ID, "v1.0")


@pytest.fixture(scope="module")
def text(dataset):
    return dataset_card(dataset)


def terms_in(folder):
    """The terms as the YAML files have them, read by nothing of ours."""
    for path in sorted(folder.glob("*.yaml")):
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


def test_the_front_matter_names_every_config_and_the_default(text):
    data = DatasetCard(text).data
    configs = MetadataConfigs.from_dataset_card_data(data)
    assert (tuple(configs), configs.get_default_config_name()) == (V1_CONFIGS, "v1.0")
    assert (data.license, data.language, data.pretty_name) == ("cc-by-sa-4.0", ["en"], "HolisticBias")


def test_every_column_of_every_config_is_explained_once(text, dataset):
    _, *rows = table_after(text, "Columns")
    columns = {}
    for config in V1_CONFIGS:
        schema = dataset.table(config).schema
        columns |= {name: str(schema.field(name).type) for name in schema.names}
    assert {row[0]: row[1] for row in rows} == columns
    assert len(rows) == len(columns)
    assert {row[0]: row[2] for row in rows}["plural"] == "all sentences, templates"
    for config in version_configs("next"):
        assert set(config.schema.names) <= COLUMNS.keys()


def test_terms_are_counted_as_the_files_have_them(text, dataset, root):
    header, *rows = table_after(text, "Terms")
    terms = [*terms_in(root / "v1.0")]
    sentences = dataset.table("v1.0")["axis"].to_pylist()
    assert [row[0] for row in rows] == [*SMALL_AXES, "all"]
    for axis, *counts in rows:
        labels = [term["preference"] or "unlabelled" for term in terms if axis in (term["axis"], "all")]
        of_axis = len(sentences) if axis == "all" else sentences.count(axis)
        expected = [len(labels), *(labels.count(label) for label in header[2:6]), of_axis]
        assert [int(count.replace(",", "")) for count in counts] == expected
