"""Provides the vocabulary and its prompts, without models or torch."""

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
