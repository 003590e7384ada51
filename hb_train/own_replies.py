"""Samples a model's own replies, from which `tune.py --method counterfactual` learns.

    accelerate launch hb_train/own_replies.py --model embedded --output_dir rows/embedded
    accelerate launch hb_train/tune.py --method counterfactual --config hb_train/recipes/embedded.yaml \
        --dataset_name rows/embedded --output_dir models/embedded

A group of prompts differs only in the descriptor. The model replies to one prompt of each group. Where the reply
mentions the descriptor, the mention is replaced for each of the other prompts.
"""

from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from hb_dataset.own_prompts import check_without_slots
from hb_dataset.prompts import config_vocabulary
from hb_metrics.collect.engines.local import LocalEngine
from hb_metrics.collect.replies.requests import make_requests
from hb_metrics.measurements.reply_requests import check_system
from hb_metrics.measurements.settings import RunOptions, check_least, option
from hb_metrics.models.chats import ChatOptions, chat_messages, with_system
from hb_metrics.models.contexts import render_messages
from hb_metrics.models.layout import Layout
from hb_metrics.models.processes import process_state
from hb_metrics.run.plurals import table_digest
from hb_metrics.run.run_folder import REPLIES, open_run, package_versions, write_json
from hb_train.training.models import load_whole_model
from hb_train.training.options import parse_own_options, run_script, some_options
from hb_train.training.runs import model_description
from hb_train.tuning.group_rows import OWN_REPLIES, GroupRow
from hb_train.tuning.labels import held_out_rows, write_splits
from hb_train.tuning.own_rows import (
    AnsweredPrompt,
    check_config,
    draw_anchors,
    draw_groups,
    group_rows,
    own_anchors,
    training_prompts,
)

_OfMeasure: Any = some_options(RunOptions, ("context", "revision", "dtype", "trust_remote_code"))


@dataclass(kw_only=True)
class ReplyArguments(_OfMeasure):
    output_dir: str = option(MISSING, "A new folder for the output.")
    model: str = option("embedded", "The model to tune: a Hub id, a local folder or 'embedded'.")
    dataset_config: str = option("v1.0", "The dataset config that provides descriptors, nouns and templates.")
    prompts: str | None = option(
        None, "Your own prompts with {person} or {people}: a file or a Hub dataset, as in --prompts of `measure`."
    )
    anchors: str | None = option(
        None, "Your own anchors: a file or a Hub dataset of prompts, which may have slots and the column reply."
    )
    leave_out: str | None = option(
        None, "Exclude this config's descriptors, and all that share a stem with them, so that they stay unseen."
    )
    num_replies: int = option(480, "The number of groups of prompts. The model replies to one prompt of each group.")
    num_contexts: int = option(4, "The number of prompts in a group. They differ only in the descriptor.")
    num_anchors: int = option(240, "The number of anchors.")
    max_new_tokens: int = option(96, "The maximum length of a reply, in tokens.")
    temperature: float = option(0.7, "The temperature of the replies and of the distributions that are learnt.")
    system_prompt: str | None = option(None, "The system message of a chat. Default: the chat template's own message.")
    seed: int = option(0, "The random seed for drawing prompts and sampling replies.")

    def __post_init__(self) -> None:
        check_config(self.dataset_config)
        check_without_slots("system_prompt", self.system_prompt)
        check_least(self, num_replies=2, num_contexts=2, num_anchors=0, max_new_tokens=1, temperature=0.01, seed=0)


def main(argv: list[str] | None = None) -> None:
    run_script("own_replies.py", lambda: reply(parse(argv)))


def parse(argv: Sequence[str] | None) -> ReplyArguments:
    return parse_own_options(ReplyArguments, argv, __doc__)


def reply(arguments: ReplyArguments) -> None:
    """Generates the model's replies, and writes them as rows."""
    vocabulary, seed = config_vocabulary(arguments.dataset_config), arguments.seed
    prompts = training_prompts(arguments.dataset_config, arguments.prompts, arguments.leave_out)
    groups = draw_groups(prompts, arguments.num_replies, arguments.num_contexts, seed=seed)
    if arguments.anchors is None:
        anchors = draw_anchors(arguments.num_anchors, seed=seed)
    else:
        anchors = own_anchors(arguments.anchors, vocabulary, arguments.num_anchors, seed=seed)
    first = prompts.take(pa.array([group[0] for group in groups])).to_pylist()
    asked = [AnsweredPrompt(f"group-{number}", row["text"], row.get("system")) for number, row in enumerate(first)]
    asked += [anchor for anchor in anchors if anchor.reply is None]
    settings = {name: getattr(arguments, name) for name in ("revision", "dtype", "trust_remote_code")}
    engine = LocalEngine(load_whole_model(arguments.model, device=process_state().device, **settings))
    layout = engine.layout(context=arguments.context, tag="none", chat=ChatOptions({}, arguments.system_prompt))
    replies = _own_replies(arguments, asked, engine, layout)
    if process_state().is_main_process:
        answers = [
            answer._replace(reply=row["reply"], truncated=row["truncated"])
            for answer, row in zip(asked, replies.to_pylist(), strict=True)
        ]
        rows, num_dropped = group_rows(prompts, groups, answers[: len(groups)], vocabulary)
        anchor_rows = [
            GroupRow(id, [reply], [[]], [""], [False], cut, texts=[text], system=system)
            for id, text, system, reply, cut in [*answers[len(groups) :], *anchors]
            if reply
        ]
        counts = {
            "num_groups": len(rows),
            "num_prompts": sum(len(row.texts) for row in rows),
            "num_anchors": len(anchor_rows),
            "num_empty_replies": sum(not answer.reply for answer in answers),
            "num_dropped": num_dropped,
            "num_descriptors": len({name for row in rows for name in row.descriptors or ()}),
        }
        _write(arguments, [*rows, *anchor_rows], counts, engine, layout)
    process_state().wait_for_everyone()


def _own_replies(
    arguments: ReplyArguments, asked: list[AnsweredPrompt], engine: LocalEngine, layout: Layout
) -> pa.Table:
    """Generates the model's replies, and records the run in its folder."""
    decoding, _ = engine.decoding(
        "sample",
        "whole",
        temperature=arguments.temperature,
        top_k=0,
        top_p=1.0,
        min_new_tokens=1,
        max_new_tokens=arguments.max_new_tokens,
    )
    ids, texts, systems, *_ = zip(*asked, strict=True)
    table = pa.table({"id": ids, "text": texts, "system": pa.array(systems, pa.string()), "own_id": ids})
    check_system(table, layout)
    extent = "whole" if layout.context == "chat" else "first_line"
    requests = make_requests(table, decoding=decoding, layout=layout, extent=extent, seed=arguments.seed)
    plan = engine.plan_replies(requests)
    folder = Path(arguments.output_dir).expanduser()
    with process_state().main_process_first():
        options = {name: value for name, value in asdict(arguments).items() if name != "output_dir"}
        about = {"settings": options, "model": model_description(engine.loaded), "versions": package_versions()}
        open_run(folder, {**about, "generation": plan.description()})
    return engine.reply(plan, folder / REPLIES)


def _write(
    arguments: ReplyArguments, rows: list[GroupRow], counts: dict[str, int], engine: LocalEngine, layout: Layout
) -> None:
    messages = [chat_messages(text, [], with_system(layout.chat, row.system)) for row in rows for text in row.texts]
    tokenizer, chat = engine.loaded.tokenizer, layout.chat
    rendered = iter(
        render_messages(messages, tokenizer, layout.context, is_encoder_decoder=False, chat=chat, thought=False)
    )
    whole = [row._replace(prompts=[next(rendered) for _ in row.texts])._asdict() for row in rows]
    table = pa.Table.from_pylist(whole, OWN_REPLIES.schema)
    folder = Path(arguments.output_dir).expanduser()
    write_splits(folder, table, held_out_rows([row.texts[0] for row in rows], arguments.seed))
    content = {
        "context": layout.context,
        "asked_with": {**layout.chat.description(), "cue": "prompt"},
        "model": model_description(engine.loaded),
        **{name: getattr(arguments, name) for name in ("dataset_config", "leave_out", "temperature", "num_contexts")},
        "rows_digest": table_digest(table),
        **counts,
    }
    write_json(folder / OWN_REPLIES.record, content)
    print(", ".join(f"{name.removeprefix('num_')}: {number:,}" for name, number in counts.items()))
    print(f"rows: {folder.resolve()}")


if __name__ == "__main__":
    main()
