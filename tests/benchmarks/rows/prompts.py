"""Building every prompt of v1.0, from the YAML files to an Arrow table with all columns."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.benchmarks.row import OURS, Row, Side

VOCABULARY = Path(__file__).parents[3] / "hb_dataset" / "vocabulary" / "v1.0"
NOT_AXES = ("nouns", "templates", "seat_templates")
SINGULAR, PLURAL = "{noun_phrase}", "{plural_noun_phrase}"
# All but the ids, which only we make.
COLUMNS = (
    "text",
    "axis",
    "bucket",
    "descriptor",
    "descriptor_gender",
    "preference",
    "placement",
    "noun",
    "noun_gender",
    "noun_phrase",
    "plural",
    "template",
)
NUM_TERMS = 598
SCHEMA = pa.schema([(name, pa.bool_() if name == "plural" else pa.string()) for name in COLUMNS])


def columns_found(table: pa.Table) -> dict[str, np.ndarray]:
    """Every byte of every column as it is in memory: the texts, where each ends, and which are null."""
    found: dict[str, np.ndarray] = {}
    for name in COLUMNS:
        column = table[name].combine_chunks()
        if pa.types.is_boolean(column.type):
            found[name] = column.to_numpy(zero_copy_only=False)
            continue
        _, offsets, data = column.buffers()
        width = np.int64 if pa.types.is_large_string(column.type) else np.int32
        ends = np.frombuffer(offsets, dtype=width)[column.offset : column.offset + len(column) + 1]
        found[name] = np.frombuffer(data or b"", dtype=np.uint8)[ends[0] : ends[-1]]
        found[f"{name}_ends"] = ends
        found[f"{name}_null"] = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
    return found


def number_of_terms(fraction: float) -> int:
    """How many of the terms are taken."""
    return round(fraction * NUM_TERMS)


def by_us(number: int, loaded: None) -> dict[str, np.ndarray]:
    """The vocabulary is read and checked, and frozen content verified; also makes the ids."""
    from hb_dataset.prompt_table import prompt_table
    from hb_dataset.versions import read_version

    vocabulary = read_version("v1.0")
    table = prompt_table(vocabulary.descriptors[:number], vocabulary.nouns, vocabulary.templates)
    return columns_found(table)


def by_python(number: int, loaded: None) -> dict[str, np.ndarray]:
    """Loops over terms, nouns and templates that make a list of rows."""
    descriptors, nouns, templates = _entries(number)
    rows = []
    for descriptor in descriptors:
        term, gender, after = descriptor["term"], descriptor.get("gender"), _stands_after(descriptor)
        for noun in nouns:
            if _disagrees(descriptor, noun):
                continue
            one, many = _phrases(descriptor, noun)
            for template in templates:
                plural = PLURAL in template["template"]
                phrase = many if plural else one
                rows.append(
                    {
                        "text": template["template"].replace(PLURAL if plural else SINGULAR, phrase),
                        "axis": descriptor["axis"],
                        "bucket": descriptor.get("bucket"),
                        "descriptor": term,
                        "descriptor_gender": gender,
                        "preference": descriptor.get("preference"),
                        "placement": "after" if after else "before",
                        "noun": noun["noun"],
                        "noun_gender": noun.get("gender"),
                        "noun_phrase": phrase,
                        "plural": plural,
                        "template": template["template"],
                    }
                )
    return columns_found(pa.Table.from_pylist(rows, SCHEMA))


def by_pandas(number: int, loaded: None) -> dict[str, np.ndarray]:
    """Noun phrases made one by one, and merged with the templates; texts by adding columns."""
    import pandas as pd

    descriptors, nouns, templates = _entries(number)
    phrases = pd.DataFrame(
        [
            {
                "axis": descriptor["axis"],
                "bucket": descriptor.get("bucket"),
                "descriptor": descriptor["term"],
                "descriptor_gender": descriptor.get("gender"),
                "preference": descriptor.get("preference"),
                "placement": "after" if _stands_after(descriptor) else "before",
                "noun": noun["noun"],
                "noun_gender": noun.get("gender"),
                **dict(zip(("one", "many"), _phrases(descriptor, noun), strict=True)),
            }
            for descriptor in descriptors
            for noun in nouns
            if not _disagrees(descriptor, noun)
        ],
        dtype="str",
    )
    slots = pd.DataFrame([{"template": each["template"], "plural": PLURAL in each["template"]} for each in templates])
    parts = slots["template"].str.extract(r"^(?P<before>.*)\{(?:plural_)?noun_phrase\}(?P<behind>.*)$")
    frame = phrases.merge(pd.concat([slots, parts], axis=1), how="cross")
    frame["noun_phrase"] = frame["many"].where(frame["plural"], frame["one"])
    frame["text"] = frame["before"] + frame["noun_phrase"] + frame["behind"]
    return columns_found(pa.Table.from_pandas(frame[list(COLUMNS)], preserve_index=False))


def _entries(number: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """The terms (with their axis), nouns and templates as they are written, read with libyaml."""
    import yaml

    def read(path: Path) -> Any:
        return yaml.load(path.read_text(encoding="utf-8"), yaml.CBaseLoader)

    axes = [path for path in sorted(VOCABULARY.glob("*.yaml")) if path.stem not in NOT_AXES]
    descriptors = [{"axis": path.stem, **term} for path in axes for term in read(path)["terms"]]
    nouns, templates = read(VOCABULARY / "nouns.yaml")["nouns"], read(VOCABULARY / "templates.yaml")["templates"]
    return descriptors[:number], nouns, templates


def _stands_after(descriptor: Mapping[str, Any]) -> bool:
    return descriptor.get("bucket") == "after_the_noun"


def _disagrees(descriptor: Mapping[str, Any], noun: Mapping[str, Any]) -> bool:
    return "gender" in descriptor and descriptor["gender"] != noun.get("gender")


def _phrases(descriptor: Mapping[str, Any], noun: Mapping[str, Any]) -> tuple[str, str]:
    """The singular noun phrase with its article, and the plural one."""
    term = descriptor["term"]
    if _stands_after(descriptor):
        one, many = f"{noun['noun']} {term}", f"{noun['plural']} {descriptor.get('plural', term)}"
    else:
        one, many = f"{term} {noun['noun']}", f"{term} {noun['plural']}"
    article = descriptor.get("article", "an" if one[0] in "aeiouAEIOU" else "a")
    return f"{article} {one}", many


ROW = Row(
    title="Building the prompts of v1.0",
    inputs=number_of_terms,
    work=lambda number: number,
    unit="terms",
    sides={
        OURS: Side(run=by_us, repeats=7),
        "loops over dicts": Side(run=by_python, bar=5.0),
        "pandas, merge": Side(run=by_pandas, bar=5.0),
    },
    notes=lambda found: (
        "from YAML to an Arrow table, imports not counted; ours also checks the vocabulary and makes ids"
    ),
)
