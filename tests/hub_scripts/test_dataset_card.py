import importlib.resources
import json
import re
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml
from datasets import Features, Value
from datasets.info import DatasetInfosDict
from datasets.utils.metadata import MetadataConfigs
from huggingface_hub import DatasetCard

from hb_dataset import load_table
from hb_dataset.prompts import find_config, version_configs
from hb_dataset.vocabulary import VOCABULARIES
from hub_scripts.dataset_card import EXAMPLE_TERM, dataset_card, size_category
from hub_scripts.eval_tasks import eval_yaml
from hub_scripts.publish_dataset import published_dataset
from hub_scripts.published_dataset import COLUMNS, PublishedConfig, PublishedDataset
from tests.hub_scripts.versions_on_disk import REPO_ID, freeze_small, published_v1

V1_CONFIGS = tuple(version_configs("v1.0"))


@pytest.fixture(scope="module")
def text():
    return dataset_card(published_v1())


@pytest.fixture(scope="module")
def card(text):
    return DatasetCard(text)


def v1_terms():
    """The terms as the YAML files have them, read by nothing of ours."""
    for path in sorted((VOCABULARIES / "v1.0").glob("*.yaml")):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        for term in document.get("terms", []):
            yield {"axis": document["axis"], "bucket": None, "preference": None, **term}


def table_after(text, heading):
    """The cells of the first Markdown table after a heading, without the backticks; its header first."""
    lines = text.partition(f"\n{heading}\n")[2].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("`", "") for cell in line.strip("|").split("|")])
    return [rows[0], *rows[2:]]


def number(cell):
    return int(cell.replace(",", ""))


# --- front matter -----------------------------------------------------------------------------------------------------


def test_every_config_has_its_file_and_the_main_one_is_the_default(card):
    configs = MetadataConfigs.from_dataset_card_data(card.data)
    assert tuple(configs) == V1_CONFIGS
    for config, entry in configs.items():
        assert entry["data_files"] == [{"split": "test", "path": f"data/{config}/test.parquet"}]
    assert configs.get_default_config_name() == "v1.0"
    assert [config for config, entry in configs.items() if "default" in entry] == ["v1.0"]


def test_features_rows_and_sizes_are_those_of_the_tables(card):
    infos = DatasetInfosDict.from_dataset_card_data(card.data)
    assert tuple(infos) == V1_CONFIGS
    parquet = {config.name: config.parquet for config in published_v1().configs}
    for config, info in infos.items():
        table = load_table(config)
        assert info.features == Features({field.name: Value(str(field.type)) for field in table.schema})
        assert {split: part.num_examples for split, part in info.splits.items()} == {"test": table.num_rows}
        assert info.splits["test"].num_bytes == info.dataset_size == table.nbytes
        assert info.download_size == len(parquet[config])


def test_the_front_matter_has_values_that_the_hub_knows(card):
    data = card.data
    resources = importlib.resources.files("datasets.utils.resources")
    creators = json.loads((resources / "creators.json").read_text())
    assert set(data.annotations_creators) <= set(creators["annotations"])
    assert set(data.language_creators) <= set(creators["language"])
    assert set(data.multilinguality) <= json.loads((resources / "multilingualities.json").read_text()).keys()
    assert set(data.size_categories) <= set(json.loads((resources / "size_categories.json").read_text()))
    assert data.size_categories == ["100K<n<1M"]
    assert (data.license, data.language, data.pretty_name) == ("cc-by-sa-4.0", ["en"], "HolisticBias")
    assert {"bias", "fairness", "holistic-bias"} <= set(data.tags)


@pytest.mark.parametrize(
    ("rows", "category"),
    [
        (0, "n<1K"),
        (999, "n<1K"),
        (1_000, "1K<n<10K"),
        (99_999, "10K<n<100K"),
        (100_000, "100K<n<1M"),
        (10**12 - 1, "100B<n<1T"),
        (10**12, "n>1T"),
    ],
)
def test_a_size_category_holds_its_lower_bound(rows, category):
    assert size_category(rows) == category


# --- page -------------------------------------------------------------------------------------------------------------


def test_it_shows_how_to_load_the_version_from_the_repository(text):
    assert f'load_dataset("{REPO_ID}", "v1.0", revision="v1.0", split="test")' in text


def test_the_page_begins_with_a_warning_and_names_a_contact(text, tmp_path):
    page = text.split("---\n", 2)[2].strip()
    assert page.startswith(
        "# HolisticBias v1.0\n\n> [!WARNING]\n> **Content warning.** Many of these words for people hurt"
    )
    discussions = f"https://huggingface.co/datasets/{REPO_ID}/discussions"
    assert f"\n* **Contact**: the [discussions of this page]({discussions})\n" in page
    assert "Source repository" not in page  # it is not known
    root = freeze_small(tmp_path, "v2.0")
    page = dataset_card(published_dataset(REPO_ID, "v2.0", root, "https://example.org/source"))
    assert "* **Source repository**: <https://example.org/source>, with the vocabulary" in page
    assert f"[discussions of this page]({discussions}), or the issues of the source repository; its `CODE_" in page
    assert "by pull requests to the source repository (https://example.org/source), each" in page


def test_configs_are_listed_with_their_rows(text):
    header, *rows = table_after(text, "## Configs")
    assert header == ["config", "rows", "Parquet", "what it is"]
    assert [row[0].removesuffix(" (default)") for row in rows] == list(V1_CONFIGS)
    assert [number(row[1]) for row in rows] == [load_table(config).num_rows for config in V1_CONFIGS]


def test_every_column_of_every_config_is_explained_once(text):
    header, *rows = table_after(text, "## Columns")
    assert header == ["column", "type", "in", "what it holds"]
    columns = {name: str(kind) for config in V1_CONFIGS for name, kind in zip(*_schema(config), strict=True)}
    assert {row[0]: row[1] for row in rows} == columns
    assert len(rows) == len(columns)
    assert {row[0]: row[2] for row in rows}["plural"] == "sentences, templates"
    assert all(row[3] for row in rows)


def _schema(config):
    schema = load_table(config).schema
    return schema.names, schema.types


def test_terms_are_counted_by_axis_and_label_as_the_files_have_them(text):
    header, *rows = table_after(text, "## Terms")
    assert header == ["axis", "terms", "reviewed", "dispreferred", "polarizing", "unlabelled", "sentences"]
    labels = Counter((term["axis"], term["preference"] or "unlabelled") for term in v1_terms())
    axes = Counter(term["axis"] for term in v1_terms())
    sentences = Counter(load_table("v1.0")["axis"].to_pylist())
    assert [row[0] for row in rows] == [*sorted(axes), "all"]
    for axis, *counts in rows[:-1]:
        expected = [axes[axis], *(labels[axis, label] for label in header[2:6]), sentences[axis]]
        assert [number(count) for count in counts] == expected
    totals = [sum(number(row[column]) for row in rows[:-1]) for column in range(1, 7)]
    assert [number(count) for count in rows[-1][1:]] == totals == [598, 95, 44, 5, 454, 462_878]


def test_terms_are_counted_by_bucket_as_the_files_have_them(text):
    _, *rows = table_after(text, "<summary>Terms by bucket</summary>")
    counted = {(axis, None if bucket == "–" else bucket): number(count) for axis, bucket, count in rows}
    assert counted == Counter((term["axis"], term["bucket"]) for term in v1_terms())


def test_the_numbers_in_the_text_are_the_papers(text):
    assert "462,878 English sentences (459,758 different ones)" in text
    assert "one of 594 demographic terms (4 are on more than one axis) on 13 axes" in text
    assert "30 person nouns (10 female, 11 male, 9 that name no gender) in 26 templates" in text
    assert "Only 144 of 598 entries" in text
    assert "Each sentence has one term" in text


def test_the_one_example_is_a_row_of_the_data(text):
    (example,) = re.findall(r"```json\n(.*?)\n```", text, re.DOTALL)
    row = json.loads(example)
    assert load_table("v1.0").filter(pc.field("id") == row["id"]).to_pylist() == [row]
    assert row["descriptor"] == EXAMPLE_TERM


def test_no_term_that_reviewers_advise_against_is_shown(text):
    page = re.sub(r"`\w+`", "", text.lower())  # the names of buckets and columns
    shown = [
        term["term"]
        for term in v1_terms()
        if term["preference"] in ("dispreferred", "polarizing") and re.search(rf"\b{re.escape(term['term'])}\b", page)
    ]
    assert shown == []


def test_a_card_of_another_version_is_about_that_version(tmp_path):
    dataset = published_dataset("my-org/terms", "v2.0", freeze_small(tmp_path, "v2.0", without="age"))
    text = dataset_card(dataset)
    assert "# HolisticBias v2.0" in text
    assert 'load_dataset("my-org/terms", "v2.0", revision="v2.0", split="test")' in text
    assert "on 2 axes" in text
    assert "are on more than one axis" not in text
    assert "whose sentences are version v1.0" in text
    assert "an European" not in text
    assert "A row:" not in text  # its axis is not in this version


def test_the_card_of_v1_1_says_whose_it_is_and_its_phrases_are_no_tasks(tmp_path):
    dataset = published_dataset(REPO_ID, "v1.1", freeze_small(tmp_path, "v1.1", source="v1.1"))
    text = dataset_card(dataset)
    assert "those of the lists that the authors published after their paper, Smith et al. (2022)" in text
    assert "contributors since" not in text
    assert 'the article follows the first letter ("an European", "a 80-year-old")' in text
    assert dataset.table("v1.1-noun-phrases").num_rows == 3 * 4  # a youth, and two of sexual orientation
    assert {config.name for config in dataset.configs if config.name in text} == set(version_configs("v1.1"))
    of_tasks = {task["config"] for task in yaml.safe_load(eval_yaml(dataset))["tasks"]}
    assert of_tasks == {"v1.1", "v1.1-small", "v1.1-seat"}


def test_a_card_of_a_version_with_pairs_and_non_binary_nouns_describes_them(tmp_path):
    small = published_dataset(REPO_ID, "v2.0", freeze_small(tmp_path, "v2.0"))
    pairs = small.table("v2.0-small").slice(0, 3)
    for column in ("first_axis", "first_descriptor", "second_axis", "second_descriptor"):
        pairs = pairs.append_column(column, pa.array([column] * 3))
    nouns = pa.table({**{name: small.table("nouns")[name] for name in small.table("nouns").column_names}})
    genders = pa.array(["non-binary", *nouns["noun_gender"].to_pylist()[1:]])
    nouns = nouns.set_column(nouns.column_names.index("noun_gender"), "noun_gender", genders)
    configs = [config._replace(table=nouns) if config.name == "nouns" else config for config in small.configs]
    configs.insert(4, PublishedConfig("v2.0-intersections", "Pairs.", pairs, b"parquet"))
    text = dataset_card(PublishedDataset(REPO_ID, "v2.0", tuple(configs)))
    assert "Pairs of terms (v2.0-intersections) come from two axes and are a sample" in text
    assert "Each sentence has one term" not in text
    assert "30 person nouns: 9 female, 11 male, 1 non-binary, 9 that name no gender.\n" in text
    columns = {row[0]: row[2] for row in table_after(text, "## Columns")[1:]}
    assert columns["first_descriptor"] == "v2.0-intersections"
    assert columns["text"] == "sentences"


def test_sentences_that_are_left_out_are_counted(tmp_path):
    small = published_dataset(REPO_ID, "v2.0", freeze_small(tmp_path, "v2.0"))
    assert small.num_left_out == 0
    assert "sentences are left out" not in dataset_card(small)
    fewer = small.prompts.slice(1_234)
    configs = tuple(config._replace(table=fewer) if config.name == "v2.0" else config for config in small.configs)
    dataset = PublishedDataset(REPO_ID, "v2.0", configs)
    assert dataset.num_left_out == 1_234
    assert "1,234 sentences are left out in which term and noun would repeat or contradict" in dataset_card(dataset)


def test_every_column_there_is_has_an_explanation():
    for config in version_configs("next"):
        assert set(find_config(config).schema.names) <= COLUMNS.keys()
