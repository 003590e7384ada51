"""Makes the requests for replies: with the options that all measurements share, and those of `generation`."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from hb_dataset.frequency import read_frequencies
from hb_dataset.names import name_prompts, read_names
from hb_dataset.prompt_columns import has_names
from hb_metrics.collect.classifiers.styles import read_style_clusters
from hb_metrics.collect.replies.cues import (
    PERSONAS_FILE,
    QUESTIONS_FILE,
    check_cue,
    prompts_for_cue,
    read_sentences,
)
from hb_metrics.collect.replies.decoding_settings import Decoding, choose_extent
from hb_metrics.collect.replies.requests import ReplyRequests, make_requests, select_prompts, with_follow_ups
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.own_prompts import has_outcomes
from hb_metrics.measurements.settings import RunOptions, Settings
from hb_metrics.models.chats import ChatOptions
from hb_metrics.models.layout import Layout

if TYPE_CHECKING:
    from hb_metrics.collect.engines.engine import Engine


def request_replies(
    prompts: pa.Table,
    engine: "Engine",
    shared: RunOptions,
    preset: str,
    changes: Mapping[str, object],
    *,
    reply: Any = "auto",
    decides: bool = False,
    **about: Any,
) -> tuple[ReplyRequests, dict[str, object]]:
    """Makes requests for replies to prompts, with the options that all measurements share.

    `changes` replace settings of the decoding preset. `reply` is the extent of a reply, or "auto". `decides` is true if
    the prompts ask for a decision. `about` contains other arguments of `make_requests`.

    Returns:
        The requests, and the settings in the model's generation_config that are not supported.
    """
    layout = layout_of_run(engine, shared)
    check_system(prompts, layout)
    extent, extent_reason = choose_extent(reply, layout.context, preset, decides=decides)
    decoding, ignored = engine.decoding(preset, extent, **changes)
    requests = make_requests(
        prompts,
        decoding=decoding,
        layout=layout,
        seed=shared.seed,
        extent=extent,
        extent_reason=extent_reason,
        max_reasoning_tokens=shared.max_reasoning_tokens,
        **about,
    )
    return requests, ignored


def layout_of_run(engine: "Engine", shared: RunOptions) -> Layout:
    return engine.layout(context=shared.context, tag=shared.tag, chat=ChatOptions(**shared.chat()))


def check_system(prompts: pa.Table, layout: Layout) -> None:
    if "system" in prompts.column_names and layout.context != "chat" and prompts["system"].null_count < len(prompts):
        raise ValueError(
            f"some prompts have a system message, but the context is '{layout.context}' ({layout.context_reason}); "
            "empty the column 'system', or set --context chat"
        )


class Asked(NamedTuple):
    """The requests for a run's replies.

    Attributes:
        ignored: The settings in the model's generation_config that are not supported.
    """

    prompts: pa.Table
    requests: ReplyRequests
    ignored: dict[str, object]
    num_left_out: int
    left_out_templates: list[str]


def ask(settings: Settings, prompts: pa.Table, engine: "Engine") -> Asked:
    options, shared = settings.of(GenerationOptions), settings.run
    changes = {field.name: vars(options)[field.name] for field in fields(Decoding) if field.name in vars(options)}
    usable = prompts_for_cue(prompts, options.cue)
    per_cell = None if has_names(prompts) else options.replies_per_cell or None
    chosen = select_prompts(usable, per_cell, seed=shared.seed)
    requests, ignored = request_replies(
        chosen,
        engine,
        shared,
        options.decoding,
        changes,
        reply=options.reply,
        decides=has_outcomes(settings),
        personas=read_sentences(PERSONAS_FILE) if options.personas else [],
        num_personas=options.personas,
        variations=options.variations,
        cue=options.cue,
        questions=cue_questions(options),
    )
    check_cue(options.cue, requests.layout)
    if has_names(prompts) and (options.replies_per_cell or 0) > 1 and not requests.decoding.sample:
        raise ValueError(
            f"with names, each question is asked several times, but decoding '{options.decoding}' would return the "
            "same reply each time; set --decoding sample, or --replies_per_cell 1"
        )
    if options.turns > 1:
        requests = with_follow_ups(requests, chosen["template"].to_pylist(), options.turns)
    kept = set(usable["template"].unique().to_pylist())
    left_out = [template for template in prompts["template"].unique().to_pylist() if template not in kept]
    return Asked(chosen, requests, ignored, prompts.num_rows - usable.num_rows, left_out)


def read_files(settings: Settings, prompts: pa.Table) -> None:
    options = settings.of(GenerationOptions)
    if options.frequencies is not None:
        read_frequencies(options.frequencies)
    if options.style_clusters is not None:
        read_style_clusters(options.style_clusters)
    usable = prompts_for_cue(prompts, options.cue)
    cells = usable.group_by(["template", "axis", "descriptor"]).aggregate([])
    if len(cells) == len(cells["template"].unique()):
        raise ValueError(
            "replies to different terms are compared, but no prompt has two terms; set --terms to at least two, or "
            "--axes, --sample or --vocabulary_dir to get more"
        )


def cue_questions(options: GenerationOptions) -> list[str]:
    return [] if options.cue == "prompt" else read_sentences(QUESTIONS_FILE)


def named_people(settings: Settings) -> pa.Table:
    options = settings.of(GenerationOptions)
    number = (options.replies_per_cell or 0) * len(cue_questions(options))
    return name_prompts(read_names(options.names_file), number)
