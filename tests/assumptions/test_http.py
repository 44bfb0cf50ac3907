"""Facts about HTTP clients, proxies and the format of chat completions."""

import importlib.metadata
import importlib.util
from urllib.request import getproxies_environment

import h11
import httpx2
import msgspec
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessage

DEAD = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def _proxies(client: httpx2.AsyncClient) -> int:
    return len(client._mounts)  # pyright: ignore[reportPrivateUsage]


def test_a_transport_keeps_the_variables_of_proxies_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of httpx2 that gets a transport ignores the environment's variables for proxies.

    Needed by: coevolve/llm/http.py
    """
    monkeypatch.setenv("HTTP_PROXY", DEAD)
    assert _proxies(httpx2.AsyncClient()) == 1
    assert _proxies(httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport())) == 0


def test_variables_of_proxies_count_for_loopback_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By default httpx2 asks loopback addresses through the proxy that HTTP_PROXY names.

    Needed by: coevolve/llm/proxies.py
    """
    monkeypatch.setenv("HTTP_PROXY", DEAD)
    with httpx2.Client() as client, pytest.raises(httpx2.ConnectError):
        client.get("http://127.0.0.1:1/")
    patterns = [each.pattern for each in client._mounts]  # pyright: ignore[reportPrivateUsage]
    assert patterns == ["http://"]


def test_a_socks_proxy_needs_socksio() -> None:
    """The package that httpx2 imports for SOCKS proxies is socksio.

    Needed by: coevolve/llm/proxies.py
    """
    needed = importlib.metadata.requires("httpx2") or []
    assert [each.split("=")[0] for each in needed if "'socks'" in each] == ["socksio"]


@pytest.mark.skipif(
    importlib.util.find_spec("socksio") is not None, reason="the package for SOCKS is installed"
)
def test_a_client_cannot_be_made_with_a_socks_proxy_alone() -> None:
    """Without socksio, httpx2 raises ImportError as soon as a SOCKS proxy is named.

    Needed by: coevolve/llm/proxies.py
    """
    with pytest.raises(ImportError, match="SOCKS"):
        httpx2.AsyncHTTPTransport(proxy="socks5://127.0.0.1:9")


@pytest.mark.parametrize("scheme", ["socks4", "ftp"])
def test_other_schemes_are_no_proxy(scheme: str) -> None:
    """A proxy of httpx2 has the scheme http, https, socks5 or socks5h, or ValueError is raised.

    Needed by: coevolve/llm/proxies.py
    """
    with pytest.raises(ValueError, match="scheme"):
        httpx2.Proxy(f"{scheme}://127.0.0.1:9")
    for known in ("http", "https", "socks5", "socks5h"):
        assert httpx2.Proxy(f"{known}://127.0.0.1:9").url.scheme == known


def test_the_lower_case_of_a_variable_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of HTTP_PROXY and http_proxy, `getproxies_environment` returns the one in lower case.

    Needed by: coevolve/llm/proxies.py
    """
    monkeypatch.setenv("HTTP_PROXY", "http://upper.test")
    assert getproxies_environment() == {"http": "http://upper.test"}
    monkeypatch.setenv("http_proxy", "http://lower.test")
    assert getproxies_environment() == {"http": "http://lower.test"}


def test_json_nested_too_deeply_is_an_error() -> None:
    """JSON that is nested 100,000 levels deep makes msgspec raise RecursionError, and no crash.

    Needed by: coevolve/llm/faults.py, coevolve/llm/completion.py
    """
    with pytest.raises(RecursionError):
        msgspec.json.decode(b"[" * 100_000 + b"]" * 100_000)


def test_a_refusal_stands_beside_the_content() -> None:
    """In OpenAI's format a refusal is a field of the message, whose content is then null.

    Needed by: coevolve/llm/completion.py
    """
    message = ChatCompletionMessage(role="assistant", content=None, refusal="no")
    assert message.model_dump(exclude_none=True) == {"role": "assistant", "refusal": "no"}


def _received(data: bytes, most: int = 1 << 16) -> h11.Connection:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=most)
    connection.receive_data(data)
    return connection


def test_a_head_that_is_too_long_is_an_error_with_its_status() -> None:
    """h11 refuses a head beyond its limit, and hints at status 431.

    Needed by: coevolve/gateway/http.py
    """
    with pytest.raises(h11.RemoteProtocolError) as refused:
        _received(b"GET / HTTP/1.1\r\nx: " + b"y" * 200, most=100).next_event()
    assert refused.value.error_status_hint == 431


def test_a_request_with_a_length_and_chunks_is_read_by_its_chunks() -> None:
    """h11 itself accepts a request that announces both a length and chunks.

    Needed by: coevolve/gateway/http.py
    """
    head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n"
    connection = _received(head + b"1\r\na\r\n0\r\n\r\n")
    assert isinstance(connection.next_event(), h11.Request)
    assert isinstance(connection.next_event(), h11.Data)


async def test_the_openai_package_counts_its_retries_in_a_header() -> None:
    """A request that the `openai` package sends again has a header with the number of the retry.

    Needed by: coevolve/gateway/gateway.py
    """
    counts: list[str] = []

    def fail_once(request: httpx2.Request) -> httpx2.Response:
        counts.append(request.headers["x-stainless-retry-count"])
        return httpx2.Response(200 if counts[1:] else 500, json={"data": [], "object": "list"})

    transport = httpx2.MockTransport(fail_once)
    client = AsyncOpenAI(
        api_key="any", base_url=DEAD, http_client=httpx2.AsyncClient(transport=transport)
    )
    await client.models.list()
    assert counts == ["0", "1"]


def test_a_message_of_the_openai_package_keeps_fields_that_it_does_not_know() -> None:
    """The message of a completion goes back with the text, the ids and the unknown fields it had.

    Needed by: coevolve/gateway/matching.py
    """
    given = {"role": "assistant", "content": None, "thoughts": "so", "tool_calls": []}
    assert ChatCompletionMessage.model_validate(given).model_dump(exclude_unset=True) == given
