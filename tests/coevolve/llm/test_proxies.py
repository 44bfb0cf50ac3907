"""Which proxy a server is asked through; none for this machine."""

import importlib.util

import pytest

from coevolve.llm.proxies import is_loopback, proxy_of
from protocols.errors import DependencyError
from tests.asking import ask, refusal
from tests.chat_server import serving

DEAD = "127.0.0.1:9"
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HTTP_PROXY", f"http://{DEAD}"),
        ("http_proxy", DEAD),
        ("ALL_PROXY", f"socks5://{DEAD}"),
        ("all_proxy", f"socks5h://{DEAD}"),
        ("ALL_PROXY", f"socks4://{DEAD}"),
    ],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_loopback_address_is_asked_directly(
    variable: str, value: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with serving(lambda messages: "well") as server:
        address = server.base_url.replace("127.0.0.1", host)
        assert (await ask(address, tries=1)).text == "well"


@pytest.mark.parametrize(
    ("host", "is_it"),
    [
        *((host, True) for host in ("127.8.9.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::")),
        *((host, True) for host in ("LOCALHOST", "localhost.", "api.localhost")),
        *((host, False) for host in ("10.0.0.1", "2001:db8::1", "localhost.example.com", "")),
    ],
)
def test_only_this_machine_is_a_loopback_address(host: str, is_it: bool) -> None:
    assert is_loopback(host) == is_it


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_other_addresses_are_asked_through_the_proxy_which_errors_name(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as proxy:
        monkeypatch.setenv(variable, proxy.base_url.removesuffix("/v1"))
        found = await refusal("http://models.test/v1", tries=1)
    assert [each.path for each in proxy.requests] == ["http://models.test/v1/chat/completions"]
    assert f"through the proxy of {variable}" in found


async def test_a_dead_proxy_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://me:secret@{DEAD}")
    found = await refusal("http://models.test/v1", tries=1)
    assert "check that the proxy of HTTP_PROXY=" in found
    assert "add models.test to NO_PROXY" in found
    assert "secret" not in found


@pytest.mark.parametrize(
    ("base_url", "no_proxy", "is_direct"),
    [
        ("http://models.test/v1", "models.test", True),
        ("http://models.test/v1", "a.test, .models.test", True),
        ("http://a.models.test/v1", "*.models.test", True),
        ("http://a.models.test:80/v1", "models.test", True),
        ("http://models.test:8000/v1", "models.test:8000", True),
        ("http://models.test/v1", "*", True),
        ("http://10.1.2.3/v1", "10.0.0.0/8", True),
        ("http://10.1.2.3/v1", "10.9.9.9/8", True),
        ("http://[2001:db8::1]:80/v1", "2001:db8::1", True),
        ("http://[2001:db8::1]/v1", "[2001:db8::1]", True),
        ("http://models.test/v1", "els.test", False),
        ("http://models.test:8001/v1", "models.test:8000", False),
        ("http://11.1.2.3/v1", "10.0.0.0/8", False),
        ("http://models.test/v1", "", False),
    ],
)
@pytest.mark.parametrize("variable", ["NO_PROXY", "no_proxy"])
def test_a_server_that_no_proxy_names_is_asked_directly(
    base_url: str, no_proxy: str, is_direct: bool, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://{DEAD}")
    monkeypatch.setenv(variable, no_proxy)
    assert (proxy_of(base_url) is None) == is_direct


def test_the_proxy_of_the_scheme_counts_before_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://secure.test:1")
    monkeypatch.setenv("ALL_PROXY", "http://all.test:1")
    secure, plain = proxy_of("https://models.test/v1"), proxy_of("http://models.test/v1")
    assert secure
    assert (secure.url, secure.variable) == ("http://secure.test:1", "HTTPS_PROXY")
    assert plain
    assert (plain.url, plain.variable) == ("http://all.test:1", "ALL_PROXY")


@pytest.mark.skipif(
    importlib.util.find_spec("socksio") is not None, reason="the package for SOCKS is installed"
)
@pytest.mark.parametrize("variable", ["ALL_PROXY", "all_proxy", "https_proxy"])
async def test_a_socks_proxy_without_its_package_is_refused_with_the_right_package(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, f"socks5://me:secret@{DEAD}")
    with pytest.raises(DependencyError) as caught:
        await ask("https://models.test/v1")
    found = str(caught.value)
    assert f"{variable}=socks5://" in found
    assert "pip install socksio" in found
    assert "secret" not in found


@pytest.mark.parametrize("value", [f"ftp://{DEAD}", "http://", "http://a.test:b", "://x"])
def test_what_is_no_proxy_is_refused_with_the_variable(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", value)
    with pytest.raises(DependencyError, match=r"HTTP_PROXY=.*needs an address that begins with"):
        proxy_of("http://models.test/v1")
