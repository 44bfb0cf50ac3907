"""The proxy through which a server is asked, as the environment's variables say.

The variables are those of other programs: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, in
capitals or not. A loopback address is asked without a proxy, whatever they say, because another
machine's loopback address is another machine.
"""

import ipaddress
import os
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies_environment

from coevolve.base.dependencies import require
from coevolve.base.foreign import masked
from protocols.errors import DependencyError

SOCKS = ("socks5", "socks5h")
SCHEMES = ("http", "https", *SOCKS)

SOCKS_PACKAGE = "socksio"
"""What the HTTP library imports for a SOCKS proxy."""


class Proxy(NamedTuple):
    """A proxy, and where it comes from."""

    url: str
    """Address, perhaps with a password."""

    variable: str
    """The environment variable that names it."""

    host: str
    """The server that is asked through it."""

    @property
    def told(self) -> str:
        """The variable with its value, without a password."""
        return f"{self.variable}={masked(self.url)}"

    @property
    def way_round(self) -> str:
        """What to do for a server that needs no proxy."""
        return f"add {self.host} to NO_PROXY, or unset {self.variable}, if it needs no proxy"


def proxy_of(base_url: str) -> Proxy | None:
    """Return the proxy for the server ``base_url``; None if it is asked directly.

    Raises DependencyError if the proxy cannot be used.
    """
    server = urlsplit(base_url)
    host = server.hostname or ""
    found = getproxies_environment()
    scheme = next((each for each in (server.scheme, "all") if found.get(each)), "")
    if not scheme or is_loopback(host) or _is_exempt(server, found.get("no", "")):
        return None
    url = found[scheme]
    whole = url if "://" in url else f"http://{url}"
    proxy = Proxy(whole, _variable(scheme, url), host)
    _check(proxy)
    return proxy


def check_proxy(base_url: str) -> None:
    """Raise DependencyError if the proxy for a server cannot be used."""
    proxy_of(base_url)


def is_loopback(host: str) -> bool:
    """Return whether a host of an address is this machine."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return mapped.is_loopback or mapped.is_unspecified


def _is_exempt(server: SplitResult, no_proxy: str) -> bool:
    """Return whether NO_PROXY names a server: its domain, its address, or its network."""
    host = server.hostname or ""
    for entry in no_proxy.lower().replace(",", " ").split():
        domain = entry.removeprefix("*").removeprefix(".")
        if entry == "*" or domain in (host, f"[{host}]", server.netloc.lower()):
            return True
        if host.endswith(f".{domain}") or _is_in(host, entry):
            return True
    return False


def _is_in(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _variable(scheme: str, url: str) -> str:
    """Return the environment variable with this value; lower case comes first, as it counts."""
    name = f"{scheme}_proxy"
    return next((each for each in (name, name.upper()) if os.environ.get(each) == url), name)


def _check(proxy: Proxy) -> None:
    if (scheme := _scheme(proxy.url)) not in SCHEMES:
        raise DependencyError(
            f"{proxy.told}: a proxy for {proxy.host} needs an address that begins with "
            f"{', '.join(f'{each}://' for each in SCHEMES)}; correct it, or {proxy.way_round}"
        )
    if scheme in SOCKS:
        require(
            SOCKS_PACKAGE,
            f"{proxy.told}: a SOCKS proxy for {proxy.host}",
            f"pip install {SOCKS_PACKAGE}, or {proxy.way_round}",
        )


def _scheme(url: str) -> str:
    """Return the scheme of an address; empty if it is no address."""
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.hostname and parts.port != 0:
            return parts.scheme
    return ""
