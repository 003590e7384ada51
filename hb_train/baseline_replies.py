"""Samples a model's replies to prompts without a descriptor, from which `tune.py --method distill` learns.

    accelerate launch hb_train/baseline_replies.py --model embedded --output_dir baseline/embedded
    accelerate launch hb_train/tune.py --method distill --config hb_train/recipes/embedded.yaml \
        --dataset_name baseline/embedded --output_dir models/embedded-distill

Replies are sampled from the model's whole distribution (temperature 1, all tokens), so learning them changes nothing by
itself. Each reply is paired with prompts that add a descriptor to the same sentence. The tuned model learns to reply to
these prompts as it replies without the descriptor. `--leave_out v1.0-small` excludes that config's descriptors from
training, so that a measurement on it shows the effect on unseen descriptors.
"""

import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from transformers import HfArgumentParser

from hb_dataset.prompts import find_config, load_table, measured_configs, version_of
from hb_metrics.inference.models.chats import ChatOptions
from hb_metrics.inference.models.contexts import render_contexts
from hb_metrics.inference.models.layout import Layout, choose_layout
from hb_metrics.inference.models.loading import LoadedModel, load_model
from hb_metrics.inference.processes import process_state
from hb_metrics.inference.replies.decoding_shards import decode_into_shards
from hb_metrics.inference.replies.presets import decoding_preset
from hb_metrics.inference.replies.prompt_replies import plan_replies
from hb_metrics.inference.replies.requests import make_requests
from hb_metrics.runs.run_folder import open_run, package_versions, table_digest, write_json
from hb_train.training.options import check_least, first_line, option, run_script
from hb_train.training.runs import model_description
from hb_train.tuning.baseline_rows import (
    BASELINE_FILE,
    ROW_SCHEMA,
    draw_baseline_prompts,
    draw_prompts,
)
from hb_train.tuning.labels import SPLITS, held_out_rows, write_split

REPLIES_FOLDER = "replies"


@dataclass
class BaselineArguments:
    """The options of the prompts and replies. run.json records all options except the folder."""

    output_dir: str = field(metadata={"help": "The folder of the rows; it should be new."})
    model: str = option("embedded", "The model to sample and to tune: a Hub id, a local folder, or 'embedded'.")
    dataset_config: str = option("v1.0", "The config of the dataset with the descriptors, nouns and templates.")
    leave_out: str | None = option(
        None, "The config whose descriptors are excluded from training, for measurements on unseen descriptors."
    )
    num_replies: int = option(1600, "The number of sampled replies.")
    max_new_tokens: int = option(24, "The maximum length of a reply in tokens.")
    system_prompt: str | None = option(None, "The system message of a chat. Default: the template's.")
    context: str = option("auto", "The format of prompts: auto, plain, dialogpt, chat or blenderbot.")
    seed: int = option(0, "The seed of draws and samples.")
    revision: str | None = option(None, "The revision of a model on the Hub.")
    dtype: str = option("auto", "The number format of the weights, such as bfloat16.")
    trust_remote_code: bool = option(False, "Allow code that comes with the model to run on this machine.")

    def __post_init__(self) -> None:
        """Raises `ValueError` if a number is out of range."""
        check_least(self, num_replies=2, max_new_tokens=1, seed=0)


def main(argv: list[str] | None = None) -> None:
    """Reads the options, and writes the rows."""
    parser = HfArgumentParser(BaselineArguments, description=first_line(__doc__), allow_abbrev=False)
    options = vars(parser.parse_args(sys.argv[1:] if argv is None else argv))
    run_script("baseline_replies.py", lambda: reply(BaselineArguments(**options)))


def reply(arguments: BaselineArguments) -> None:
    """Samples the replies, and pairs them with prompts that have a descriptor.

    Raises:
        ValueError: The options, the model and the vocabulary do not fit together.
        OSError: The model does not exist.
    """
    prompts = training_prompts(arguments.dataset_config, arguments.leave_out)
    version = version_of(arguments.dataset_config)
    baseline = load_table(f"{version}-baseline")
    baseline = baseline.filter(pc.is_in(baseline["template"], value_set=pc.unique(prompts["template"])))
    drawn = draw_baseline_prompts(baseline, prompts, arguments.num_replies, seed=arguments.seed)
    chat = ChatOptions({}, arguments.system_prompt)
    loaded = load_model(
        arguments.model,
        revision=arguments.revision,
        dtype=arguments.dtype,
        trust_remote_code=arguments.trust_remote_code,
    )
    layout = choose_layout(loaded, context=arguments.context, tag="none", chat=chat)  # type: ignore[arg-type]
    plan = plan_replies(_requests(arguments, drawn.table, layout), loaded, context=layout.context)
    folder = Path(arguments.output_dir)
    state = process_state()
    with state.main_process_first():
        if state.is_main_process:
            settings = asdict(arguments)
            del settings["output_dir"]
            description = {"settings": settings, "model": model_description(loaded), "versions": package_versions()}
            open_run(folder, {**description, "generation": plan.description()})
    replies = decode_into_shards(plan, loaded, folder / REPLIES_FOLDER)
    if replies is not None:
        rows, num_empty = _rows(arguments, prompts, drawn, replies, layout, loaded)
        texts = dict(zip(drawn.table["id"].to_pylist(), drawn.table["text"].to_pylist(), strict=True))
        replied_to = [texts[identifier.rpartition("-")[0]] for identifier in rows["id"].to_pylist()]
        held_out = held_out_rows(replied_to, arguments.seed)
        for split, in_split in zip(SPLITS, (~held_out, held_out), strict=True):
            write_split(folder, split, rows.filter(pa.array(in_split)))
        content = {
            "context": layout.context,
            "asked_with": {**plan.chat_description, "cue": "prompt"},
            "model": model_description(loaded),
            "dataset_config": arguments.dataset_config,
            "leave_out": arguments.leave_out,
            "rows_digest": table_digest(rows),
            "num_replies": len(replies) - num_empty,
            "num_empty_replies": num_empty,
            "num_descriptors": len(set(rows["descriptor"].to_pylist())),
            "by_split": dict(zip(SPLITS, (int((~held_out).sum()), int(held_out.sum())), strict=True)),
        }
        write_json(folder / BASELINE_FILE, content)
        print(
            f"\n{content['num_replies']:,} replies to prompts without a descriptor ({num_empty:,} more were empty), in "
            f"{len(rows):,} rows of {content['num_descriptors']:,} descriptors\nrows: {folder.resolve()}"
        )
    state.wait_for_everyone()


def training_prompts(dataset_config: str, leave_out: str | None) -> pa.Table:
    """The prompts of a config without the descriptors of another.

    Raises:
        ValueError: The configs have no prompts for that.
    """
    allowed = measured_configs()
    if find_config(dataset_config).name not in allowed:
        raise ValueError(
            f"dataset_config '{dataset_config}' has no prompts about people with a descriptor; set one of "
            f"{', '.join(allowed)}"
        )
    prompts = load_table(dataset_config)
    if leave_out is None:
        return prompts
    table = load_table(leave_out)
    left_out = table["descriptor"].unique() if "descriptor" in table.column_names else pa.array([], pa.string())
    kept = prompts.filter(pc.invert(pc.is_in(prompts["descriptor"], value_set=left_out)))
    if len(kept) in (0, len(prompts)):
        left = "all of the descriptors" if len(kept) else "no descriptor"
        raise ValueError(f"--leave_out {leave_out} leaves {left} of {dataset_config}; set another config")
    return kept


def _requests(arguments: BaselineArguments, prompts: pa.Table, layout: Layout) -> Any:
    """The requests: unmodified replies from the model's whole distribution."""
    extent = "whole" if layout.context == "chat" else "first_line"
    number = arguments.max_new_tokens
    decoding = decoding_preset(
        "sample", extent="whole", temperature=1.0, top_k=0, top_p=1.0, min_new_tokens=1, max_new_tokens=number
    )
    return make_requests(prompts, decoding=decoding, chat=layout.chat, extent=extent, seed=arguments.seed)


def _rows(
    arguments: BaselineArguments,
    prompts: pa.Table,
    drawn: Any,
    replies: pa.Table,
    layout: Layout,
    loaded: LoadedModel,
) -> tuple[pa.Table, int]:
    """The rows to train on, and the number of empty replies, which have no rows."""
    pairs = list(draw_prompts(drawn, seed=arguments.seed))
    written = np.array([bool(text) for text in replies["reply"].to_pylist()])
    pairs = [pair for pair in pairs if written[pair[0]]]
    asked = drawn.table.take(pa.array([row for row, _, _ in pairs], pa.int64()))
    answers = replies.take(pa.array([row for row, _, _ in pairs], pa.int64()))
    about = prompts.take(pa.array([row for _, row, _ in pairs], pa.int64()))

    def rendered(texts: list[str]) -> pa.Array:
        return pa.array(
            render_contexts(
                texts,
                [[]] * len(texts),
                loaded.tokenizer,
                layout.context,
                is_encoder_decoder=loaded.kind == "encoder-decoder",
                chat=layout.chat,
                thought=False,
            )
        )

    columns = {
        "id": pa.array([identifier for _, _, identifier in pairs]),
        "prompt": rendered(about["text"].to_pylist()),
        "baseline_prompt": rendered(asked["text"].to_pylist()),
        "completion": answers["reply"],
        **{name: about[name] for name in ("axis", "descriptor", "noun", "template")},
        "truncated": answers["truncated"],
    }
    rows = pa.table([columns[name] for name in ROW_SCHEMA.names], schema=ROW_SCHEMA)
    return rows, int((~written).sum())


if __name__ == "__main__":
    main()
