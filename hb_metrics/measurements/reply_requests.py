from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hb_metrics.collect.replies.decoding_settings import choose_extent
from hb_metrics.collect.replies.requests import ReplyRequests, make_requests
from hb_metrics.measurements.settings import RunOptions
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
) -> tuple[ReplyRequests, Layout, dict[str, object]]:
    """Makes requests for replies to prompts, with the options that all measurements share.

    `changes` replace settings of the decoding preset. `reply` is the extent of a reply, or "auto". `decides` is true if
    the prompts ask for a decision. `about` contains other arguments of `make_requests`.

    Returns:
        The requests, their layout, and the settings in the model's generation_config that are not supported.
    """
    layout = engine.layout(context=shared.context, tag=shared.tag, chat=ChatOptions(**shared.chat()))
    extent, extent_reason = choose_extent(reply, layout.context, preset, decides=decides)
    decoding, ignored = engine.decoding(preset, extent, **changes)
    requests = make_requests(
        prompts,
        decoding=decoding,
        seed=shared.seed,
        chat=layout.chat,
        tag=layout.tag,
        tag_reason=layout.tag_reason,
        extent=extent,
        extent_reason=extent_reason,
        max_reasoning_tokens=shared.max_reasoning_tokens,
        **about,
    )
    return requests, layout, ignored
