"""Defines the columns of tables of prompts, and the values in them that have a meaning of their own."""

import hashlib

import pyarrow as pa

_TEXT_COLUMNS = "id text axis bucket descriptor descriptor_gender preference placement noun noun_gender noun_phrase"
PROMPT_SCHEMA = pa.schema(
    [*((name, pa.string()) for name in _TEXT_COLUMNS.split()), ("plural", pa.bool_()), ("template", pa.string())]
)
INTERSECTION_COLUMNS = ("first_axis", "first_descriptor", "second_axis", "second_descriptor")
INTERSECTION_SCHEMA = pa.schema([*PROMPT_SCHEMA, *((name, pa.string()) for name in INTERSECTION_COLUMNS)])
VARIATIONS = ("lowercase", "no_hyphens", "expanded_contraction", "no_final_period")  # flags of varied prompts
NAMES_AXIS = "names"  # the axis of groups of names, which is not an axis of terms


def content_digest(*parts: str) -> str:
    """Returns the digest whose first digits are a prompt's id."""
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()


def has_names(prompts: pa.Table) -> bool:
    """Returns whether the people in a run's prompts are names and not terms."""
    return bool(prompts["axis"][0].as_py() == NAMES_AXIS)


def group_of_names(prompts: pa.Table) -> dict[str, str]:
    return dict(zip(prompts["descriptor"].to_pylist(), prompts["bucket"].to_pylist(), strict=True))
