"""The dataset's card on the Hub: front matter that `datasets` and the Hub read, and a page for people.

Terms are counted and not shown: many hurt, and the tables have them. The one example is of the term that the paper
itself uses as its neutral example.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pyarrow.compute as pc

from hb_dataset.markdown_table import markdown_table
from hub_scripts.published_dataset import (
    AUTHORS_VERSION,
    CATEGORIES,
    COLUMNS,
    CONTENT_WARNING,
    DESCRIPTORS,
    HOW_CHOSEN,
    LABEL_MEANINGS,
    LABELS,
    LEFT_OUT,
    LICENSE_URL,
    MISUSES,
    NOUNS,
    PAPER_AUTHORS,
    PAPER_TITLE,
    PAPER_URL,
    PAPER_VERSION,
    SOCIAL_IMPACT,
    SPLIT,
    TEMPLATES,
    UNLABELLED,
    USES,
    PublishedConfig,
    PublishedDataset,
    biases,
    limitations,
    maintenance,
    sensitive_information,
    summary,
)

TAGS = ("bias", "fairness", "holistic-bias", "evaluation", "responsible-ai", "demographics")
EXAMPLE_TERM = "left-handed"
SIZE_STEPS = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")  # powers of ten, from 10³


def dataset_card(dataset: PublishedDataset) -> str:
    """Writes the card.

    Args:
        dataset: The version with its configs.

    Returns:
        The README.md: YAML front matter and Markdown. The same for the same content.
    """
    return f"---\n{_front_matter(dataset)}\n---\n\n{_page(dataset)}"


def size_category(rows: int) -> str:
    """The Hub's size category for a number of rows, such as `"100K<n<1M"`."""
    bounds = [10 ** (3 + power) for power in range(len(SIZE_STEPS))]
    above = sum(rows >= bound for bound in bounds)
    if above == 0:
        return f"n<{SIZE_STEPS[0]}"
    if above == len(bounds):
        return f"n>{SIZE_STEPS[-1]}"
    return f"{SIZE_STEPS[above - 1]}<n<{SIZE_STEPS[above]}"


def _front_matter(dataset: PublishedDataset) -> str:
    from datasets import DatasetInfo, Features, SplitDict, SplitInfo
    from datasets.info import DatasetInfosDict
    from huggingface_hub import DatasetCardData

    data = DatasetCardData(
        pretty_name="HolisticBias",
        language=["en"],
        language_details=["en-US"],
        license="cc-by-sa-4.0",
        annotations_creators=["expert-generated"],
        language_creators=["expert-generated"],
        multilinguality=["monolingual"],
        source_datasets=["original"],
        size_categories=[size_category(sum(config.table.num_rows for config in dataset.configs))],
        task_categories=["text-generation", "fill-mask", "text-classification"],
        tags=list(TAGS),
        configs=[
            {
                "config_name": config.name,
                "data_files": [{"split": SPLIT, "path": config.path}],
                **({"default": True} if config.name == dataset.version else {}),
            }
            for config in dataset.all_configs
        ],
    )
    infos = DatasetInfosDict()
    for config in dataset.all_configs:
        split = SplitInfo(SPLIT, num_bytes=config.table.nbytes, num_examples=config.table.num_rows)
        infos[config.name] = DatasetInfo(
            features=Features.from_arrow_schema(config.table.schema),
            splits=SplitDict({SPLIT: split}),
            download_size=len(config.parquet),
            dataset_size=config.table.nbytes,
        )
    infos.to_dataset_card_data(data)  # in alphabetical order
    order = [config.name for config in dataset.all_configs]
    data["dataset_info"].sort(key=lambda info: order.index(info["config_name"]))
    return str(data)


def _page(dataset: PublishedDataset) -> str:
    version, repo_id = dataset.version, dataset.repo_id
    sections = [
        f"# HolisticBias {version}",
        f"> [!WARNING]\n> **Content warning.** {CONTENT_WARNING}",
        summary(dataset),
        _origin(version),
        _list(_where_to_turn(dataset)),
        f"""```python
from datasets import load_dataset

prompts = load_dataset("{repo_id}", "{version}", revision="{version}", split="{SPLIT}")
```""",
        f'`revision="{version}"` is a tag that is never moved: you always get the same rows. Without a revision you '
        "get what was published last, with the sentences of every version. Without the name of a config you get the "
        "main config of the newest version.",
        "## Configs",
        f"All configs have one split, `{SPLIT}`: the sentences are not meant for training.",
        markdown_table(
            ["config", "rows", "Parquet", "what it is"],
            [
                [
                    f"`{config.name}`" + (" (default)" if config.name == version else ""),
                    f"{config.table.num_rows:,}",
                    _size(len(config.parquet)),
                    config.description,
                ]
                for config in dataset.configs
            ],
            numbers=(1, 2),
        ),
        _earlier(dataset),
        "## Columns",
        _columns(dataset),
        "Missing values are null.",
        _example(dataset),
        "## Terms",
        _terms(dataset),
        "The labels are those of community reviewers:",
        _list(f"**{label}**: {meaning}." for label, meaning in LABEL_MEANINGS.items()),
        _nouns_and_templates(dataset),
        "## How the terms were chosen",
        _list(HOW_CHOSEN),
        "## Intended and unintended uses",
        "It is intended for:",
        _list(USES),
        "It is not intended for:",
        _list(MISUSES),
        "## Social impact, limitations and biases",
        SOCIAL_IMPACT,
        sensitive_information(dataset),
        _list([*limitations(dataset), *biases(dataset)]),
        "## Versions",
        maintenance(dataset),
        _changes(dataset),
        "## Licence, attribution and citation",
        f"[CC-BY-SA-4.0]({LICENSE_URL}); see `LICENSE`. If you share the data, changed or not, name the authors of the "
        f"paper ({', '.join(PAPER_AUTHORS)}), state what you changed, and share it under the same licence. "
        "`.published_files.json` lists the files that the next publication replaces.",
        _citation(),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _origin(version: str) -> str:
    paper = f"[{PAPER_TITLE}]({PAPER_URL})"
    if version == PAPER_VERSION:
        return f"Terms, nouns, templates and sentences are those of Smith et al. (2022), {paper}."
    if version == AUTHORS_VERSION:
        return (
            "Terms, nouns, templates and sentences are those of the lists that the authors published after their "
            f"paper, Smith et al. (2022), {paper}, whose sentences are version {PAPER_VERSION}. Phrases with a noun of "
            f'their own ("a wheelchair user") are in the config `{version}-noun-phrases`.'
        )
    return (
        f"It is based on Smith et al. (2022), {paper}, whose sentences are version {PAPER_VERSION}, with the additions "
        "and corrections of contributors since."
    )


def _where_to_turn(dataset: PublishedDataset) -> Iterator[str]:
    """The lines with the source repository and with the contact."""
    from huggingface_hub import constants

    source = dataset.source_url
    if source is not None:
        yield f"**Source repository**: <{source}>, with the vocabulary, the code, and how to contribute"
    contact = f"[discussions of this page]({constants.ENDPOINT}/datasets/{dataset.repo_id}/discussions)"
    if source is None:
        yield f"**Contact**: the {contact}"
    else:
        yield (
            f"**Contact**: the {contact}, or the issues of the source repository; its `CODE_OF_CONDUCT.md` describes "
            "how to report something in private"
        )


def _earlier(dataset: PublishedDataset) -> str:
    """A paragraph on the sentences of earlier versions that are kept; empty if there are none."""
    if not dataset.earlier:
        return ""
    names = ", ".join(f"`{config.name}` ({config.table.num_rows:,} rows)" for config in dataset.earlier)
    return (
        f"The sentences of earlier versions are included: {names}. The rest of this page is about {dataset.version}; "
        "the terms, nouns and templates of another version, and its own card, are at its tag."
    )


def _columns(dataset: PublishedDataset) -> str:
    """A table of all columns, with the configs that have them."""
    holders: dict[str, list[PublishedConfig]] = {}
    for config in dataset.configs:
        for column in config.table.column_names:
            holders.setdefault(column, []).append(config)
    of_prompts = [config for config in dataset.configs if config.holds_prompts]
    rows = []
    for column, configs in holders.items():
        others = [config.name for config in configs if not config.holds_prompts]
        prompts = [config.name for config in configs if config.holds_prompts]
        where = ["sentences"] if len(prompts) == len(of_prompts) else [f"`{name}`" for name in prompts]
        where += [f"`{name}`" for name in others]
        rows.append(
            [
                f"`{column}`",
                str(configs[0].table.schema.field(column).type),
                ", ".join(where),
                _what_it_holds(column, configs),
            ]
        )
    return markdown_table(["column", "type", "in", "what it holds"], rows)


def _what_it_holds(column: str, configs: Sequence[PublishedConfig]) -> str:
    meaning = COLUMNS[column].replace("{", "`{").replace("}", "}`")
    if column in CATEGORIES:
        values = {value for config in configs for value in config.table[column].unique().to_pylist()} - {None}
        meaning += ": " + ", ".join(f"`{value}`" for value in sorted(values))
    return meaning


def _example(dataset: PublishedDataset) -> str:
    rows = dataset.prompts.filter(pc.field("descriptor") == EXAMPLE_TERM).slice(0, 1).to_pylist()
    return "".join(f"A row:\n\n```json\n{json.dumps(row, indent=2, ensure_ascii=False)}\n```" for row in rows)


def _terms(dataset: PublishedDataset) -> str:
    labels = (*LABELS, UNLABELLED)
    sentences = dataset.sentences_by_axis
    rows = [
        [f"`{axis}`", *_counts([counts.total(), *(counts[label] for label in labels), sentences[axis]])]
        for axis, counts in dataset.terms_by_axis.items()
    ]
    total = dataset.terms_by_label
    rows.append(
        ["all", *_counts([total.total(), *(total[label] for label in labels), sentences.total()])],
    )
    by_axis = markdown_table(["axis", "terms", *labels, "sentences"], rows, numbers=range(1, len(labels) + 3))
    buckets = Counter((term["axis"], term["bucket"]) for term in dataset.terms)
    by_bucket = markdown_table(
        ["axis", "bucket", "terms"],
        [
            [f"`{axis}`", f"`{bucket}`" if bucket else "–", f"{count:,}"]
            for (axis, bucket), count in sorted(
                buckets.items(), key=lambda item: (item[0][0], -item[1], item[0][1] or "")
            )
        ],
        numbers=(2,),
    )
    return f"{by_axis}\n\n<details>\n<summary>Terms by bucket</summary>\n\n{by_bucket}\n\n</details>"


def _nouns_and_templates(dataset: PublishedDataset) -> str:
    genders = dataset.noun_genders
    named = [f"{genders[gender]:,} {gender}" for gender in sorted(gender for gender in genders if gender is not None)]
    plural = Counter(dataset.table(TEMPLATES)["plural"].to_pylist())
    return (
        f"Terms are combined with {genders.total():,} person nouns ({', '.join(named)}, {genders[None]:,} that name "
        f"no gender) in {plural.total():,} templates ({plural[False]:,} about one person, {plural[True]:,} about "
        f"several). All of them are in the configs `{DESCRIPTORS}`, `{NOUNS}` and `{TEMPLATES}`."
        + (f" {LEFT_OUT.format(number=dataset.num_left_out)}" if dataset.num_left_out > 0 else "")
    )


def _changes(dataset: PublishedDataset) -> str:
    """The changelog's numbers; its lists under headings are folded, since they name terms."""
    if dataset.changes is None:
        return f"{PAPER_VERSION} is the first version." if dataset.version == PAPER_VERSION else ""
    summary, heading, rest = dataset.changes.strip().partition("### ")
    listed = f"<details>\n<summary>Which ones</summary>\n\n{heading}{rest}\n\n</details>" if heading else ""
    return "\n\n".join(part for part in (f"Changes in {dataset.version}:", summary.strip(), listed) if part)


def _citation() -> str:
    from hb_dataset.prompts import CITATION

    return f"```bibtex\n{CITATION.strip()}\n```"


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"* {item}" for item in items)


def _counts(counts: Iterable[int]) -> list[str]:
    return [f"{count:,}" for count in counts]


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
