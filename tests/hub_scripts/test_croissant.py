import dataclasses
import hashlib
import io
import json

import mlcroissant
import pyarrow.parquet as pq
import pytest
from mlcroissant._src.core.context import Context
from mlcroissant._src.core.rdf import make_context

from hb_dataset import load_table
from hb_dataset.prompts import version_configs
from hub_scripts.croissant import CONTEXT, croissant, croissant_json
from hub_scripts.publish_dataset import dataset_files, published_dataset
from tests.hub_scripts.versions_on_disk import REPO_ID, freeze_small, published_v1

# Of rdflib and of how mlcroissant calls pandas.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

V1_CONFIGS = tuple(version_configs("v1.0"))
# All properties of http://mlcommons.org/croissant/RAI/1.0 that apply: nothing was imputed, no platform and no machine
# labelled anything, the time of the collection is not known, and nothing was done to rows that preprocessing is not.
RESPONSIBLE_AI = {
    "dataCollection",
    "dataCollectionType",
    "dataCollectionMissingData",
    "dataCollectionRawData",
    "dataPreprocessingProtocol",
    "dataAnnotationProtocol",
    "dataAnnotationAnalysis",
    "annotationsPerItem",
    "annotatorDemographics",
    "dataReleaseMaintenancePlan",
    "personalSensitiveInformation",
    "dataSocialImpact",
    "dataBiases",
    "dataLimitations",
    "dataUseCases",
}


@pytest.fixture(scope="module")
def described():
    return json.loads(croissant_json(published_v1()))


@pytest.fixture
def files(tmp_path):
    """The Parquet files of v1.0 on disk, by their ids."""
    paths = {}
    for config in published_v1().configs:
        paths[config.path] = tmp_path / config.path
        paths[config.path].parent.mkdir(parents=True)
        paths[config.path].write_bytes(config.parquet)
    return paths


def records(described, files, config):
    for record in mlcroissant.Dataset(described, mapping=files).records(config):
        yield {
            name.removeprefix(f"{config}/"): value.decode() if isinstance(value, bytes) else value
            for name, value in record.items()
        }


def test_mlcroissant_finds_neither_errors_nor_warnings(described, caplog):
    dataset = mlcroissant.Dataset(described)
    issues = dataset.metadata.ctx.issues
    assert (issues.errors, issues.warnings) == (set(), set())
    assert caplog.records == []  # "The JSON-LD `@context` is not standard", …
    assert [record_set.uuid for record_set in dataset.metadata.record_sets] == list(V1_CONFIGS)


def test_mlcroissant_understands_every_property(described):
    assert described.keys() == mlcroissant.Dataset(described).metadata.to_json().keys()


def test_its_context_is_the_specifications_with_provenance_beside():
    standard = make_context(Context(conforms_to="http://mlcommons.org/croissant/1.1"))
    assert {name: meaning for name, meaning in CONTEXT.items() if name != "prov"} == standard


def test_it_declares_both_specifications(described):
    assert described["conformsTo"] == ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"]
    metadata = mlcroissant.Dataset(described).metadata
    assert (metadata.version, metadata.date_published.year) == ("1.0.0", 2022)


def test_all_responsible_ai_fields_that_apply_are_filled(described):
    filled = {name.removeprefix("rai:"): value for name, value in described.items() if name.startswith("rai:")}
    assert filled.keys() == RESPONSIBLE_AI
    for value in filled.values():
        texts = value if isinstance(value, list) else [value]
        assert texts
        assert all(text.strip() for text in texts)
    assert "95 reviewed, 44 dispreferred, 5 polarizing, 454 unlabelled" in filled["dataAnnotationProtocol"]
    assert "454 entries" in filled["annotationsPerItem"]


def test_files_have_their_sizes_checksums_and_a_url_at_the_tag(described):
    contents = {config.path: config.parquet for config in published_v1().configs}
    assert [file["@id"] for file in described["distribution"]] == list(contents)
    for file in described["distribution"]:
        content = contents[file["@id"]]
        assert file["sha256"] == hashlib.sha256(content).hexdigest()
        assert file["contentSize"] == f"{len(content)} B"
        assert file["contentUrl"].endswith(f"/datasets/{REPO_ID}/resolve/v1.0/{file['@id']}")


def test_fields_are_the_columns_of_each_table_with_their_types(described):
    types = {"string": "sc:Text", "bool": "sc:Boolean"}
    contents = {config.name: config.parquet for config in published_v1().configs}
    for record_set in described["recordSet"]:
        schema = pq.read_schema(io.BytesIO(contents[record_set["@id"]]))
        data_types = {field["name"]: field["dataType"] for field in record_set["field"]}
        assert data_types.pop("preference", ["sc:Text", "cr:Label"]) == ["sc:Text", "cr:Label"]
        expected = {field.name: types[str(field.type)] for field in schema if field.name != "preference"}
        assert data_types == expected


@pytest.mark.parametrize("config", ["descriptors", "nouns", "templates", "v1.0-baseline"])
def test_keys_tell_records_apart(described, config):
    (record_set,) = (listed for listed in described["recordSet"] if listed["@id"] == config)
    key = record_set["key"] if isinstance(record_set["key"], list) else [record_set["key"]]
    columns = [part["@id"].removeprefix(f"{config}/") for part in key]
    rows = [tuple(row[column] for column in columns) for row in load_table(config).to_pylist()]
    assert len(set(rows)) == len(rows)


@pytest.mark.parametrize("config", ["descriptors", "nouns", "templates", "v1.0-baseline"])
def test_records_are_read_back_as_the_rows(described, files, config):
    assert list(records(described, files, config)) == load_table(config).to_pylist()


def test_a_file_that_is_not_the_published_one_is_found_out(described, files):
    path = files["data/nouns/test.parquet"]
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(mlcroissant.GenerationError) as failed:
        list(records(described, files, "nouns"))
    assert "is not identical with the reference" in str(failed.value.__cause__)


def test_it_lies_where_the_files_do(tmp_path, monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "https://hub.example.org")
    root = freeze_small(tmp_path, "v2.0")
    described = json.loads(dataset_files("my-org/terms", "v2.0", root)["croissant.json"])
    assert described["url"] == "https://hub.example.org/datasets/my-org/terms"
    urls = {file["contentUrl"] for file in described["distribution"]}
    assert "https://hub.example.org/datasets/my-org/terms/resolve/v2.0/data/v2.0-small/test.parquet" in urls
    assert described["version"] == "2.0.0"


def test_a_version_has_the_date_that_is_recorded_and_no_other(tmp_path):
    root = freeze_small(tmp_path, "v2.0")
    dataset = published_dataset(REPO_ID, "v2.0", root)
    assert croissant(dataset)["datePublished"] == "2026-01-02"
    assert "datePublished" not in croissant(dataclasses.replace(dataset, date=None))
