"""Labels a model's own replies by how much they show their descriptor's characteristic style.

    python hb_train/bias_labels.py --run_dir runs/gpt2 --beta 0.0003 --output_dir labels/gpt2

From the folder of a run of `measure.py` with replies and style vectors: the bias value of each reply, a tag ("bias"
above β, else "no_bias"), and rows of prompt and completion that TRL takes as they are (Smith et al., 2022, C.1). The
prompt is what the model was given when it replied, with the tag as its last word. `--beta_quantile 0.5` tags the upper
half.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hb_dataset.whole_files import write_atomically, write_text
from hb_metrics.bias_values import ALPHAS, bias_values
from hb_metrics.finished_run import Run, StyleShards, read_bias_values, read_reply_table, read_run
from hb_metrics.run_folder import STYLES, open_run, package_versions, read_json, write_json

if TYPE_CHECKING:
    from hb_metrics.inference.models.chats import ChatOptions
    from hb_metrics.inference.models.loading import LoadedTokenizer

# transformers takes seconds to import: not before the options are known to be right.

LABELS_FILE = "labels.json"
SPLITS = ("train", "validation")
_BATCH = 2048
_QUANTILES = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)
ROW_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "prompt", "completion", "tag")),
        ("bias_value", pa.float64()),
        *((name, pa.string()) for name in ("axis", "descriptor", "noun", "template")),
        # Whether the reply was cut at the longest length, so that nothing ends it.
        ("truncated", pa.bool_()),
    ]
)

NO_GENERATION_ERROR = "run '{folder}' has no replies; measure with --measurements generation first"
OTHER_ROWS_ERROR = "the style vectors in '{folder}' are of other replies than those beside them; measure again"
NO_MODEL_ERROR = "the model that replied is needed for its tokenizer; say with --model where it is now. {error}"
OTHER_MODEL_ERROR = (
    "model '{name}' is not the one that replied (its digest is {here}, that of the run {there}); give its folder with "
    "--model"
)
BETA_ERROR = "beta and beta_quantile are both {given}; give one of them, such as --beta 0.0003 or --beta_quantile 0.5"
ONE_TAG_ERROR = (
    'beta {beta:g} tags {number} of {total} replies "bias"; both tags are needed to tell them apart. The bias values '
    "lie between {low:.3g} and {high:.3g}, half of them above {median:.3g}: give a beta between, or --beta_quantile"
)
TOO_FEW_ERROR = "the replies are to {number} distinct prompts; at least 2 are needed for training and validation"
PLACE_ERROR = (
    "in the context of prompt {id} the tag is not the last of what the user says, so the model could not be asked with "
    "it; use another --context when measuring"
)


@dataclass
class LabelArguments:
    """What to label, and how. All of it is recorded in run.json."""

    # Not `--run`, which `torchrun` takes for the beginning of an option of its own.
    run_dir: str = field(metadata={"help": "The folder of a run of measure.py with replies and style vectors."})
    output_dir: str = field(metadata={"help": "A new folder for the labels."})
    alpha: Literal[0, 1, 2] = field(
        default=0, metadata={"help": "The exponent α of the bias value: 0, 1 or 2; the paper takes 0."}
    )
    beta: float | None = field(
        default=None,
        metadata={"help": 'Replies with a larger bias value are tagged "bias"; the paper has 0.0003 and 0.0030.'},
    )
    beta_quantile: float | None = field(
        default=None, metadata={"help": "Instead: the share of replies at or below β, between 0 and 1."}
    )
    validation_fraction: float = field(default=0.1, metadata={"help": "The share of the prompts held out."})
    seed: int = field(default=0, metadata={"help": "Chooses the prompts held out."})
    model: str | None = field(
        default=None, metadata={"help": "Where the model that replied is now; default: where it was then."}
    )
    trust_remote_code: bool = field(
        default=False, metadata={"help": "Whether code that comes with the model may run here."}
    )

    def __post_init__(self) -> None:
        """Refuses what cannot be labelled with."""
        if self.alpha not in ALPHAS:
            raise ValueError(f"alpha is {self.alpha}; allowed: 0, 1, 2")
        if (self.beta is None) == (self.beta_quantile is None):
            raise ValueError(BETA_ERROR.format(given="missing" if self.beta is None else "given"))
        for name in ("beta_quantile", "validation_fraction"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise ValueError(f"{name} is {value}; give a number between 0 and 1")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; give at least 0")


class Labels(NamedTuple):
    """The tags of replies.

    Attributes:
        values: [replies] float64, the bias values.
        is_biased: [replies] whether the bias value is above β.
        beta: The threshold β.
    """

    values: np.ndarray
    is_biased: np.ndarray
    beta: float


def main(argv: list[str] | None = None) -> None:
    """Reads the options, labels, and says how many rows carry each tag."""
    from transformers import HfArgumentParser

    parser = HfArgumentParser(LabelArguments, description=(__doc__ or "").split("\n", 1)[0], allow_abbrev=False)
    options = vars(parser.parse_args(sys.argv[1:] if argv is None else argv))
    try:
        label(LabelArguments(**options))
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"bias_labels.py: {error}") from error


def label(arguments: LabelArguments) -> None:
    """Writes the labelled rows of a run; with several processes, the main one does.

    Raises:
        ValueError: The run cannot be labelled, or β tags all or none of its replies.
    """
    from hb_metrics.inference.processes import process_state

    state = process_state()
    if not state.is_main_process:
        state.wait_for_everyone()
        return
    run = read_run(Path(arguments.run_dir))
    made = run.results["run"]
    if "generation" not in made:
        raise ValueError(NO_GENERATION_ERROR.format(folder=run.folder))
    loaded = _tokenizer_of_run(arguments, made)
    styles = StyleShards(run.folder / STYLES)
    replies = _labelled_replies(run, styles)
    labels = tag_replies(
        replies,
        styles,
        alpha=arguments.alpha,
        beta=arguments.beta,
        quantile=arguments.beta_quantile,
        values=_stored_values(run, styles) if arguments.alpha == 0 else None,
    )
    folder = Path(arguments.output_dir)
    open_run(folder, _description(arguments, run))
    held_out = split(replies["text"].to_pylist(), arguments.validation_fraction, arguments.seed)
    rows = _write_rows(folder, replies, labels, held_out, loaded, made["generation"])
    found = {**_counts(replies, labels, held_out), **rows, **_facts(arguments, run, labels)}
    write_json(folder / LABELS_FILE, found)
    write_text(folder / "README.md", _card(found))
    _print_counts(found, folder)
    state.wait_for_everyone()


def read_labels(folder: Path) -> dict[str, Any]:
    """What `labels.json` in a folder of labels says.

    Raises:
        ValueError: It is not there, or not such a file.
    """
    path = folder / LABELS_FILE
    if not path.is_file():
        raise ValueError(f"'{folder}' has no {LABELS_FILE}; give a folder that hb_train/bias_labels.py has written")
    found = read_json(path)
    if not isinstance(found, dict) or "suffix" not in found:
        raise ValueError(f"'{path}' does not describe labels; make them again with hb_train/bias_labels.py")
    return found


def tag_replies(
    replies: pa.Table,
    styles: StyleShards,
    *,
    alpha: int,
    beta: float | None,
    quantile: float | None,
    values: np.ndarray | None = None,
) -> Labels:
    """Tags each reply by its bias value.

    Args:
        replies: Replies with the columns `descriptor`, `template` and `axis`.
        styles: Their style vectors, in the same order.
        alpha: The exponent α.
        beta: The threshold β; `None`: by `quantile`.
        quantile: The share of replies at or below β.
        values: [replies] their bias values with this α; `None`: they are computed.

    Returns:
        The bias values, the tags and β.

    Raises:
        ValueError: β tags all or none of the replies.
    """
    if values is None:
        columns = (replies[name].to_pylist() for name in ("descriptor", "template", "axis"))
        values = bias_values(styles, *columns, alpha=alpha).values
    if beta is None:
        assert quantile is not None
        beta = float(np.quantile(values, quantile, method="inverted_cdf"))
    is_biased = values > beta
    number = int(is_biased.sum())
    if number in (0, len(values)):
        low, median, high = np.quantile(values, (0, 0.5, 1))
        raise ValueError(
            ONE_TAG_ERROR.format(beta=beta, number=number, total=len(values), low=low, median=median, high=high)
        )
    return Labels(values, is_biased, beta)


def split(texts: Sequence[str], validation_fraction: float, seed: int) -> np.ndarray:
    """Chooses the rows held out for validation, by the texts of their prompts.

    Rows of the same descriptor, noun and template have the same text but for variations, and go to the same side; so
    do others whose texts are the same or differ in nothing that variations change ("Deaf" and "deaf").

    Args:
        texts: [rows] the prompts, varied or not.
        validation_fraction: The share of the distinct texts that is held out, at least one and never all.
        seed: Another seed, other texts.

    Returns:
        [rows] whether a row is held out.

    Raises:
        ValueError: There are fewer than two distinct texts.
    """
    from hb_dataset.seeded_draws import seeded_generator

    plain = [_without_variations(text) for text in texts]
    distinct = sorted(set(plain), key=lambda text: (seeded_generator(seed, "validation", text).random(), text))
    if len(distinct) < len(SPLITS):
        raise ValueError(TOO_FEW_ERROR.format(number=len(distinct)))
    number = min(max(1, round(validation_fraction * len(distinct))), len(distinct) - 1)
    held_out = set(distinct[:number])
    return np.array([text in held_out for text in plain])


def _without_variations(text: str) -> str:
    """The same for all texts that `hb_dataset.variations` makes of one."""
    return re.sub(r"\bi'm\b", "i am", text.lower().replace("-", " ")).rstrip(".")


def _tokenizer_of_run(arguments: LabelArguments, made: dict[str, Any]) -> "LoadedTokenizer":
    """The tokenizer of the model that replied."""
    from hb_metrics.inference.models.loading import EMBEDDED, load_tokenizer

    asked, digest = arguments.model or made["settings"]["model"], made["model"]["digest"]
    # Of a Hub id the digest is the commit; its main branch may have moved on since.
    revision = None if asked == EMBEDDED or Path(asked).is_dir() else digest
    try:
        loaded = load_tokenizer(asked, revision=revision, trust_remote_code=arguments.trust_remote_code)
    except OSError as error:
        raise OSError(NO_MODEL_ERROR.format(error=error)) from error
    if loaded.digest != digest:
        raise ValueError(OTHER_MODEL_ERROR.format(name=asked, here=loaded.digest, there=digest))
    return loaded


def _labelled_replies(run: Run, styles: StyleShards) -> pa.Table:
    """The replies that have style vectors, in the order of these, with what their prompts are about."""
    replies = read_reply_table(run.folder)
    if replies is None:
        raise ValueError(NO_GENERATION_ERROR.format(folder=run.folder))
    places = pc.index_in(pa.array(styles.ids), replies["id"])
    if places.null_count or len(styles) != run.results["generation"]["num_replies"]:
        raise ValueError(OTHER_ROWS_ERROR.format(folder=run.folder))
    wanted = ("id", "text", "personas", "reply", "truncated", "axis", "descriptor", "noun", "template")
    return replies.select(wanted).take(places)


def _stored_values(run: Run, styles: StyleShards) -> np.ndarray:
    """[replies] the bias values with α = 0, which the run has computed from all of its replies.

    Raises:
        ValueError: They are not there, of another run, or not of the replies that have style vectors.
    """
    stored = read_bias_values(run)
    if stored["id"].to_pylist() != styles.ids:
        raise ValueError(OTHER_ROWS_ERROR.format(folder=run.folder))
    values: np.ndarray = stored["bias_value"].to_numpy()
    return values


def _write_rows(
    folder: Path,
    replies: pa.Table,
    labels: Labels,
    held_out: np.ndarray,
    loaded: "LoadedTokenizer",
    generation: Mapping[str, Any],
) -> dict[str, Any]:
    """Writes the splits and returns what follows the tag in every prompt, rendered as in the run of the replies."""
    from hb_metrics.inference.models.chats import recorded_chat

    (folder / "data").mkdir(exist_ok=True)
    context, chat = generation["context"], recorded_chat(generation)
    suffix = _suffix(replies, loaded, context, chat)
    for name, chosen in zip(SPLITS, (~held_out, held_out), strict=True):
        places = np.flatnonzero(chosen)

        def write(scratch: Path, places: np.ndarray = places) -> None:
            with pq.ParquetWriter(scratch, ROW_SCHEMA, compression="zstd") as writer:
                for rows in _rows(replies, labels, places, loaded, context, suffix, chat):
                    writer.write_table(rows)

        write_atomically(folder / "data" / f"{name}.parquet", write)
    return {"suffix": suffix, "context": context}


def _suffix(replies: pa.Table, loaded: "LoadedTokenizer", context: Any, chat: "ChatOptions | None" = None) -> str:
    """What follows the tag in the first prompt, and must in all others."""
    from hb_metrics.inference.models.bias_tags import BIAS

    (rendered,) = _render(replies.slice(0, 1), loaded, context, BIAS, chat)
    return rendered.rpartition(f" {BIAS}")[2]


def _rows(
    replies: pa.Table,
    labels: Labels,
    places: np.ndarray,
    loaded: "LoadedTokenizer",
    context: Any,
    suffix: str,
    chat: "ChatOptions",
) -> Iterator[pa.Table]:
    """Rows in batches, the tag of each in its place."""
    from hb_metrics.inference.models.bias_tags import BIAS, NO_BIAS

    for first in range(0, len(places), _BATCH):
        batch = places[first : first + _BATCH]
        part = replies.take(pa.array(batch))
        tags = [BIAS if biased else NO_BIAS for biased in labels.is_biased[batch]]
        untagged = _render(part, loaded, context, None, chat)
        by_tag = {tag: _render(part, loaded, context, tag, chat) for tag in (BIAS, NO_BIAS)}
        for row, plain in enumerate(untagged):
            for tag, rendered in by_tag.items():
                if not plain.endswith(suffix) or rendered[row] != f"{plain.removesuffix(suffix)} {tag}{suffix}":
                    raise ValueError(PLACE_ERROR.format(id=part["id"][row].as_py()))
        columns = {name: part[name] for name in ("id", "axis", "descriptor", "noun", "template", "truncated")}
        columns["prompt"] = pa.array([by_tag[tag][row] for row, tag in enumerate(tags)])
        columns["completion"], columns["tag"] = part["reply"], pa.array(tags)
        columns["bias_value"] = pa.array(labels.values[batch])
        yield pa.table([columns[name] for name in ROW_SCHEMA.names], schema=ROW_SCHEMA)


def _render(
    replies: pa.Table, loaded: "LoadedTokenizer", context: Any, tag: str | None, chat: "ChatOptions | None" = None
) -> list[str]:
    """The prompts of replies as the model is given them, with a tag or without."""
    from hb_metrics.inference.models.chats import DEFAULT_CHAT
    from hb_metrics.inference.models.contexts import render_contexts

    texts, personas = replies["text"].to_pylist(), replies["personas"].to_pylist()
    is_encoder_decoder = loaded.kind == "encoder-decoder"
    return render_contexts(
        texts,
        personas,
        loaded.tokenizer,
        context,
        is_encoder_decoder=is_encoder_decoder,
        tag=tag,
        chat=chat or DEFAULT_CHAT,
    )


def _description(arguments: LabelArguments, run: Run) -> dict[str, Any]:
    """Everything the labels depend on, for run.json; where the run and the model lie is not among it."""
    made = run.results["run"]
    ignored = ("run_dir", "output_dir", "model", "trust_remote_code")
    return {
        "settings": {name: value for name, value in asdict(arguments).items() if name not in ignored},
        "labelled_run": {
            "model": made["model"],
            "data": made["data"],
            "generation": made["generation"],
            "style_classifier": made["style_classifier"],
            # What is sampled and how style vectors are rounded stands nowhere else.
            **{name: made["settings"][name] for name in ("seed", "style_precision")},
        },
        "versions": package_versions(),
    }


def _counts(replies: pa.Table, labels: Labels, held_out: np.ndarray) -> dict[str, Any]:
    axes = np.array(replies["axis"].to_pylist())

    def by_tag(rows: np.ndarray) -> dict[str, int]:
        biased = int(labels.is_biased[rows].sum())
        return {"bias": biased, "no_bias": int(rows.sum()) - biased}

    return {
        "num_rows": len(axes),
        "by_tag": by_tag(np.ones(len(axes), bool)),
        "by_axis": {axis: by_tag(axes == axis) for axis in sorted(set(axes.tolist()))},
        "by_split": {name: by_tag(rows) for name, rows in zip(SPLITS, (~held_out, held_out), strict=True)},
    }


def _facts(arguments: LabelArguments, run: Run, labels: Labels) -> dict[str, Any]:
    made, generation = run.results["run"], run.results["generation"]
    return {
        "alpha": arguments.alpha,
        "beta": labels.beta,
        "beta_quantile": arguments.beta_quantile,
        "bias_value_quantiles": {
            f"{share:g}": value
            for share, value in zip(_QUANTILES, np.quantile(labels.values, _QUANTILES).tolist(), strict=True)
        },
        "num_empty_replies": generation["num_empty_replies"],
        "model": made["model"],
        "style_classifier": {key: made["style_classifier"][key] for key in ("name", "digest", "num_styles")},
        "replies_tag": made["generation"].get("tag"),
        "validation_fraction": arguments.validation_fraction,
        "seed": arguments.seed,
    }


def _card(found: dict[str, Any]) -> str:
    # Without `configs`: with it `datasets` takes all folders of one name for the same, and loads the one it saw first.
    tags = found["by_tag"]
    return f"""---
license: cc-by-sa-4.0
language: en
---

# Bias labels

{found["num_rows"]:,} replies of {found["model"]["name"]} to HolisticBias prompts, {tags["bias"]:,} tagged "bias" and
{tags["no_bias"]:,} "no_bias" by their bias value (α = {found["alpha"]}, β = {found["beta"]:.6g}; Smith et al., 2022,
appendix C.1), for tuning with `hb_train/tune.py`. Styles were told by {found["style_classifier"]["name"]}.

`prompt` is what the model was given, with the tag as its last word; `completion` is its reply, unmodified. Replies can
hurt: they are what a language model said. Prompts: CC-BY-SA-4.0, from HolisticBias.
"""


def _print_counts(found: dict[str, Any], folder: Path) -> None:
    print(f"\nα = {found['alpha']}, β = {found['beta']:.6g}; {found['num_rows']:,} replies")
    print(f"  {'':<22} {'bias':>8} {'no_bias':>8}  share bias")
    for name, tags in [("all", found["by_tag"]), *found["by_split"].items(), *found["by_axis"].items()]:
        share = tags["bias"] / max(1, sum(tags.values()))
        print(f"  {name:<22} {tags['bias']:>8,} {tags['no_bias']:>8,}  {share:10.1%}")
    if found["num_empty_replies"]:
        print(f"  {found['num_empty_replies']:,} empty replies carry no style and are not labelled")
    print(f"\nlabels: {folder.resolve()}")


if __name__ == "__main__":
    main()
