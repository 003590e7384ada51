"""Provides the vocabulary and its prompts, without models or torch. Names are imported when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hb_dataset.bias_specification import BiasSpecification, TargetPair, read_specification, specification_names
    from hb_dataset.counterfactuals import counterfactual, terms_in
    from hb_dataset.prompt_groups import Pair, PromptGroup, find_groups, read_groups
    from hb_dataset.prompt_table import descriptor_noun_spans
    from hb_dataset.prompts import CONFIGS, intersection_batches, load_table
    from hb_dataset.reddit_bias import load_reddit_bias
    from hb_dataset.structured_prompts import STRUCTURED_SCHEMA, structured_prompt_table
    from hb_dataset.vocabulary import Vocabulary, read_vocabulary
    from hb_dataset.vocabulary_entries import Descriptor, PersonNoun, Template
    from hb_dataset.yaml_lines import FaultsError

_MODULES = {
    "BiasSpecification": "hb_dataset.bias_specification",
    "TargetPair": "hb_dataset.bias_specification",
    "read_specification": "hb_dataset.bias_specification",
    "specification_names": "hb_dataset.bias_specification",
    "counterfactual": "hb_dataset.counterfactuals",
    "terms_in": "hb_dataset.counterfactuals",
    "Pair": "hb_dataset.prompt_groups",
    "PromptGroup": "hb_dataset.prompt_groups",
    "find_groups": "hb_dataset.prompt_groups",
    "read_groups": "hb_dataset.prompt_groups",
    "descriptor_noun_spans": "hb_dataset.prompt_table",
    "CONFIGS": "hb_dataset.prompts",
    "intersection_batches": "hb_dataset.prompts",
    "load_table": "hb_dataset.prompts",
    "load_reddit_bias": "hb_dataset.reddit_bias",
    "STRUCTURED_SCHEMA": "hb_dataset.structured_prompts",
    "structured_prompt_table": "hb_dataset.structured_prompts",
    "Vocabulary": "hb_dataset.vocabulary",
    "read_vocabulary": "hb_dataset.vocabulary",
    "Descriptor": "hb_dataset.vocabulary_entries",
    "PersonNoun": "hb_dataset.vocabulary_entries",
    "Template": "hb_dataset.vocabulary_entries",
    "FaultsError": "hb_dataset.yaml_lines",
}

__all__ = [
    "CONFIGS",
    "STRUCTURED_SCHEMA",
    "BiasSpecification",
    "Descriptor",
    "FaultsError",
    "Pair",
    "PersonNoun",
    "PromptGroup",
    "TargetPair",
    "Template",
    "Vocabulary",
    "counterfactual",
    "descriptor_noun_spans",
    "find_groups",
    "intersection_batches",
    "load_reddit_bias",
    "load_table",
    "read_groups",
    "read_specification",
    "read_vocabulary",
    "specification_names",
    "structured_prompt_table",
    "terms_in",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'hb_dataset' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)
