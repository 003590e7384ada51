"""What can be asked of `measure.py`: its options, read from the command line and from YAML, and checked."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

import yaml
from transformers import HfArgumentParser

from hb_dataset.hints import did_you_mean

MEASUREMENTS = ("likelihood", "generation", "offensiveness", "robustness", "dialogue", "reddit", "regard")
# What is measured without being asked for. Real dialogue says how well a model talks, not how biased it is; the data of
# RedditBias do not come with this project; regard has prompts of its own, and robustness is asked of other figures.
DEFAULT_MEASUREMENTS = ("likelihood", "generation", "offensiveness")

_FILES = ("personas_file", "style_clusters", "phrases_file", "frequencies", "dialogue_file", "reference_texts")

# torch and the model classes take seconds to import: not before the options are known to be right.


@dataclass
class MeasureArguments:
    """What to measure, and how. All of it is recorded in run.json."""

    model: str = field(default="embedded", metadata={"help": "Hub id, local folder, or 'embedded'."})
    measurements: str | None = field(
        default=None,
        metadata={
            "help": "Which of likelihood,generation,offensiveness,robustness,dialogue,reddit,regard, with commas. "
            "Default: the first three, as far as the model can; masked models give no replies. robustness asks how "
            "far Likelihood Bias and Full Gen Bias hang on the templates, and measures both."
        },
    )
    dataset_config: str = field(
        default="v1.0-small",
        metadata={
            "help": "A version of the prompts: all (v1.0), a stratified sample (v1.0-small), or the SEAT sentences the "
            "paper has for masked models (v1.0-seat); of the next version (next, next-small, …) also pairs of terms "
            "(next-intersections)."
        },
    )
    vocabulary_dir: str | None = field(
        default=None, metadata={"help": "A vocabulary folder of your own; default: that of the config's version."}
    )
    axes: list[str] | None = field(
        default=None, metadata={"help": "Only these demographic axes, e.g. ability age. Default: all.", "nargs": "+"}
    )
    output_dir: str | None = field(
        default=None,
        metadata={
            "help": "The run folder; default: runs/<model>-<dataset_config>, and what was asked for beside defaults."
        },
    )
    revision: str | None = field(default=None, metadata={"help": "Branch, tag or commit of a Hub id."})
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = field(
        default="auto",
        metadata={"help": "auto (float32 on CPU, else the checkpoint's own), float32, bfloat16 or float16."},
    )
    seed: int = field(
        default=0, metadata={"help": "Of all that is drawn: prompts, persona lines, sampling, resamples."}
    )
    trust_remote_code: bool = field(
        default=False, metadata={"help": "Whether code that comes with a model may run here."}
    )

    # Likelihood
    scoring: Literal["auto", "tree", "padded"] = field(
        default="auto",
        metadata={"help": "auto, tree or padded: how a causal model is run; same numbers but for rounding."},
    )
    max_positions: int | None = field(
        default=None, metadata={"help": "Tokens scored at once; bounds the memory. Default: 512."}
    )
    add_start_token: bool | None = field(
        default=None, metadata={"help": "Feed BOS before each sentence; default: if the tokenizer has one."}
    )
    encoder_context: str = field(
        default="", metadata={"help": "What the encoder of an encoder-decoder model is given when scoring."}
    )
    alpha: float = field(default=0.05, metadata={"help": "Significance level of one test."})
    include_gendered: bool = field(
        default=True, metadata={"help": "Whether terms for one gender only take part; the published code says no."}
    )

    # Generation
    replies_per_cell: int | None = field(
        default=8,
        metadata={"help": "Replies for each term in each template; 0: one to every prompt. The paper has about 16."},
    )
    context: Literal["auto", "plain", "dialogpt", "chat", "blenderbot"] = field(
        default="auto", metadata={"help": "How a prompt becomes what the model is given. Default: what suits it."}
    )
    tag: Literal["auto", "bias", "no_bias", "none"] = field(
        default="auto",
        metadata={"help": "The control tag of bias tuning that prompts end in; default: what the model's folder says."},
    )
    decoding: str = field(
        default="sample",
        metadata={"help": "sample (for a quick look), greedy, dialogpt or blenderbot2 (the paper's beam searches)."},
    )
    num_beams: int | None = field(default=None, metadata={"help": "Instead of the decoding's own."})
    temperature: float | None = field(default=None, metadata={"help": "Instead of the decoding's own."})
    top_k: int | None = field(default=None, metadata={"help": "Instead of the decoding's own."})
    top_p: float | None = field(default=None, metadata={"help": "Instead of the decoding's own."})
    min_new_tokens: int | None = field(default=None, metadata={"help": "Instead of the decoding's own."})
    max_new_tokens: int | None = field(default=None, metadata={"help": "Instead of the decoding's own."})
    personas: int = field(default=0, metadata={"help": "Persona lines before each prompt; the paper has 2."})
    personas_file: str | None = field(
        default=None,
        metadata={"help": "YAML with persona sentences of your own; default: 160 written for this project."},
    )
    variations: bool = field(
        default=False,
        metadata={"help": "Mix the paper's stylistic variations (A.3) into the prompts that are replied to."},
    )
    batch_size: int | None = field(
        default=None, metadata={"help": "Prompts replied to at once; default: what memory allows. Changes no reply."}
    )
    style_classifier: str = field(
        default="embedded", metadata={"help": "Hub id or local folder of a sequence classifier, or 'embedded'."}
    )
    style_clusters: str | None = field(
        default=None,
        metadata={"help": "YAML with the clusters of its labels; default: shipped for 217 styles and GoEmotions."},
    )
    style_precision: Literal["float32", "float16"] = field(
        default="float32", metadata={"help": "How style vectors are stored: float32 or float16."}
    )
    phrases_file: str | None = field(
        default=None,
        metadata={"help": "YAML `heading: [phrase, …]` to count in replies; default: the paper's Table 14."},
    )
    n_resamples: int = field(
        default=1000, metadata={"help": "Resamples behind the interval of the dialogue perplexity; 0: no interval."}
    )
    confidence_level: float = field(default=0.95, metadata={"help": "Of the intervals."})
    frequencies: str | None = field(
        default=None,
        metadata={
            "help": "CSV of `python -m hb_dataset.frequency` with the descriptors' frequency in the training data; "
            "default: in a chit-chat corpus."
        },
    )

    # Offensiveness
    offensiveness_classifier: str = field(
        default="embedded", metadata={"help": "Hub id or local folder of a sequence classifier, or 'embedded'."}
    )
    offensive_label: str | None = field(
        default=None, metadata={"help": "Its label that means offensive, or several with commas; default: by its name."}
    )

    # Dialogue
    dialogue_file: str | None = field(
        default=None,
        metadata={
            "help": "CSV, JSON lines or Parquet with columns prompt and reply, what real people said; default: the "
            "chitchat-dataset corpus."
        },
    )
    dialogue_replies: int = field(default=500, metadata={"help": "How many of its replies are scored."})

    # RedditBias
    reddit_folder: str | None = field(
        default=None,
        metadata={
            "help": "The authors' RedditBias repository, or a folder with one for each bias type: their files, or "
            "train, validation and test as .csv or .txt."
        },
    )
    bias_type: list[str] | None = field(
        default=None,
        metadata={
            "help": "Which bias types of it, e.g. race gender; also the path of a specification of your own.",
            "nargs": "+",
        },
    )
    reddit_split: Literal["test", "validation"] = field(
        default="test", metadata={"help": "Which of its pairs: test or validation."}
    )
    reddit_pairs: Literal["auto", "published", "word"] = field(
        default="auto",
        metadata={"help": "How pairs are made: as published, in whole words, or (auto) by the folder's layout."},
    )
    reddit_outliers: Literal["none", "pair"] = field(
        default="none",
        metadata={
            "help": "pair: leave out pairs beyond three standard deviations, as the paper does. A test of the others "
            "finds a difference in 8 to 17 %% (alpha 0.05) where there is none. The published test pairs are filtered."
        },
    )
    reference_texts: str | None = field(
        default=None,
        metadata={
            "help": "Texts that LMP is measured on: one a line (.txt), or CSV, JSON lines or Parquet with a column "
            "text; default: replies of the chitchat-dataset corpus."
        },
    )
    num_reference_texts: int | None = field(
        default=None, metadata={"help": "How many of them. Default: 500 of the corpus, all of a file."}
    )

    # Regard
    regard_groups: list[str] | None = field(
        default=None,
        metadata={
            "help": "Whom the prompts are about: a YAML file with groups and pairs, or terms of the vocabulary, e.g. "
            "'Deaf person' 'able-bodied person'. Default: the paper's six groups in three pairs.",
            "nargs": "+",
        },
    )
    regard_pairs: list[str] | None = field(
        default=None,
        metadata={
            "help": "Which of them are compared, as advantaged:disadvantaged, e.g. 'able-bodied person:Deaf person'. "
            "Default: the pairs of the file, or the paper's.",
            "nargs": "+",
        },
    )
    regard_structures: Literal["all", "fixed"] = field(
        default="all", metadata={"help": "all: prompts in 101 syntactic structures; fixed: the fixed prompts only."}
    )
    regard_continuations: int = field(
        default=6,
        metadata={
            "help": "Continuations for each group in each structure, the same verb phrases for all groups; 0: all "
            "(verb phrases x seeds). Fixed prompts always have all."
        },
    )
    regard_seeds: int = field(
        default=10,
        metadata={"help": "Continuations of the same prompt at most; with fewer than 5, no interval over seeds."},
    )
    regard_temperature: float = field(default=0.7, metadata={"help": "Of sampling."})
    regard_top_k: int = field(default=40, metadata={"help": "Of sampling."})
    regard_max_tokens: int = field(default=40, metadata={"help": "Of prompt and continuation together."})
    regard_classifier: str = field(
        default="embedded", metadata={"help": "Hub id or local folder of a sequence classifier, or 'embedded'."}
    )
    regard_labels: str | None = field(
        default=None,
        metadata={
            "help": "What its labels mean, where they do not say so themselves: LABEL_0=negative,LABEL_1=neutral,…"
        },
    )
    regard_mask: bool = field(
        default=True, metadata={"help": "Whether the classifier sees XYZ instead of the group's name."}
    )
    regard_other: Literal["drop", "neutral", "keep"] = field(
        default="drop",
        metadata={
            "help": "Texts with the label other are left out (drop), count as neutral, or are a class of their own "
            "(keep) that takes no part in means."
        },
    )
    regard_smoothing: float | None = field(
        default=None,
        metadata={"help": "Added to each class before KL divergence; without it a group that lacks a class has none."},
    )
    paraphraser: str | None = field(
        default=None,
        metadata={
            "help": "Hub id or local folder of a sequence-to-sequence model in AESOP's form, which then writes the "
            "structured prompts instead of the grammar."
        },
    )

    def __post_init__(self) -> None:
        """Refuses what would otherwise fail only after the model has run."""
        _check_dataset_config(self.dataset_config)
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha is {self.alpha}; give a number between 0 and 1, such as 0.05")
        if not 0 < self.confidence_level < 1:
            raise ValueError(
                f"confidence_level is {self.confidence_level}; give a number between 0 and 1, such as 0.95"
            )
        if self.output_dir is not None and Path(self.output_dir).is_file():
            raise ValueError(f"output_dir '{self.output_dir}' is a file; give a folder, which may be new")
        lowest = {
            "max_positions": 1,
            "replies_per_cell": 0,
            "personas": 0,
            "batch_size": 1,
            "n_resamples": 0,
            "seed": 0,
            "dialogue_replies": 1,
            "num_reference_texts": 1,
            "regard_continuations": 0,
            "regard_seeds": 1,
            "regard_top_k": 1,
            "regard_max_tokens": 2,
        }
        for name, least in lowest.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}; give at least {least}")
        for name in _FILES:
            value = getattr(self, name)
            if value is not None and not Path(value).is_file():
                raise ValueError(f"{name} '{value}' is not a file; give the path of one, or leave it out")
        if not self.regard_temperature > 0:
            raise ValueError(f"regard_temperature is {self.regard_temperature}; give more than 0, such as 0.7")
        if self.regard_smoothing is not None and not self.regard_smoothing > 0:
            raise ValueError(f"regard_smoothing is {self.regard_smoothing}; give more than 0, or leave it out")
        if "reddit" in (self.asked_measurements() or ()):
            _check_reddit(self.reddit_folder, self.bias_type)

    def asked_measurements(self) -> tuple[str, ...] | None:
        """The measurements asked for, each once; `None`: all that the model can.

        Raises:
            ValueError: One is not known, or there is none.
        """
        if self.measurements is None:
            return None
        asked = [name.strip() for name in self.measurements.split(",")]
        for name in asked:
            if name not in MEASUREMENTS:
                hint = did_you_mean(name, MEASUREMENTS)
                raise ValueError(f"measurement '{name}' is not known; {hint}allowed: {', '.join(MEASUREMENTS)}")
        return tuple(name for name in MEASUREMENTS if name in asked)


def parse_arguments(argv: list[str], description: str = "") -> MeasureArguments:
    """Reads the command line, and under it the YAML file given with `--config`."""
    parser = HfArgumentParser(MeasureArguments, description=description, allow_abbrev=False)
    parser.add_argument("--config", type=Path, help="A YAML file with any of these options.")
    config = parser.parse_args(argv).config
    options: list[str] = []
    if config is not None:
        try:
            content = yaml.safe_load(config.read_text(encoding="utf-8")) or {}
        except (OSError, yaml.YAMLError) as error:
            parser.error(f"--config {config}: {error}")
        if not isinstance(content, dict):
            parser.error(f"--config {config}: write `option: value` lines")
        known = [option.name for option in fields(MeasureArguments)]
        for name, value in content.items():
            if name not in known:
                parser.error(f"--config {config}: unknown option '{name}'; allowed: {', '.join(known)}")
            if isinstance(value, list) and name == "measurements":
                options.append(f"--{name}={','.join(map(str, value))}")
            elif isinstance(value, list):
                options += [f"--{name}", *map(str, value)]
            elif value is not None:
                options.append(f"--{name}={value}")
    parsed = parser.parse_args([*options, *argv])
    del parsed.config
    return MeasureArguments(**vars(parsed))


def _check_reddit(folder: str | None, bias_types: list[str] | None) -> None:
    if folder is None:
        raise ValueError("measurement 'reddit' needs --reddit_folder, the folder of the RedditBias data")
    if not Path(folder).is_dir():
        raise ValueError(f"reddit_folder '{folder}' is not a folder; give that of the RedditBias data")
    if not bias_types:
        raise ValueError("measurement 'reddit' needs --bias_type, one or more, such as race gender")


def _check_dataset_config(config: str) -> None:
    from hb_dataset.prompts import measured_configs

    allowed = measured_configs()
    if config not in allowed:
        hint = did_you_mean(config, allowed)
        raise ValueError(f"dataset_config '{config}' cannot be measured; {hint}allowed: {', '.join(allowed)}")
