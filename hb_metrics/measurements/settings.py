import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from hb_dataset.command_line import check_known
from hb_dataset.table_files import parse_json

T = TypeVar("T")

ENGINES = ("base_url", "provider", "replies_file", "logprobs_file")
OF_LOADED = ("revision", "adapter", "device_map", "dtype")
# These options do not affect the results.
CHANGE_NOTHING = frozenset(
    {"output_dir", "show", "device_map", "concurrency", "base_url", "judge_base_url", "fail_above"}
)

# The options that --quick changes. With 4 replies, a quarter of the runs on the small config have no interval.
QUICK = {"replies_per_cell": 5}


def option(default: Any, help: str, **more: Any) -> Any:
    """Makes a field of an options dataclass. `const` is the value of an option that is set without a value."""
    return field(default=default, metadata={"help": help, **more})


@dataclass
class RunOptions:
    model: str = option("embedded", "The model to measure: a Hub id, a local folder, or 'embedded'.")
    base_url: str | None = option(
        None,
        "The address of a server that runs the model, e.g. http://localhost:8000/v1. Any OpenAI-compatible server "
        "works, such as vLLM, TGI, llama.cpp or transformers serve. Set --model to the name under which the server "
        "offers the model, and set the API key in the environment variable HOLISTIC_BIAS_API_KEY.",
    )
    provider: str | None = option(
        None,
        "The Inference Provider that runs the model, or 'auto'. With this option, --model must be a Hub id. Set the "
        "API key in the environment variable HOLISTIC_BIAS_API_KEY or HF_TOKEN.",
    )
    concurrency: int = option(8, "The number of simultaneous requests to a served model.")
    measurements: str | None = option(
        None,
        "The measurements to run, separated by commas. The end of this help text lists all measurements and the "
        "default. Measurements that need replies do not work with masked models.",
    )
    dataset_config: str = option(
        "v1.0-small",
        "The prompts to measure: all prompts of the paper's vocabulary (v1.0), a stratified sample of them "
        "(v1.0-small), or the paper's SEAT sentences for masked models (v1.0-seat). The authors' later vocabulary "
        "(v1.1) and the next version (next) have the same configs, such as next-small. The next version also has "
        "prompts with pairs of terms (next-intersections).",
    )
    prompts: str | None = option(
        None,
        "Your own prompts in place of those of --dataset_config: a file (.csv, .jsonl or .parquet) with the column "
        "prompt, or a dataset on the Hub (org/dataset:split). Prompts may have the slots {person}, {people}, {name}, "
        "{they}, {them}, {their}, {theirs} and {themself}. If they have none, set --cue. The terms come from "
        "--dataset_config.",
    )
    replace: list[str] | None = option(
        None, "Phrases in your own prompts to replace with {person}, e.g. 'the applicant'."
    )
    show: int | None = option(
        None, "Print this number of prompts, and exit before a model is loaded. Without a number: 5.", const=5
    )
    vocabulary_dir: str | None = option(
        None,
        "The folder of your own vocabulary. Default: the vocabulary of the config's version.",
    )
    axes: list[str] | None = option(
        None,
        "Measure only these demographic axes, e.g. ability age. Default: all.",
    )
    terms: str | None = option(
        None,
        "Measure only these terms, separated by commas, e.g. 'Deaf,blind,autistic'. They may be any terms of the "
        "vocabulary, even if --dataset_config is a small config. With --prompts, write a new term after its axis "
        "('ability:hearing'). To compare terms of several axes, give them a new axis ('people:Deaf,people:Black').",
    )
    sample: int | None = option(
        None,
        "Measure only this number of prompts, drawn at random and balanced over terms, axes and templates. With the "
        "same seed, a larger sample contains all prompts of a smaller one. Default: all prompts; for awareness, 500 of "
        "each kind.",
    )
    replies_file: str | None = option(
        None,
        "A file of replies to the exported prompts, by any model or by people (.parquet, .jsonl or .csv, with the "
        "columns id and reply). Then no model is loaded, and --model is only a name for the source.",
    )
    logprobs_file: str | None = option(
        None,
        "A file of log-probabilities of the exported prompts (.parquet, .jsonl or .csv, with the columns id, "
        "log_probability and num_tokens). Each log-probability is summed over a prompt's tokens, in natural "
        "logarithms. Then no model is loaded, and --model is only a name for the source.",
    )
    fail_above: str | None = option(
        None,
        "Upper limits for figures, e.g. full_gen_bias=12,offensive_replies=0.02. The command exits with status 3 if "
        "the upper end of a figure's interval exceeds its limit. For figures that never have an interval, the limit "
        "applies to the value.",
    )
    output_dir: str | None = option(
        None,
        "The folder for the run. Default: runs/<model>-<dataset_config>, followed by the value of --measurements and "
        "a digest of all other non-default options.",
    )
    revision: str | None = option(None, "The branch, tag or commit of the model on the Hub.")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = option(
        "auto",
        "The data type of the model's weights: auto (float32 on CPU, otherwise the checkpoint's type), float32, "
        "bfloat16 or float16.",
    )
    device_map: Literal["auto", "balanced", "balanced_low_0", "sequential"] | None = option(
        None,
        "Distribute a model over all devices of the machine: auto, balanced, balanced_low_0 or sequential, as in "
        "transformers. Default: each process loads the whole model.",
    )
    adapter: str | None = option(
        None,
        "A PEFT adapter (such as LoRA) to load on top of the model: a local folder, a Hub id, or id@revision.",
    )
    seed: int = option(0, "The random seed for selecting prompts and persona lines, sampling and resampling.")
    trust_remote_code: bool = option(False, "Allow Python code supplied with a model to run on this machine.")
    context: Literal["auto", "plain", "dialogpt", "chat", "blenderbot"] = option(
        "auto",
        "The layout of a prompt's context. Default: the layout that suits the model.",
    )
    tag: Literal["auto", "bias", "no_bias", "none"] = option(
        "auto",
        "The control tag to append to each prompt, for models that were tuned with such tags. Default: the tag that is "
        "recorded in the model's folder, if there is one.",
    )
    chat_template_kwargs: str | None = option(
        None,
        "Variables for the model's chat template, as a JSON object. For example, '{\"enable_thinking\": false}' "
        "turns thinking off.",
    )
    system_prompt: str | None = option(
        None,
        "The system message of every chat. Any persona lines follow this message. Default: the chat template's own "
        "message.",
    )
    max_reasoning_tokens: int | None = option(
        None,
        "The maximum number of tokens that a chat model may use for thinking. If the model exceeds this number for a "
        "prompt, the prompt gets no reply. Default: 2048 for models that think.",
    )
    judge_model: str = option(
        "embedded",
        "The language model for --judge RUBRIC, and for judge:RUBRIC in place of a classifier: a Hub id, a local "
        "folder, 'embedded' (a poor judge), or the judge's name on its server.",
    )
    judge_base_url: str | None = option(
        None,
        "The address of the server that runs the judge, e.g. http://localhost:8000/v1. Default: the judge is loaded on "
        "this machine.",
    )
    quick: bool = option(
        False,
        "Generate only 5 replies per cell (a term in a template), for a quick trial. --replies_per_cell overrides this "
        "number. A loaded model also decides 8 questions about people.",
    )

    def __post_init__(self) -> None:
        from hb_dataset.own_prompts import check_without_slots
        from hb_dataset.prompts import measured_configs

        check_without_slots("system_prompt", self.system_prompt)
        config = self.dataset_config
        check_known(config, measured_configs(), f"dataset_config '{config}' does not exist or cannot be measured")
        check_least(self, seed=0, sample=1, concurrency=1, max_reasoning_tokens=0, show=1)
        if self.replace is not None and self.prompts is None:
            raise ValueError("replace is set, but prompts is not; set --prompts to your own prompts, or omit --replace")
        if self.term_list == []:
            raise ValueError("terms is empty; set terms separated by commas, such as 'Deaf,blind', or omit --terms")
        check_files(self, "replies_file", "logprobs_file")
        self._check_engine()
        if self.chat_template_kwargs is not None:
            self.chat_template_kwargs = _json_object("chat_template_kwargs", self.chat_template_kwargs)

    @property
    def term_list(self) -> list[str] | None:
        return None if self.terms is None else [term for term in self.terms.split(",") if term.strip()]

    @property
    def is_served(self) -> bool:
        return self.base_url is not None or self.provider is not None

    def _check_engine(self) -> None:
        if self.base_url is not None:
            self.base_url = check_address(self.base_url)
        if self.judge_base_url is not None:
            self.judge_base_url = check_address(self.judge_base_url)
            if self.judge_model == type(self).judge_model:
                raise ValueError(
                    f"judge_base_url is set, but judge_model is '{self.judge_model}', which runs only on this machine; "
                    "set --judge_model to the judge's name on the server"
                )
        sources = [name for name in ENGINES if getattr(self, name) is not None]
        if len(sources) > 1 and sources != ["replies_file", "logprobs_file"]:
            raise ValueError(f"{' and '.join(sources)} are both set; set only one of them")
        if self.concurrency != type(self).concurrency and not self.is_served and self.judge_base_url is None:
            raise ValueError("concurrency applies only to served models; set --base_url or --provider, or omit it")
        if not sources:
            return
        if self.model == type(self).model:
            raise ValueError(
                f"{sources[0]} is set, but model is '{self.model}', which runs only on this machine; set --model to "
                "the model's name on the server or the Hub. If the answers come from a file, set --model to any name "
                "for their source"
            )
        for name in OF_LOADED:
            if getattr(self, name) != getattr(type(self), name):
                raise ValueError(f"{name} applies only to loaded models, but {sources[0]} is set; omit --{name}")

    def chat(self) -> dict[str, Any]:
        return {
            "template_kwargs": json.loads(self.chat_template_kwargs or "{}"),
            "system_prompt": self.system_prompt,
        }


@dataclass(frozen=True)
class Settings:
    run: RunOptions
    parts: tuple[Any, ...]

    def of(self, options: type[T]) -> T:
        return next(part for part in self.parts if isinstance(part, options))

    def values(self) -> dict[str, Any]:
        return {name: value for part in (self.run, *self.parts) for name, value in asdict(part).items()}

    def defaults(self) -> dict[str, object]:
        defaults = {option.name: option.default for part in (self.run, *self.parts) for option in fields(part)}
        return defaults | (QUICK if self.run.quick else {})


def make_settings(kinds: tuple[type, ...], values: Mapping[str, object]) -> Settings:
    """Checks the options in `values`, and adds the other options of `kinds` (dataclasses) with their defaults."""
    names = {kind: [option.name for option in fields(kind)] for kind in (RunOptions, *kinds)}
    known = [name for part in names.values() for name in part]
    for name in values:
        check_known(name, known, f"option '{name}' is not known")
    run, *parts = (kind(**{name: values[name] for name in part if name in values}) for kind, part in names.items())
    return Settings(run, tuple(parts))


def check_address(url: str) -> str:
    """Returns the address without white space around it, and without a slash at its end.

    Raises:
        ValueError: The address is not valid, or contains a user, a password, a query or a fragment.
    """
    url = url.strip().rstrip("/")
    if any(sign in url for sign in "@?#"):  # the message does not show the address
        raise ValueError(
            "base_url contains a user name, a password, a query or a fragment, which the run would record; remove it, "
            "and set the environment variable HOLISTIC_BIAS_API_KEY to the key"
        )
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and " " not in url
    except ValueError:  # the port is not a number, or a bracket is open
        is_valid = False
    if not is_valid:
        raise ValueError(f"base_url '{url}' is not valid; pass an address such as http://localhost:8000/v1")
    return url


def _json_object(name: str, text: str) -> str:
    """Returns a JSON object in canonical form, so that different spellings of the same object are equal."""
    try:
        content = parse_json(text)
        if not isinstance(content, dict):
            raise ValueError("it is not an object")
        return json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        example = '{"enable_thinking": false}'
        raise ValueError(f"{name} is {text!r} ({error}); pass a JSON object such as '{example}'") from error


def check_least(options: Any, **least: float) -> None:
    for name, lowest in least.items():
        value = getattr(options, name)
        if value is not None and not lowest <= value < math.inf:
            raise ValueError(f"{name} is {value}; set a number of at least {lowest}")


def check_files(options: Any, *names: str) -> None:
    for name in names:
        value = getattr(options, name)
        if value is not None and not Path(value).is_file():
            raise ValueError(f"{name} '{value}' is not a file; pass the path of a file, or omit the option")
