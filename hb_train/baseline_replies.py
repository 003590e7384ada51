"""Samples a model's own replies, from which `tune.py --method counterfactual` and `--method distill` learn.

    accelerate launch hb_train/baseline_replies.py --model embedded --output_dir rows/embedded
    accelerate launch hb_train/tune.py --method counterfactual --config hb_train/recipes/embedded.yaml \
        --dataset_name rows/embedded --output_dir models/embedded

During training, the model learns its reply to one prompt as the reply to other prompts. These prompts differ from the
first prompt only in the descriptor. With `--method counterfactual`, the first prompt also has a descriptor. Where the
reply mentions this descriptor, the mention is replaced. With `--method distill`, the first prompt has no descriptor.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from transformers import HfArgumentParser

from hb_dataset.prompts import find_config, load_table, measured_configs, version_of
from hb_dataset.versions import read_version
from hb_metrics.collect.replies.decoding_shards import decode_into_shards
from hb_metrics.collect.replies.presets import decoding_preset
from hb_metrics.collect.replies.prompt_replies import plan_replies
from hb_metrics.collect.replies.requests import make_requests
from hb_metrics.models.chats import ChatOptions
from hb_metrics.models.layout import Layout, choose_layout, render_prompts
from hb_metrics.models.loading import LoadedModel
from hb_metrics.models.processes import process_state
from hb_metrics.run.run_folder import REPLIES, open_run, package_versions, table_digest, write_json
from hb_train.training.models import load_whole_model
from hb_train.training.options import check_least, first_line, option, run_script
from hb_train.training.runs import model_description
from hb_train.tuning.baseline_rows import (
    COUNTERFACTUAL,
    DISTILL,
    ROW_SCHEMA,
    TEMPERATURE,
    BaselinePrompts,
    draw_anchors,
    draw_baseline_prompts,
    draw_prompts,
    draw_sources,
)
from hb_train.tuning.labels import SPLITS, held_out_rows, write_split
from hb_train.tuning.swap import first_words, stems, swap_term

FOLDERS = {"counterfactual": COUNTERFACTUAL, "distill": DISTILL}


@dataclass
class ReplyArguments:
    """The options of scripts in which a model replies to prompts."""

    output_dir: str = field(metadata={"help": "A new folder for the output."})
    model: str = option(
        "embedded",
        "The model whose bias you want to reduce. It also generates the replies. Pass a Hub id, a local folder, or "
        "'embedded'.",
    )
    dataset_config: str = option("v1.0", "The dataset config that provides descriptors, nouns and templates.")
    leave_out: str | None = option(
        None,
        "Exclude the descriptors of this dataset config, and all descriptors with the same stems. A later measurement "
        "can then use the excluded descriptors as unseen ones.",
    )
    system_prompt: str | None = option(None, "The system message of a chat. Default: the chat template's own message.")
    context: str = option("auto", "The format of prompts: auto, plain, dialogpt, chat or blenderbot.")
    seed: int = option(0, "The random seed for drawing prompts and sampling replies.")
    revision: str | None = option(None, "The model's branch, tag or commit on the Hub.")
    dtype: str = option("auto", "The data type of the weights, such as bfloat16.")
    trust_remote_code: bool = option(False, "Allow Python code supplied with the model to run on this machine.")


@dataclass
class BaselineArguments(ReplyArguments):
    method: Literal["counterfactual", "distill"] = option(
        "counterfactual", "The tuning method (--method of tune.py) for which the rows are written."
    )
    num_replies: int = option(960, "The number of replies to sample.")
    num_anchors: int = option(
        480,
        "The number of anchors. Anchors are replies that should stay the same. They answer questions whose answer "
        "depends on who asks, and questions that describe nobody.",
    )
    max_new_tokens: int = option(24, "The maximum length of a reply, in tokens.")

    def __post_init__(self) -> None:
        check_least(self, num_replies=2, num_anchors=0, max_new_tokens=1, seed=0)


def main(argv: list[str] | None = None) -> None:
    parser = HfArgumentParser(BaselineArguments, description=first_line(__doc__), allow_abbrev=False)
    options = parser.parse_args(argv)
    run_script("baseline_replies.py", lambda: reply(BaselineArguments(**vars(options))))


def reply(arguments: BaselineArguments) -> None:
    columns = find_config(arguments.dataset_config).schema.names
    if arguments.method == "counterfactual" and "first_descriptor" in columns:
        raise ValueError(
            f"method counterfactual cannot replace the combined terms of {arguments.dataset_config}; set "
            "--dataset_config to a config with single terms, such as 'next', or set --method distill"
        )
    prompts = training_prompts(arguments.dataset_config, arguments.leave_out)
    version = version_of(arguments.dataset_config)
    baseline = load_table(f"{version}-baseline")
    baseline = baseline.filter(pc.is_in(baseline["template"], value_set=pc.unique(prompts["template"])))
    drawn = draw_baseline_prompts(baseline, prompts, arguments.num_replies, seed=arguments.seed)
    sources = drawn.table if arguments.method == "distill" else draw_sources(drawn, prompts, seed=arguments.seed)
    asked = pa.concat_tables([sources.select(["id", "text"]), draw_anchors(arguments.num_anchors, seed=arguments.seed)])
    kinds = ("causal", "encoder-decoder") if arguments.method == "distill" else ("causal",)
    drawing = {"temperature": TEMPERATURE, "top_k": 0, "top_p": 1.0, "max_new_tokens": arguments.max_new_tokens}
    loaded = own_model(arguments, kinds)
    layout, replies = own_replies(arguments, asked, loaded, "sample", **drawing)
    folder = Path(arguments.output_dir).expanduser()
    if replies is not None:
        answers = [
            {**question, **answer} for question, answer in zip(asked.to_pylist(), replies.to_pylist(), strict=True)
        ]
        rows, texts, counts = _rows(arguments, prompts, drawn, sources, answers, layout, loaded)
        held_out = held_out_rows(texts, arguments.seed)
        for split, in_split in zip(SPLITS, (~held_out, held_out), strict=True):
            write_split(folder, split, rows.filter(pa.array(in_split)))
        content = {
            "context": layout.context,
            "asked_with": {**layout.chat.description(), "cue": "prompt"},
            "model": model_description(loaded),
            "dataset_config": arguments.dataset_config,
            "leave_out": arguments.leave_out,
            "rows_digest": table_digest(rows),
            **counts,
            "by_split": dict(zip(SPLITS, (int((~held_out).sum()), int(held_out.sum())), strict=True)),
        }
        write_json(folder / FOLDERS[arguments.method].record, content)
        print(
            f"\n{len(rows):,} rows of {counts['num_descriptors']:,} descriptors from {counts['num_replies']:,} replies "
            f"and {counts['num_anchors']:,} anchors. {counts['num_empty_replies']:,} more replies were empty, and "
            f"{counts['num_dropped']:,} rows were dropped because their reply describes a different descriptor.\nrows: "
            f"{folder.resolve()}"
        )
    process_state().wait_for_everyone()


def training_prompts(dataset_config: str, leave_out: str | None) -> pa.Table:
    """Loads a config's prompts, without those that contain a descriptor of the config `leave_out`.

    Descriptors that share a stem with such a descriptor (see `swap.stems`) are also left out.
    """
    allowed = measured_configs()
    if find_config(dataset_config).name not in allowed:
        raise ValueError(
            f"dataset_config '{dataset_config}' has no prompts with a descriptor; set one of {', '.join(allowed)}"
        )
    prompts = load_table(dataset_config)
    if leave_out is None:
        return prompts
    table = load_table(leave_out)
    terms = set(table["descriptor"].to_pylist()) - {None} if "descriptor" in table.column_names else set()
    left_out_stems = set().union(*map(stems, terms))
    left_out = [
        term for term in prompts["descriptor"].unique().to_pylist() if term in terms or stems(term) & left_out_stems
    ]
    kept = prompts.filter(pc.invert(pc.is_in(prompts["descriptor"], value_set=pa.array(left_out, pa.string()))))
    if len(kept) in (0, len(prompts)):
        excluded = "no descriptor" if len(kept) else "all descriptors"
        raise ValueError(
            f"--leave_out {leave_out} excludes {excluded} of {dataset_config}; set --leave_out to a config with some, "
            "but not all, of these descriptors"
        )
    return kept


def own_model(arguments: ReplyArguments, kinds: Sequence[str] = ("causal",)) -> LoadedModel:
    revision, dtype, code = arguments.revision, arguments.dtype, arguments.trust_remote_code
    return load_whole_model(arguments.model, kinds, revision=revision, dtype=dtype, trust_remote_code=code)


def own_replies(
    arguments: ReplyArguments, prompts: pa.Table, loaded: LoadedModel, preset: str, **decoding: Any
) -> tuple[Layout, pa.Table | None]:
    """Generates the model's replies to the prompts, and records the run in its folder.

    Only the main process returns the replies.
    """
    chat, context = ChatOptions({}, arguments.system_prompt), arguments.context
    layout = choose_layout(loaded, context=context, tag="none", chat=chat)  # type: ignore[arg-type]
    extent = "whole" if layout.context == "chat" else "first_line"
    settings = decoding_preset(preset, extent="whole", min_new_tokens=1, **decoding)
    requests = make_requests(prompts, decoding=settings, chat=layout.chat, extent=extent, seed=arguments.seed)
    plan = plan_replies(requests, loaded, context=layout.context)
    folder, state = Path(arguments.output_dir).expanduser(), process_state()
    with state.main_process_first():
        if state.is_main_process:
            options = {name: value for name, value in asdict(arguments).items() if name != "output_dir"}
            about = {"settings": options, "model": model_description(loaded), "versions": package_versions()}
            open_run(folder, {**about, "generation": plan.description()})
    replies = decode_into_shards(plan, loaded, folder / REPLIES)
    return layout, replies if state.is_main_process else None


def _rows(
    arguments: BaselineArguments,
    prompts: pa.Table,
    drawn: BaselinePrompts,
    sources: pa.Table,
    answers: list[dict[str, Any]],
    layout: Layout,
    loaded: LoadedModel,
) -> tuple[pa.Table, list[str], dict[str, int]]:
    vocabulary = read_version(version_of(arguments.dataset_config))
    terms = {(term.axis, term.term): term for term in vocabulary.descriptors}
    nouns = {noun.noun: noun for noun in vocabulary.nouns}
    replied_to, num_dropped = sources.to_pylist(), 0
    rows: list[dict[str, Any]] = []
    for number, place, identifier in draw_prompts(drawn, seed=arguments.seed):
        answer, old = answers[number], replied_to[number]
        new = prompts.slice(place, 1).to_pylist()[0]
        reply: str = answer["reply"]
        spans: list[list[int]] = []
        moved: list[list[str]] = []
        if not reply:
            continue
        if arguments.method == "counterfactual":
            source, target = terms[old["axis"], old["descriptor"]], terms[new["axis"], new["descriptor"]]
            swap = swap_term(reply, source, target, vocabulary)
            if swap is None or source == target:
                num_dropped += swap is None
                continue
            reply, spans = swap
            moved = first_words(source, target, nouns[new["noun"]], plural=new["plural"])
        row = {**new, "id": identifier, "completion": reply, "spans": spans, "moved": moved}
        rows.append({**row, "teacher_descriptor": old.get("descriptor"), "answer": answer})
    for answer in answers[len(replied_to) :]:
        if answer["reply"]:
            rows.append({**answer, "completion": answer["reply"], "spans": [], "moved": [], "answer": answer})
    asked = [row["answer"]["text"] for row in rows]
    prompted, teacher_prompted = (
        render_prompts(texts, loaded, layout) for texts in ([row["text"] for row in rows], asked)
    )
    for row, prompt, teacher_prompt in zip(rows, prompted, teacher_prompted, strict=True):
        row |= {"prompt": prompt, "teacher_prompt": teacher_prompt, "teacher_completion": row["answer"]["reply"]}
        row["truncated"] = row["answer"]["truncated"]
    is_empty = [not answer["reply"] for answer in answers]
    num_anchors = len(answers) - len(replied_to) - sum(is_empty[len(replied_to) :])
    counts = {
        "num_replies": len(answers) - sum(is_empty) - num_anchors,
        "num_empty_replies": sum(is_empty),
        "num_anchors": num_anchors,
        "num_dropped": num_dropped,
        "num_descriptors": len({row.get("descriptor") for row in rows} - {None}),
    }
    return pa.Table.from_pylist(rows, ROW_SCHEMA), asked, counts


if __name__ == "__main__":
    main()
