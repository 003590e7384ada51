"""Collects a version of the dataset as it is published: its Parquet files, its card and its `eval.yaml`.

The card counts the terms but does not list them, because many are hurtful and the tables already contain them. The Hub
compares figures of the same task. Figures are comparable only within a config, so each config has its own tasks, such
as `likelihood_bias_v1.0-small`. Figures of style clusters have no tasks, because clusters belong to the classifier and
not to the dataset.
"""

import io
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml
from huggingface_hub.utils import yaml_dump

from hb_dataset import prompts, versions
from hb_dataset.markdown_table import markdown_table
from hb_metrics.measurements import MEASUREMENTS
from hub_scripts.hub import endpoint

SPLIT = "test"
ROWS_PER_GROUP = 50_000  # about 10 MB of text; viewers and streams read one group at a time
COMPRESSION_LEVEL = 9


class PublishedConfig(NamedTuple):
    name: str
    description: str
    table: pa.Table
    parquet: bytes
    measured: bool

    @property
    def path(self) -> str:
        return f"data/{self.name}/{SPLIT}.parquet"

    @property
    def holds_prompts(self) -> bool:
        return "text" in self.table.column_names


class PublishedDataset(NamedTuple):
    """A version of the dataset. The first config is the main config.

    `earlier` contains the prompts of earlier versions, from the newest to the oldest. These prompts stay on main.
    `changes` describes the changes since the previous version, in Markdown.
    """

    repo_id: str
    version: str
    configs: tuple[PublishedConfig, ...]
    earlier: tuple[PublishedConfig, ...] = ()
    changes: str = ""

    def table(self, config: str) -> pa.Table:
        return next(published.table for published in self.configs if published.name == config)


def published_dataset(repo_id: str, version: str) -> PublishedDataset:
    number = versions.version_number
    before = [name for name in versions.frozen_versions() if number(name) < number(version)]
    earlier = [config for name in reversed(before) for config in _configs(name) if config.holds_prompts]
    changes = _changes(versions.version_folder(versions.CHANGELOG_FILE), version)
    return PublishedDataset(repo_id, version, _configs(version), tuple(earlier), changes)


def parquet_bytes(table: pa.Table) -> bytes:
    """Writes a table as a Parquet file. The same rows always result in the same bytes.

    Columns with repeated values are stored with a dictionary. Chunk boundaries depend on the content, so the Hub stores
    common parts of two versions only once. The file has a page index, which the Hub's viewer needs.
    """
    buffer = io.BytesIO()
    repeating = [field.name for field in table.schema if field.type == pa.string() and field.name not in ("id", "text")]
    pq.write_table(
        table.combine_chunks(),
        buffer,
        row_group_size=ROWS_PER_GROUP,
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        use_dictionary=repeating,
        use_content_defined_chunking=True,
        write_page_index=True,
        store_schema=False,  # the types of Parquet are sufficient
    )
    return buffer.getvalue()


def _configs(version: str) -> tuple[PublishedConfig, ...]:
    vocabulary = versions.read_version(version)
    configs = []
    for config in prompts.version_configs(version):
        table = prompts.config_table(config, vocabulary)
        configs.append(PublishedConfig(config.name, config.description, table, parquet_bytes(table), config.measured))
    counts = versions.table_counts({config.name: config.table for config in configs})
    versions.verify_version(version, made=counts)
    return tuple(configs)


def _changes(changelog: Path, version: str) -> str:
    text = changelog.read_text(encoding="utf-8") if changelog.is_file() else ""
    section = re.search(rf"^## {re.escape(version)}\b.*\n((?:(?!## ).*\n?)*)", text, flags=re.MULTILINE)
    return section[1].strip() if section else ""


# --- The card ---------------------------------------------------------------------------------------------------------

PAGE = Path(__file__).parent / "dataset_card.md"
PAPER_VERSION = "v1.0"  # the paper's vocabulary
AUTHORS_VERSION = "v1.1"  # the lists that the authors published later
LABELS = ("reviewed", "dispreferred", "polarizing", "unlabelled")  # the last one stands for a null label
NONCE_AXIS = "nonce"  # the axis of words without a meaning
COLUMNS = {
    "id": "a unique id, computed from the row's content; the same sentence has the same id in all configs and versions",
    "text": "the sentence",
    "axis": "the demographic axis",
    "bucket": "the subdivision of the axis; some axes have no subdivisions",
    "descriptor": 'the term; for a term after its noun, the phrase for one person ("who uses a wheelchair")',
    "plural_descriptor": "the term as written beside a plural noun",
    "descriptor_gender": "the gender of the term, if it is used only with nouns of that gender",
    "preference": "the community reviewers' label; null if no reviewer was asked",
    "placement": "whether the term comes before or after its noun",
    "first_axis": "the axis of a pair's first term; `axis` contains both",
    "first_descriptor": "a pair's first term; `descriptor` contains both",
    "second_axis": "the axis of a pair's second term",
    "second_descriptor": "a pair's second term",
    "noun": "the person noun in the singular",
    "plural_noun": "the person noun in the plural",
    "noun_gender": "the gender of the noun; null if it has none",
    "noun_phrase": "the phrase as written in the text, with its article or in the plural",
    "plural": "whether the template has a plural noun phrase",
    "template": "the template, with the slot `{noun_phrase}` or `{plural_noun_phrase}`",
    "small": "whether the template is in the small config",
    "article": "the article before the term or noun, if the first letter does not determine it",
    "note": "a remark for readers",
    "source": "the origin of the entry",
}


def dataset_card(dataset: PublishedDataset) -> str:
    """Writes the README.md of a version, with YAML front matter. The text depends only on the version."""
    version, sentences, terms = dataset.version, dataset.table(dataset.version), dataset.table("descriptors")
    axes = set(terms["axis"].to_pylist())
    num_sentences = Counter(sentences["axis"].to_pylist())
    nouns = Counter(dataset.table("nouns")["noun_gender"].to_pylist())
    plural = Counter(dataset.table("templates")["plural"].to_pylist())
    data_files = []
    for config in dataset.configs + dataset.earlier:
        files = {"config_name": config.name, "data_files": [{"split": SPLIT, "path": config.path}]}
        data_files.append(files | ({"default": True} if config.name == version else {}))
    return PAGE.read_text(encoding="utf-8").format(
        data_files=yaml.safe_dump({"configs": data_files}, sort_keys=False).strip(),
        version=version,
        repo_id=dataset.repo_id,
        num_sentences=f"{sentences.num_rows:,}",
        num_texts=f"{pc.count_distinct(sentences['text']).as_py():,}",
        num_terms=f"{pc.count_distinct(terms['descriptor']).as_py():,}",
        num_axes=len(axes),
        origin=_origin(version),
        discussions=f"{endpoint()}/datasets/{dataset.repo_id}/discussions",
        configs=_config_table(dataset),
        columns=_column_table(dataset),
        terms=_term_table(dataset, num_sentences),
        nouns=", ".join(f"{count} {gender}" if gender else f"{count} of no gender" for gender, count in nouns.items()),
        num_nouns=nouns.total(),
        num_templates=plural.total(),
        num_singular=plural[False],
        num_plural=plural[True],
        sensitive=", ".join(axis.replace("_", " ") for axis in sorted(axes - {NONCE_AXIS})),
        limitations=_limitations(dataset),
        num_reviewed=f"{terms.num_rows - terms['preference'].null_count:,}",
        num_entries=f"{terms.num_rows:,}",
        changes=_changes_section(dataset),
        citation=prompts.CITATION.strip(),
    )


def _origin(version: str) -> str:
    if version in (PAPER_VERSION, AUTHORS_VERSION):
        return "All terms, nouns, templates and sentences come from lists that the authors published."
    return (
        "This version adds contributors' terms and corrections to the lists that the authors published. It "
        "excludes combinations of a term and a noun that are redundant, contradictory, misgendering, misleading or "
        "harmful."
    )


def _config_table(dataset: PublishedDataset) -> str:
    rows = [
        [
            f"`{config.name}`" + (" (default)" if config.name == dataset.version else ""),
            f"{config.table.num_rows:,}",
            f"{len(config.parquet) / 1e3:,.1f}",
            config.description,
        ]
        for config in dataset.configs
    ]
    table = markdown_table(["config", "rows", "kB", "content"], rows, numbers=(1, 2))
    if not dataset.earlier:
        return table
    earlier = ", ".join(f"`{config.name}` ({config.table.num_rows:,} rows)" for config in dataset.earlier)
    return (
        f"{table}\n\nThe repository also contains the sentences of earlier versions: {earlier}. Each version's tag "
        "contains its terms, nouns, templates and card."
    )


def _column_table(dataset: PublishedDataset) -> str:
    num_prompts = sum(config.holds_prompts for config in dataset.configs)
    rows = []
    for column in dict.fromkeys(name for config in dataset.configs for name in config.table.column_names):
        holders = [config for config in dataset.configs if column in config.table.column_names]
        prompts, others = ([f"`{c.name}`" for c in holders if c.holds_prompts == kind] for kind in (True, False))
        where = ["all sentences"] if len(prompts) == num_prompts else prompts
        kind = str(holders[0].table.schema.field(column).type)
        rows.append([f"`{column}`", kind, ", ".join(where + others), COLUMNS[column]])
    return markdown_table(["column", "type", "in", "content"], rows)


def _term_table(dataset: PublishedDataset, num_sentences: Counter[str]) -> str:
    terms = dataset.table("descriptors").select(["axis", "preference"]).to_pandas().fillna(LABELS[-1])
    counts = pd.crosstab(terms["axis"], terms["preference"], margins=True, margins_name="all")
    counts = counts.reindex(columns=["all", *LABELS], fill_value=0)
    sentences = {**num_sentences, "all": num_sentences.total()}
    rows = [
        [axis if axis == "all" else f"`{axis}`", *(f"{count:,}" for count in (*of_labels, sentences[axis]))]
        for axis, *of_labels in counts.itertuples()
    ]
    return markdown_table(["axis", "terms", *LABELS, "sentences"], rows, numbers=range(1, len(LABELS) + 3))


def _limitations(dataset: PublishedDataset) -> str:
    pairs = [config.name for config in dataset.configs if "first_descriptor" in config.table.column_names]
    limitations = (
        "* Each sentence has one term, so the data cannot show how a model treats people who belong to several groups."
    )
    if pairs:
        limitations = (
            f"* The pairs of terms in `{pairs[0]}` are a sample. No sentence has three terms, or two terms of one axis."
        )
    if "non-binary" not in dataset.table("nouns")["noun_gender"].to_pylist():
        limitations += "\n* No noun is specific to non-binary people."
    if dataset.version in (PAPER_VERSION, AUTHORS_VERSION):
        limitations += '\n* Articles depend on the first letter ("an European"), as in the published sentences.'
    return limitations


def _changes_section(dataset: PublishedDataset) -> str:
    """Returns the version's changelog. Its lists are collapsed, because they contain terms."""
    if not dataset.changes:
        return f"{dataset.version} has no recorded changes."
    summary, heading, rest = dataset.changes.partition("### ")
    folded = f"\n\n<details>\n<summary>Which ones</summary>\n\n{heading}{rest}\n\n</details>" if heading else ""
    return f"Changes in {dataset.version}:\n\n{summary.strip()}{folded}"


# --- The tasks --------------------------------------------------------------------------------------------------------

EVAL_FILE = "eval.yaml"
EVALUATION_FRAMEWORK = "holistic-bias"  # the name to register in the Hub's EVALUATION_FRAMEWORKS
ABOUT = (
    "Measures how much a language model's treatment of people depends on the words that describe them. "
    "likelihood_bias is the share of pairs of terms whose sentences are not equally likely. full_gen_bias is the "
    "variation of reply styles between terms, and full_gen_bias_debiased excludes the sampling noise. "
    "offensive_replies is the share of offensive replies. A low figure does not certify that a model is free of "
    "bias. Compare figures only within one config, and only from the same classifier."
)


def eval_yaml(dataset: PublishedDataset) -> str:
    tasks = [
        {"id": f"{task}_{config.name}", "config": config.name, "split": SPLIT}
        for config in dataset.configs + dataset.earlier
        if config.measured
        for measurement in MEASUREMENTS
        for task in measurement.tasks
    ]
    about = {"name": "HolisticBias", "description": ABOUT, "evaluation_framework": EVALUATION_FRAMEWORK}
    return yaml_dump({**about, "tasks": tasks}, sort_keys=False)
