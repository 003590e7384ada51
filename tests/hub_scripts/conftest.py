"""The Hub stand-in, and ways to use it from this process."""

import time
from types import SimpleNamespace

import huggingface_hub.constants
import huggingface_hub.hf_api
import huggingface_hub.utils._http
import pytest

from tests.hub_scripts.hub_stand_in import Hub


def pytest_collection_modifyitems(items):
    """The client's own upload of large files, without xet, warns."""
    for item in items:
        if "in_process" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"))


@pytest.fixture
def hub():
    """A Hub with nothing in it, on a free port; see hub_stand_in.py. Fails the test if the stand-in itself broke."""
    with Hub() as hub:
        yield hub
    assert hub.errors == []


@pytest.fixture
def in_process(hub, monkeypatch):
    """Sends this process's huggingface_hub to `hub`, without a token: give one by `monkeypatch.setenv("HF_TOKEN", …)`.

    The clients' waiting before they try again takes no time here.
    """
    constants, http = huggingface_hub.constants, huggingface_hub.utils._http
    for name, value in hub.environment().items():
        monkeypatch.setenv(name, value)
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_OIDC_RESOURCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(huggingface_hub.hf_api.api, "endpoint", hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(http, "time", SimpleNamespace(**{**vars(time), "sleep": lambda seconds: None}))
    return hub


@pytest.fixture
def maintainer(in_process, monkeypatch):
    """This process has the token of somebody who may write in ORG."""
    monkeypatch.setenv("HF_TOKEN", in_process.token)
    return in_process
