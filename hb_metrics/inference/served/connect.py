"""Before a run of a served model: who is asked, with which key, and that it is still what it was when the run began."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from accelerate.utils import broadcast_object_list

from hb_metrics.inference.models.chats import ChatOptions
from hb_metrics.inference.processes import process_state
from hb_metrics.inference.served.addresses import choose_key, provider_key
from hb_metrics.inference.served.client import Server, connected
from hb_metrics.inference.served.probe import Probe, changes, probe
from hb_metrics.runs.run_folder import RUN_FILE, read_json


def make_server(model: str, base_urls: Sequence[str] | None, provider: str | None, concurrency: int) -> Server:
    """Where and how a model is asked for, with keys of the environment.

    Raises:
        ValueError: A key would be sent where it should not.
    """
    urls = list(base_urls or ())
    keys = [choose_key(url) for url in urls] or [provider_key()]
    return Server(model=model, urls=urls, keys=keys, provider=provider, concurrency=concurrency)


def probe_server(server: Server, folder: Path, *, context: str, chat: Mapping[str, Any]) -> Probe:
    """Probes a server on the main process, and returns what was found, on all.

    A run that is resumed, at whatever address, goes on with what was found when it began, if that is found again.

    Args:
        server: The server.
        folder: The run folder, which may not be there.
        context: The context format that is asked for, or "auto".
        chat: What chats are given beside the prompt: arguments of `ChatOptions`.

    Raises:
        ValueError: The server did not respond, its addresses do not serve the same model, or the server is not as it
            was when the run began.
    """
    found: list[Any] = [None, None]
    if process_state().is_main_process:
        try:
            probed = asyncio.run(_probe(server, chat=context != "plain", extra=extra_fields(ChatOptions(**chat))))
            found[0] = _recorded(server, folder, probed)
        except (ValueError, OSError) as error:
            found[1] = str(error)
    found = broadcast_object_list(found)
    if found[1] is not None:  # on all processes, of which none then waits for another
        raise ValueError(found[1])
    return found[0]


def extra_fields(chat: ChatOptions) -> dict[str, Any]:
    """What every request has for the chat template, as vLLM, SGLang and transformers take it."""
    return {"chat_template_kwargs": dict(chat.template_kwargs)} if chat.template_kwargs else {}


async def _probe(server: Server, *, chat: bool, extra: Mapping[str, Any]) -> Probe:
    async with connected(server) as client:
        return await probe(client, chat=chat, extra=extra)


def _recorded(server: Server, folder: Path, found: Probe) -> Probe:
    """What was found when the run in a folder began, if there is one; raises a ValueError if that has changed."""
    path = folder / RUN_FILE
    recorded = read_json(path) if path.is_file() else None
    model = recorded.get("model") if isinstance(recorded, dict) else None
    served = model.get("served") if isinstance(model, dict) else None
    if not isinstance(model, dict) or not isinstance(served, dict):
        return found
    if (model.get("name"), served.get("provider")) != (server.model, server.provider):
        return found  # of another run, which is refused by its settings
    if changed := changes(served, found):
        lines = "\n".join(f"  {name} was {then!r} and is {now!r}" for name, (then, now) in changed.items())
        raise ValueError(
            f"{', '.join(server.names)} is not as it was when the run in '{folder}' began:\n{lines}\nits answers would "
            "be mixed with others; serve the model as it was, or give another output_dir"
        )
    known: dict[str, Any] = {each.name: served.get(each.name) for each in fields(Probe)}
    return Probe(**known)
