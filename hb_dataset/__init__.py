"""Provides the vocabulary and its prompts, without models or torch. Names are imported when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hb_dataset.counterfactuals import counterfactual as counterfactual
    from hb_dataset.prompt_groups import find_groups as find_groups
    from hb_dataset.prompt_table import descriptor_noun_spans as descriptor_noun_spans
    from hb_dataset.prompts import CONFIGS as CONFIGS
    from hb_dataset.prompts import intersection_batches as intersection_batches
    from hb_dataset.prompts import load_table as load_table
    from hb_dataset.reddit_bias import load_reddit_bias as load_reddit_bias
    from hb_dataset.structures import structured_prompt_table as structured_prompt_table
    from hb_dataset.vocabulary import read_vocabulary as read_vocabulary
    from hb_dataset.vocabulary_entries import Descriptor as Descriptor
    from hb_dataset.vocabulary_entries import PersonNoun as PersonNoun
    from hb_dataset.vocabulary_entries import Template as Template
    from hb_dataset.yaml_lines import FaultsError as FaultsError

_NAMES = {
    "counterfactuals": ("counterfactual",),
    "prompt_groups": ("find_groups",),
    "prompt_table": ("descriptor_noun_spans",),
    "prompts": ("CONFIGS", "intersection_batches", "load_table"),
    "reddit_bias": ("load_reddit_bias",),
    "structures": ("structured_prompt_table",),
    "vocabulary": ("read_vocabulary",),
    "vocabulary_entries": ("Descriptor", "PersonNoun", "Template"),
    "yaml_lines": ("FaultsError",),
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"hb_dataset.{module}"), name)
    raise AttributeError(f"module 'hb_dataset' has no attribute '{name}'")
