"""Addresses and keys: nothing secret in an address, no key to strangers."""

import re

import pytest

from hb_dataset.hub_access import is_local_host
from hb_metrics.measurements.settings import check_address
from hb_metrics.models.served.addresses import KEY_VARIABLE, choose_key


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Sets the environment variables with keys, and no others."""
    for name in (KEY_VARIABLE, "HF_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return lambda given: [monkeypatch.setenv(name, value) for name, value in given.items()]


HUB, OPENAI, OWN = {"HF_TOKEN": "hf_hub"}, {"OPENAI_API_KEY": "sk-open"}, {KEY_VARIABLE: "own-key"}


@pytest.mark.parametrize("url", ["http://localhost:8000/v1", "https://example.com/v1", "http://[::1]:8000/v1"])
def test_an_address_is_used_without_a_slash_at_the_end(url):
    assert check_address(f"{url}/") == check_address(url) == url


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://example.com", "http://host:port/v1", "http://[::1/v1", "http://a b/v1"]
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ValueError, match=re.escape(f"base_url '{url}'")):
        check_address(url)


@pytest.mark.parametrize("secret", ["me:s3cret@example.com/v1", "example.com/v1?key=s3cret", "example.com/v1#s3cret"])
def test_secrets_in_an_address_are_refused_and_not_shown(secret):
    with pytest.raises(ValueError, match="a user name, a password, a query or a fragment") as error:
        check_address(f"https://{secret}")
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    ("url", "given", "expected"),
    [
        ("https://router.huggingface.co/v1", HUB | OPENAI, "hf_hub"),
        ("https://api.openai.com/v1", HUB | OPENAI, "sk-open"),
        ("https://api.openai.com/v1", HUB | OPENAI | OWN, "own-key"),
        ("https://example.com/v1", HUB | OPENAI, None),
        ("https://huggingface.co.example.com/v1", HUB | OPENAI, None),
        ("https://nothuggingface.co/v1", HUB | OPENAI, None),
        ("http://router.huggingface.co/v1", HUB, None),
        ("http://localhost:8000/v1", HUB | OPENAI, None),
        ("http://10.1.2.3:8000/v1", OWN, "own-key"),
        ("https://example.com/v1", {KEY_VARIABLE: " "}, None),
        ("https://example.com/v1", {}, None),
    ],
)
def test_a_key_goes_to_whom_it_is_for(url, given, expected, environment):
    environment(given)
    key = choose_key(url)
    assert (None if key is None else key.value) == expected
    assert expected is None or expected not in str(key)


@pytest.mark.parametrize(
    ("url", "value", "message"),
    [
        ("http://example.com/v1", "own-key", "without encryption"),
        ("https://example.com/v1", "two words", "spaces or non-ASCII characters; correct it"),
        ("https://example.com/v1", "line\nbreak", "spaces or non-ASCII characters; correct it"),
        ("https://example.com/v1", "schlüssel", "spaces or non-ASCII characters; correct it"),
    ],
)
def test_a_key_that_is_refused_is_not_shown(url, value, message, environment):
    environment({KEY_VARIABLE: value})
    with pytest.raises(ValueError, match=message) as error:
        choose_key(url)
    assert value not in str(error.value)


def test_hosts_of_ones_own_network():
    assert all(
        map(
            is_local_host,
            ("localhost", "127.0.0.1", "::1", "192.168.0.9", "172.16.1.1", "gpu3", "box.local", "2130706433", "127.1"),
        )
    )
    remote = ("example.com", "8.8.8.8", "2001:4860:4860::8888", "::ffff:8.8.8.8", "134744072", "0x8080808", "8.8")
    assert not any(map(is_local_host, remote))
