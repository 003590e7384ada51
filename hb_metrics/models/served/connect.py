import asyncio
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from accelerate.utils import broadcast_object_list

from hb_metrics.models.chats import ChatOptions
from hb_metrics.models.processes import process_state
from hb_metrics.models.served.addresses import choose_key
from hb_metrics.models.served.client import Server, connected
from hb_metrics.models.served.probe import Probe, changes, probe
from hb_metrics.run.run_folder import RUN_FILE, read_json

# The Hub's address for all Inference Providers. In requests, the provider is a part of the model's name.
ROUTER = "https://router.huggingface.co/v1"


def make_server(model: str, base_url: str | None, provider: str | None, concurrency: int) -> Server:
    url = base_url or ROUTER
    return Server(model=model, url=url, key=choose_key(url), provider=provider, concurrency=concurrency)


def probe_server(server: Server, folder: Path, *, context: str, chat: Mapping[str, Any]) -> Probe:
    """Tests on the main process which fields a server supports. Returns the results on all processes.

    A resumed run keeps the results of its first test, even if the server's address has changed.

    Raises:
        ValueError: The server did not respond, or its results have changed since the run began.
    """

    async def probe_now() -> Probe:
        async with connected(server) as client:
            return await probe(client, chat=context != "plain", extra=extra_fields(ChatOptions(**chat)))

    found: list[Any] = [None, None]
    if process_state().is_main_process:
        try:
            found[0] = _recorded(server, folder, asyncio.run(probe_now()))
        except (ValueError, OSError) as error:
            found[1] = str(error)
    found = broadcast_object_list(found)
    if found[1] is not None:  # raise the error on all processes, so that none of them waits
        raise ValueError(found[1])
    return found[0]


def extra_fields(chat: ChatOptions) -> dict[str, object]:
    return {"chat_template_kwargs": dict(chat.template_kwargs)} if chat.template_kwargs else {}


def _recorded(server: Server, folder: Path, found: Probe) -> Probe:
    """Returns the results that the folder's run has recorded or, for a new run, `found`."""
    path = folder / RUN_FILE
    model = read_json(path).get("model", {}) if path.is_file() else {}
    served = model.get("served")
    if served is None or (model["name"], served["provider"]) != (server.model, server.provider):
        return found  # a new run, or a run of another model; a later check rejects the latter
    if changed := changes(served, found):
        lines = "\n".join(f"  {name} was {then!r} and is {now!r}" for name, (then, now) in changed.items())
        raise ValueError(
            f"{server.where} has changed since the run in '{folder}' began:\n{lines}\nthe run would mix answers from "
            "two servers; serve the model as before, or set --output_dir to a new folder"
        )
    known: dict[str, Any] = {each.name: served.get(each.name) for each in fields(Probe)}
    return Probe(**known)
