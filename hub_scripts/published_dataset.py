"""A version of the dataset as it is published, and what its card and its Croissant file both say of it.

Every number is counted in the tables that are published. Statements are plain sentences, so that they read the same on
a page and in a JSON file.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

PAPER_VERSION = "v1.0"  # the vocabulary as the paper published it
PAPER_DATE = "2022-12"  # EMNLP 2022
PAPER_URL = "https://aclanthology.org/2022.emnlp-main.625/"
PAPER_TITLE = "“I'm sorry to hear that”: Finding New Biases in Language Models with a Holistic Descriptor Dataset"
PAPER_AUTHORS = ("Eric Michael Smith", "Melissa Hall", "Melanie Kambadur", "Eleonora Presani", "Adina Williams")
LICENSE_URL = "https://creativecommons.org/licenses/by-sa/4.0/"
SPLIT = "test"
DESCRIPTORS, NOUNS, TEMPLATES = "descriptors", "nouns", "templates"
LABELS = ("reviewed", "dispreferred", "polarizing")
UNLABELLED = "unlabelled"  # stands for null

COLUMNS = {
    "id": "made from the content of the row: unique, and the same in every config and version that has the sentence",
    "text": "the sentence",
    "axis": "the demographic axis",
    "bucket": "the axis's subdivision; some axes have none",
    "descriptor": 'the term; of a term that follows its noun the phrase for one person ("who uses a wheelchair")',
    "plural_descriptor": "the term beside a plural noun",
    "descriptor_gender": "set for a term that is used only with nouns of that gender",
    "preference": "what community reviewers said of the term; null where none was asked",
    "placement": "where the term stands beside its noun",
    "first_axis": "of a pair, the axis of the first term; `axis` has both",
    "first_descriptor": "of a pair, the first term; `descriptor` has both",
    "second_axis": "of a pair, the axis of the second term",
    "second_descriptor": "of a pair, the second term",
    "noun": "the person noun in the singular",
    "plural_noun": "the person noun in the plural",
    "noun_gender": "the gender that the noun names; null where it names none",
    "noun_phrase": "the phrase as it stands in the text, with its article or in the plural",
    "plural": "whether the template takes a plural",
    "template": "the template, with the slot {noun_phrase} or {plural_noun_phrase}",
    "small": "whether the template is one of those of the small config",
    "article": "the article before the term or noun, where it does not follow the first letter",
    "note": "a remark for readers",
    "source": "where it comes from",
}
NONCE_AXIS = "nonce"  # words without a meaning, so about nobody
CATEGORIES = ("descriptor_gender", "preference", "placement", "noun_gender")  # columns of a few values each


class PublishedConfig(NamedTuple):
    """A config: its rows, and the Parquet file they are published as."""

    name: str
    description: str
    table: pa.Table
    parquet: bytes

    @property
    def path(self) -> str:
        """The file's path in the repo."""
        return f"data/{self.name}/{SPLIT}.parquet"

    @property
    def sha256(self) -> str:
        """The file's SHA-256 (hex)."""
        return hashlib.sha256(self.parquet).hexdigest()

    @property
    def holds_prompts(self) -> bool:
        """Whether its rows are sentences."""
        return "text" in self.table.column_names

    @property
    def key(self) -> list[str]:
        """The columns that tell rows apart."""
        if self.holds_prompts:
            return ["id"]
        return {DESCRIPTORS: ["axis", "descriptor"], NOUNS: ["noun"], TEMPLATES: ["template"]}[self.name]


@dataclass(frozen=True)
class PublishedDataset:
    """A version as it is published, and counts of it.

    Attributes:
        repo_id: The dataset repo, `"ORG/holistic_bias"`.
        version: The frozen version; also the name of its main config and of its tag.
        configs: Its configs, the main one first.
        earlier: The configs of sentences of the versions before it, which stay beside them, newest version first.
        source_url: The address of the source repository; `None`: not told.
        date: When the version came out (ISO 8601); `None`: it is not recorded.
        changes: What it changes against the version before, in Markdown; `None`: nothing is written down.
    """

    repo_id: str
    version: str
    configs: tuple[PublishedConfig, ...]
    date: str | None = None
    changes: str | None = None
    earlier: tuple[PublishedConfig, ...] = ()
    source_url: str | None = None

    @property
    def all_configs(self) -> tuple[PublishedConfig, ...]:
        """All that the repo holds at this version."""
        return self.configs + self.earlier

    def table(self, config: str) -> pa.Table:
        """The rows of a config."""
        return next(published.table for published in self.configs if published.name == config)

    @property
    def prompts(self) -> pa.Table:
        """The sentences of the main config."""
        return self.table(self.version)

    @cached_property
    def terms(self) -> list[dict[str, Any]]:
        """The rows of the config `descriptors`; a term of two axes has two."""
        return self.table(DESCRIPTORS).to_pylist()

    @property
    def num_terms(self) -> int:
        """How many different terms there are."""
        return len({term["descriptor"] for term in self.terms})

    @property
    def num_shared_terms(self) -> int:
        """How many terms stand in more than one axis."""
        axes = Counter(descriptor for _, descriptor in {(term["axis"], term["descriptor"]) for term in self.terms})
        return sum(count > 1 for count in axes.values())

    @cached_property
    def num_texts(self) -> int:
        """How many different sentences the main config has."""
        return pc.count_distinct(self.prompts["text"]).as_py()

    @cached_property
    def sentences_by_axis(self) -> Counter[str]:
        """Rows of the main config by axis."""
        counts = self.prompts["axis"].value_counts()
        return Counter({count["values"]: count["counts"] for count in counts.to_pylist()})

    @cached_property
    def terms_by_axis(self) -> dict[str, Counter[str]]:
        """Terms by label, for each axis in alphabetical order; `None` is counted as `UNLABELLED`."""
        counts: dict[str, Counter[str]] = {axis: Counter() for axis in sorted({term["axis"] for term in self.terms})}
        for term in self.terms:
            counts[term["axis"]][term["preference"] or UNLABELLED] += 1
        return counts

    @property
    def terms_by_label(self) -> Counter[str]:
        """Terms by label."""
        return sum(self.terms_by_axis.values(), Counter())

    @property
    def noun_genders(self) -> Counter[str | None]:
        """Nouns by the gender they name; `None`: they name none."""
        return Counter(self.table(NOUNS)["noun_gender"].to_pylist())

    @property
    def num_left_out(self) -> int:
        """How many sentences of the main config would agree in gender and are left out all the same."""
        nouns = self.table(NOUNS).to_pylist()
        agreeing = sum(
            term["descriptor_gender"] in (None, noun["noun_gender"])
            and not (term["placement"] == "before" and noun["noun"] in term["descriptor"].split(" "))
            for term in self.terms
            for noun in nouns
        )
        return agreeing * self.table(TEMPLATES).num_rows - self.prompts.num_rows

    @property
    def pairs(self) -> PublishedConfig | None:
        """The config of pairs of terms, if the version has one."""
        return next((config for config in self.configs if "first_descriptor" in config.table.column_names), None)


HOW_CHOSEN = (
    "The paper's authors wrote down terms for each axis, and looked for more among the nearest neighbours of each in "
    "fastText's word embeddings and among its synonyms and antonyms in WordNet.",
    "Then they asked people to comment and to add terms from their own lives. More than two dozen did: people who "
    "identify with the groups named, among them Black, Latinx, Asian American and Pacific Islander and LGBTQ+ people, "
    "and experts in inclusive research, racial justice and the language of disability. Those who agreed to be named "
    "are in the paper's acknowledgments.",
    "Nationalities are those with many immigrants in the United States; the buckets of race and ethnicity follow its "
    "census of 2020.",
    "Terms that are out of date or that many reject were kept if people still use them, since models meet them. "
    "Outright slurs were left out: block lists catch those.",
    "Nonce words, which mean nothing (from Soja et al., 1991), show how a model takes words it does not know.",
    "The sentences were not collected from anybody: they are every combination of a term, a noun and a template.",
)
LEFT_OUT = (
    "{number:,} sentences are left out, in which term and noun would say a thing twice, contradict each other, "
    "misgender, be misread or do harm."
)
CONTENT_WARNING = (
    "Many of these words for people hurt, and some sentences speak of people with hatred. They are in the data because "
    "models meet them. Take care where and to whom you show rows."
)
LABEL_MEANINGS = {
    "reviewed": "people with experience of the term were asked, and gave it neither of the other labels",
    "dispreferred": "they advised against it",
    "polarizing": "they disagree about it",
    UNLABELLED: "nobody was asked (null in the data); it does not mean that nobody minds",
}
USES = (
    "Measuring whether a language model, a dialogue system or a text classifier answers or scores people differently "
    "by how they are described, and comparing models, or one model before and after a change, on the same sentences.",
    "Studying such differences by axis, term, label, noun or template, and reducing them.",
)
MISUSES = (
    "Training a model on the sentences as text about people: nobody said them, and what a model was trained on no "
    "longer measures it.",
    "Finding, sorting or profiling real people, or blocking what they write because it holds one of the terms: many of "
    "them are what people call themselves.",
    "Certifying that a model is free of bias. A small difference on these sentences shows nothing about other terms, "
    "other sentences or other uses.",
    "Ranking groups of people, or reading a model's scores as facts about them.",
)
SOCIAL_IMPACT = (
    "Bias here means difference: that a model treats descriptions of people unequally. Some differences are harmless "
    "or wanted, others hurt, such as pity where none is due or puzzlement at who somebody is; which is which must be "
    "judged by term and use. One number per model is a blunt tool for that. Naming groups in a list also classifies "
    "people, and leaving a group out means that nobody looks for bias against it; so the list is public, and anyone "
    "can propose terms."
)


def biases(dataset: PublishedDataset) -> list[str]:
    """In what ways the data lean."""
    counts = {axis: labels.total() for axis, labels in dataset.terms_by_axis.items() if axis != NONCE_AXIS}
    most, fewest = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
    ((commonest, sentences),) = dataset.sentences_by_axis.most_common(1)
    return [
        "US English, and the identities and borders that matter in the United States. Few nationalities and only the "
        "broadest terms of race and ethnicity are there.",
        f"Axes are uneven: {most} has {counts[most]:,} terms, {fewest} {counts[fewest]:,}; "
        f"{sentences / dataset.prompts.num_rows:.0%} of the sentences are about {commonest}. Average over axes, not "
        "over sentences, if each should count alike.",
        f"Only {len(dataset.terms) - dataset.terms_by_label[UNLABELLED]:,} of {len(dataset.terms):,} entries were "
        "put before reviewers, and more in some axes than in others: absence of a label is no approval.",
        "Terms differ in how common and how long they are, and in their part of speech. Scores follow that too, and "
        "not only what a model makes of people.",
    ]


def limitations(dataset: PublishedDataset) -> list[str]:
    """What the data cannot show."""
    said = [
        "Labels are no verdict. Reviewers disagree among themselves, words change, and a term that hurts from outside "
        "a group can be its own choice from inside.",
        "The list holds what its contributors could think of. Many people and many ways of speaking of them are "
        "missing, and a result says nothing about terms that are not there.",
        "Sentences are made by filling templates: short, out of a conversation between two people, and some read "
        "oddly. Nobody said them, and how a model takes them may differ from how it takes what people write.",
        "What is measured on such prompts need not agree with what an application that is built on the model does.",
    ]
    if dataset.pairs is None:
        said.append("Each sentence has one term: nothing shows how a model takes people who belong to several groups.")
    else:
        said.append(
            f"Pairs of terms ({dataset.pairs.name}) come from two axes and are a sample; three terms, or two of one "
            "axis, are not there."
        )
    genders = sorted(gender for gender in dataset.noun_genders if gender is not None)
    without = dataset.noun_genders[None]
    said.append(
        f"{dataset.noun_genders.total():,} person nouns: "
        + ", ".join(f"{dataset.noun_genders[gender]:,} {gender}" for gender in genders)
        + f", {without:,} that name no gender."
        + ("" if "non-binary" in genders else " None is for non-binary people in particular.")
    )
    if dataset.version == PAPER_VERSION:
        said.append(
            'Kept as published, mistakes included: the article follows the first letter ("an European", "a '
            '80-year-old").'
        )
    return said


def sensitive_information(dataset: PublishedDataset) -> str:
    """Whom the data are about."""
    axes = ", ".join(axis.replace("_", " ") for axis in dataset.terms_by_axis if axis != NONCE_AXIS)
    return (
        f"No row is about a real person, and no personal data was collected. The terms are about sensitive attributes: "
        f"{axes}."
    )


def maintenance(dataset: PublishedDataset) -> str:
    """How the dataset is kept."""
    source = "the source repository" + ("" if dataset.source_url is None else f" ({dataset.source_url})")
    return (
        f"Version {dataset.version} is frozen: the tag {dataset.version} of {dataset.repo_id} is never moved, and its "
        "rows never change; later versions keep its sentences, by the same configs. Terms are added, corrected and "
        f"relabelled by pull requests to {source}, each with its source, and come out as a new version "
        "with a tag and a list of changes of its own."
    )
