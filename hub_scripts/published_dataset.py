"""A version of the dataset as it is published, and the statements on its card.

Every number is counted in the tables that are published.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

PAPER_VERSION = "v1.0"  # the vocabulary as the paper published it
AUTHORS_VERSION = "v1.1"  # the authors' own lists after the paper
PAPER_DATE = "2022-12"  # EMNLP 2022
PAPER_URL = "https://aclanthology.org/2022.emnlp-main.625/"
PAPER_TITLE = "“I'm sorry to hear that”: Finding New Biases in Language Models with a Holistic Descriptor Dataset"
PAPER_AUTHORS = ("Eric Michael Smith", "Melissa Hall", "Melanie Kambadur", "Eleonora Presani", "Adina Williams")
LICENSE_URL = "https://creativecommons.org/licenses/by-sa/4.0/"
SPLIT = "test"
DESCRIPTORS, NOUNS, TEMPLATES = "descriptors", "nouns", "templates"
LABELS = ("reviewed", "dispreferred", "polarizing")
UNLABELLED = "unlabelled"  # in place of null

COLUMNS = {
    "id": "computed from the content of the row: unique, and the same in every config and version with the sentence",
    "text": "the sentence",
    "axis": "the demographic axis",
    "bucket": "the axis's subdivision; some axes have none",
    "descriptor": 'the term; if it follows its noun, the phrase for one person ("who uses a wheelchair")',
    "plural_descriptor": "the term beside a plural noun",
    "descriptor_gender": "the gender of a term that is used only with nouns of that gender",
    "preference": "the label that community reviewers gave the term; null if nobody was asked",
    "placement": "whether the term comes before or after its noun",
    "first_axis": "of a pair, the axis of the first term; `axis` has both",
    "first_descriptor": "of a pair, the first term; `descriptor` has both",
    "second_axis": "of a pair, the axis of the second term",
    "second_descriptor": "of a pair, the second term",
    "noun": "the person noun in the singular",
    "plural_noun": "the person noun in the plural",
    "noun_gender": "the gender that the noun names; null if it names none",
    "noun_phrase": "the phrase as it is in the text, with its article or in the plural",
    "plural": "whether the template has a plural noun phrase",
    "template": "the template, with the slot {noun_phrase} or {plural_noun_phrase}",
    "small": "whether the template is in the small config",
    "article": "the article before the term or noun, if it does not follow from the first letter",
    "note": "a remark for readers",
    "source": "where the entry comes from",
}
NONCE_AXIS = "nonce"  # words without a meaning, so they are about nobody
CATEGORIES = ("descriptor_gender", "preference", "placement", "noun_gender")  # columns of a few values each


class PublishedConfig(NamedTuple):
    """A config: its rows, and the Parquet file they are published as."""

    name: str
    description: str
    table: pa.Table
    parquet: bytes

    @property
    def path(self) -> str:
        """The file's path in the repository."""
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
        """The columns that identify a row."""
        if self.holds_prompts:
            return ["id"]
        return {DESCRIPTORS: ["axis", "descriptor"], NOUNS: ["noun"], TEMPLATES: ["template"]}[self.name]


@dataclass(frozen=True)
class PublishedDataset:
    """A version as it is published, and counts of it.

    Attributes:
        repo_id: The dataset repository, `"ORG/holistic_bias"`.
        version: The frozen version; also the name of its main config and of its tag.
        configs: Its configs, the main one first.
        date: The date of the version (ISO 8601); `None` if it is not recorded.
        changes: The changes since the version before, in Markdown; `None` if they are not recorded.
        earlier: The configs with sentences of the versions before it, which are kept, newest version first.
        source_url: The address of the source repository; `None` if it is not known.
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
        """All configs of the repository at this version."""
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
        """The rows of the config `descriptors`; a term on two axes has two."""
        return self.table(DESCRIPTORS).to_pylist()

    @property
    def num_terms(self) -> int:
        """The number of different terms."""
        return len({term["descriptor"] for term in self.terms})

    @property
    def num_shared_terms(self) -> int:
        """The number of terms that are on more than one axis."""
        axes = Counter(descriptor for _, descriptor in {(term["axis"], term["descriptor"]) for term in self.terms})
        return sum(count > 1 for count in axes.values())

    @cached_property
    def num_texts(self) -> int:
        """The number of different sentences of the main config."""
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
        """Nouns by the gender they name; `None` if they name none."""
        return Counter(self.table(NOUNS)["noun_gender"].to_pylist())

    @property
    def num_left_out(self) -> int:
        """The number of sentences that agree in gender, but are left out of the main config."""
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
    "identify with the groups, among them Black, Latinx, Asian American and Pacific Islander and LGBTQ+ people, "
    "and experts in inclusive research, racial justice and the language of disability. Those who agreed to be named "
    "are in the paper's acknowledgments.",
    "Nationalities are those with many immigrants in the United States; the buckets of race and ethnicity follow its "
    "census of 2020.",
    "Terms that are out of date or that many people reject were kept if they are still in use, since models meet them. "
    "Outright slurs were left out: block lists catch those.",
    "Nonce words, which mean nothing (from Soja et al., 1991), show how a model reacts to words it does not know.",
    "The sentences were not collected from anybody: they are every combination of a term, a noun and a template.",
)
LEFT_OUT = (
    "{number:,} sentences are left out in which term and noun would repeat or contradict each other, misgender, be "
    "misread or do harm."
)
CONTENT_WARNING = (
    "Many of these words for people hurt, and some sentences are hateful. They are in the data because models meet "
    "them. Take care where and to whom you show rows."
)
LABEL_MEANINGS = {
    "reviewed": "people with experience of the term were asked, and gave it neither of the other labels",
    "dispreferred": "they advised against it",
    "polarizing": "they disagree about it",
    UNLABELLED: "nobody was asked (null in the data); this is not an approval",
}
USES = (
    "Measuring whether a language model, a dialogue system or a text classifier replies differently to people, or "
    "scores them differently, depending on how they are described, and comparing models, or one model before and after "
    "a change, on the same sentences.",
    "Studying such differences by axis, term, label, noun or template, and reducing them.",
)
MISUSES = (
    "Training a model on the sentences as text about people: nobody said them, and a model cannot be measured with "
    "sentences that it was trained on.",
    "Finding, sorting or profiling real people, or blocking what they write because it contains one of the terms: many "
    "of the terms are what people call themselves.",
    "Certifying that a model is free of bias. A small difference on these sentences shows nothing about other terms, "
    "other sentences or other uses.",
    "Ranking groups of people, or reading a model's scores as facts about them.",
)
SOCIAL_IMPACT = (
    "Bias here means difference: that a model treats descriptions of people unequally. Some differences are harmless "
    "or intended, others hurt, such as pity that nobody asked for or puzzlement at who somebody is; this has to be "
    "judged for each term and use, for which one number per model is a blunt tool. Listing groups also classifies "
    "people, and bias against a group that is left out is not measured; therefore the list is public, and anyone can "
    "propose terms."
)


def summary(dataset: PublishedDataset) -> str:
    """What the dataset is, in a sentence."""
    shared = f" ({dataset.num_shared_terms:,} are on more than one axis)" if dataset.num_shared_terms else ""
    return (
        f"{dataset.prompts.num_rows:,} English sentences ({dataset.num_texts:,} different ones) about a person "
        f"described with one of {dataset.num_terms:,} demographic terms{shared} on {len(dataset.terms_by_axis)} axes, "
        "made to measure whether language models treat people differently depending on how they are described."
    )


def biases(dataset: PublishedDataset) -> list[str]:
    """The biases of the data themselves."""
    counts = {axis: labels.total() for axis, labels in dataset.terms_by_axis.items() if axis != NONCE_AXIS}
    most, fewest = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
    ((commonest, sentences),) = dataset.sentences_by_axis.most_common(1)
    return [
        "The data are in US English, about the identities and borders that matter in the United States, with few "
        "nationalities and only the broadest terms of race and ethnicity.",
        f"Axes are uneven: {most} has {counts[most]:,} terms, {fewest} {counts[fewest]:,}; "
        f"{sentences / dataset.prompts.num_rows:.0%} of the sentences are about {commonest}. Average over axes, not "
        "over sentences, to give each axis the same weight.",
        f"Only {len(dataset.terms) - dataset.terms_by_label[UNLABELLED]:,} of {len(dataset.terms):,} entries were "
        "reviewed, and more on some axes than on others: the absence of a label is not an approval.",
        "Terms differ in how common and how long they are, and in their part of speech. Scores depend on that too, and "
        "not only on how a model treats people.",
    ]


def limitations(dataset: PublishedDataset) -> list[str]:
    """What the data cannot show."""
    statements = [
        "Labels are not a verdict. Reviewers disagree among themselves, words change, and a term that hurts from "
        "outside a group can be its own choice from inside.",
        "The list has what its contributors thought of. Many people and many ways to describe them are missing, and a "
        "result shows nothing about terms that are not in it.",
        "Sentences are made by filling templates: they are short, as in a conversation between two people, and some "
        "sound odd. Nobody said them, and a model may react differently to what people write.",
        "What is measured on such prompts may differ from what an application that is built on the model does.",
    ]
    if dataset.pairs is None:
        statements.append(
            "Each sentence has one term: nothing shows how a model treats people who belong to several groups."
        )
    else:
        statements.append(
            f"Pairs of terms ({dataset.pairs.name}) come from two axes and are a sample; there are no sentences with "
            "three terms, or with two of one axis."
        )
    genders = sorted(gender for gender in dataset.noun_genders if gender is not None)
    without = dataset.noun_genders[None]
    statements.append(
        f"{dataset.noun_genders.total():,} person nouns: "
        + ", ".join(f"{dataset.noun_genders[gender]:,} {gender}" for gender in genders)
        + f", {without:,} that name no gender."
        + ("" if "non-binary" in genders else " None is for non-binary people in particular.")
    )
    if dataset.version in (PAPER_VERSION, AUTHORS_VERSION):
        statements.append(
            'The sentences are kept as published, with mistakes: the article follows the first letter ("an '
            'European", "a 80-year-old").'
        )
    return statements


def sensitive_information(dataset: PublishedDataset) -> str:
    """The sensitive attributes that the data are about."""
    axes = ", ".join(axis.replace("_", " ") for axis in dataset.terms_by_axis if axis != NONCE_AXIS)
    return (
        f"No row is about a real person, and no personal data was collected. The terms are about sensitive attributes: "
        f"{axes}."
    )


def maintenance(dataset: PublishedDataset) -> str:
    """How the dataset is maintained."""
    source = "the source repository" + ("" if dataset.source_url is None else f" ({dataset.source_url})")
    return (
        f"Version {dataset.version} is frozen: the tag {dataset.version} of {dataset.repo_id} is never moved, and its "
        "rows never change; later versions keep its sentences in the same configs. Terms are added, corrected and "
        f"relabelled by pull requests to {source}, each with its source, and are published as a new version with a tag "
        "and a list of changes of its own."
    )
