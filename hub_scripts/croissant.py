"""The dataset's Croissant file: JSON-LD that search engines and data loaders read (mlcommons.org/croissant/1.1).

It has the files with their SHA-256, the tables with their columns, and the responsible-AI fields
(mlcommons.org/croissant/RAI/1.0) with the statements of the card. It does not depend on when or where it is written.
"""

import json
from typing import Any

import pyarrow as pa

from hub_scripts.published_dataset import (
    COLUMNS,
    CONTENT_WARNING,
    HOW_CHOSEN,
    LABEL_MEANINGS,
    LEFT_OUT,
    LICENSE_URL,
    MISUSES,
    PAPER_AUTHORS,
    PAPER_URL,
    SOCIAL_IMPACT,
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

CROISSANT = "http://mlcommons.org/croissant/1.1"
RESPONSIBLE_AI = "http://mlcommons.org/croissant/RAI/1.0"
PARQUET = "application/x-parquet"
DATA_TYPES = {pa.string(): "sc:Text", pa.bool_(): "sc:Boolean"}
LABEL_COLUMN = "preference"

# Properties of Croissant under their own names.
_PROPERTIES = (
    *("arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileObject"),
    *("fileProperty", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5"),
    *("parentField", "path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate", "separator"),
    *("source", "subField", "transform"),
)
# That of the specification (its appendix 1), with the prefix of provenance. A test compares it with mlcroissant's own;
# mlcroissant itself is not used here, since it would draw rdflib, networkx and scipy into every installation.
CONTEXT = dict(
    sorted(
        {
            **{name: f"cr:{name}" for name in _PROPERTIES},
            "@language": "en",
            "@vocab": "https://schema.org/",
            "conformsTo": "dct:conformsTo",
            "cr": "http://mlcommons.org/croissant/",
            "data": {"@id": "cr:data", "@type": "@json"},
            "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
            "dct": "http://purl.org/dc/terms/",
            "description": {"@container": "@language"},
            "examples": {"@id": "cr:examples", "@type": "@json"},
            "name": {"@container": "@language"},
            "prov": "http://www.w3.org/ns/prov#",
            "rai": "http://mlcommons.org/croissant/RAI/",
            "sc": "https://schema.org/",
        }.items()
    )
)


def croissant_json(dataset: PublishedDataset) -> str:
    """Writes the Croissant file.

    Args:
        dataset: The version with its configs.

    Returns:
        JSON-LD; the same for the same content and `HF_ENDPOINT`, which begins the addresses of the files.
    """
    return json.dumps(croissant(dataset), indent=2, ensure_ascii=False) + "\n"


def croissant(dataset: PublishedDataset) -> dict[str, Any]:
    """The Croissant description as a JSON object. See `croissant_json`."""
    from huggingface_hub import constants

    from hb_dataset.prompts import CITATION

    url = f"{constants.ENDPOINT}/datasets/{dataset.repo_id}"
    described = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": "HolisticBias",
        "conformsTo": [CROISSANT, RESPONSIBLE_AI],
        "description": summary(dataset),
        "version": f"{dataset.version.removeprefix('v')}.0",
        "url": url,
        "license": LICENSE_URL,
        "citeAs": CITATION.strip(),
        "creator": [{"@type": "sc:Person", "name": name} for name in PAPER_AUTHORS],
        "publisher": {"@type": "sc:Organization", "name": dataset.repo_id.split("/")[0]},
        "inLanguage": "en-US",
        "isLiveDataset": False,
        "keywords": ["bias", "fairness", "language models", "evaluation", "demographic terms", "holistic bias"],
        "prov:wasDerivedFrom": {"@id": PAPER_URL},
        **_responsible_ai(dataset),
        "distribution": [_file_object(config, f"{url}/resolve/{dataset.version}") for config in dataset.all_configs],
        "recordSet": [_record_set(config) for config in dataset.all_configs],
    }
    if dataset.date is not None:
        described["datePublished"] = dataset.date
    return described


def _responsible_ai(dataset: PublishedDataset) -> dict[str, Any]:
    labels = dataset.terms_by_label
    return {
        "rai:dataCollection": " ".join(HOW_CHOSEN),
        "rai:dataCollectionType": ["Manual Human Curator", "Self-reporting", "Software Collection"],
        "rai:dataCollectionMissingData": (
            "Null means: no bucket, no label, no gender, no override of the article, no plural of its own, no remark."
        ),
        "rai:dataCollectionRawData": (
            "The vocabulary: terms, person nouns and templates that people write in YAML, published as the configs "
            "descriptors, nouns and templates."
        ),
        "rai:dataPreprocessingProtocol": [
            "Typographic quotes are written as straight ones; articles and plurals are written out.",
            "No sentence was filtered out after it was made; a term for one gender is combined with nouns of that "
            "gender.",
            *([LEFT_OUT.format(number=dataset.num_left_out)] if dataset.num_left_out > 0 else []),
        ],
        "rai:dataAnnotationProtocol": (
            "Reviewers with experience of a term labelled it: "
            + "; ".join(f"{label}: {meaning}" for label, meaning in LABEL_MEANINGS.items())
            + ". Entries: "
            + ", ".join(f"{labels[label]:,} {label}" for label in LABEL_MEANINGS)
            + "."
        ),
        "rai:dataAnnotationAnalysis": [
            "One label summarises the views of several people, and disagreement is a label of its own (polarizing). "
            "The number of people who labelled a term is not recorded.",
        ],
        "rai:annotationsPerItem": f"At most one label per term and axis; {labels[UNLABELLED]:,} entries have none.",
        "rai:annotatorDemographics": [
            "More than two dozen people, among them experts in inclusive research, racial justice and the language of "
            "disability, and Black, Latinx, Asian American and Pacific Islander and LGBTQ+ people."
        ],
        "rai:dataBiases": biases(dataset),
        "rai:dataLimitations": [*limitations(dataset), *(f"Not intended: {misuse}" for misuse in MISUSES)],
        "rai:dataUseCases": list(USES),
        "rai:dataSocialImpact": SOCIAL_IMPACT,
        "rai:personalSensitiveInformation": [sensitive_information(dataset), CONTENT_WARNING],
        "rai:dataReleaseMaintenancePlan": maintenance(dataset),
    }


def _file_object(config: PublishedConfig, folder: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": config.path,
        "name": config.path,
        "description": f"All rows of the config {config.name}.",
        "contentUrl": f"{folder}/{config.path}",
        "contentSize": f"{len(config.parquet)} B",
        "encodingFormat": PARQUET,
        "sha256": config.sha256,
    }


def _record_set(config: PublishedConfig) -> dict[str, Any]:
    def field_id(column: str) -> str:
        return f"{config.name}/{column}"

    fields = []
    for column in config.table.schema:
        data_type = DATA_TYPES[column.type]
        fields.append(
            {
                "@type": "cr:Field",
                "@id": field_id(column.name),
                "name": column.name,
                "description": COLUMNS[column.name],
                "dataType": [data_type, "cr:Label"] if column.name == LABEL_COLUMN else data_type,
                "source": {"fileObject": {"@id": config.path}, "extract": {"column": column.name}},
            }
        )
    key = [{"@id": field_id(column)} for column in config.key]
    return {
        "@type": "cr:RecordSet",
        "@id": config.name,
        "name": config.name,
        "description": f"{config.description} {config.table.num_rows:,} records.",
        "key": key[0] if len(key) == 1 else key,
        "field": fields,
    }
