"""Who may ask: whoever has the token, and no web page."""

import hmac
import ipaddress
import os
import socket
from urllib.parse import urlsplit

from .answers import CallFailed

# Shorter ones cannot be kept out of logs, and workers refuse them, too.
FEWEST_CHARACTERS = 8


def take_token(name):
    """The token in a variable, which programs of the environment do not inherit."""
    token = os.environ.pop(name, "")
    if len(token) < FEWEST_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token:
        what = f"{len(token)} characters" if token else "nothing"
        raise ValueError(
            f"--token-env: expected {name} to hold at least {FEWEST_CHARACTERS} printable ASCII characters without spaces, got {what}"
        )
    return token


def is_loopback(host):
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Gate:
    """Without a token, a name that leads here by DNS alone is refused: a web page can give its own name this address,
    and is then asked by the browser as if it were this server. With a token it is not, since no page has that.
    """

    def __init__(self, host, token=None, allow_hosts=()):
        self.token = None if token is None else token.encode()
        self.names = {name.lower() for name in ("localhost", host, socket.gethostname(), *allow_hosts)}

    def check(self, headers):
        origin = headers.get("Origin")
        if origin is not None:
            raise CallFailed(403, "Forbidden", f"Origin: expected none, since no web page may ask, got {origin!r}")
        if self.token is None:
            for host in headers.get_all("Host", []):
                self._check_host(host)
        elif not self._is_known(headers.get("Authorization", "")):
            what = "Authorization: expected Bearer with the token that this server was started with"
            raise CallFailed(401, "Unauthorized", f"{what}, got {'another' if 'Authorization' in headers else 'none'}")

    def _is_known(self, text):
        scheme, _, token = text.partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode("utf-8", "replace"), self.token)

    def _check_host(self, text):
        try:
            name = (urlsplit(f"//{text}").hostname or "").rstrip(".")
        except ValueError:
            name = ""
        if name in self.names or name.endswith(".localhost") or _is_address(name):
            return
        remedy = f"start this server with --token-env NAME, or with --allow-host {name or 'NAME'}"
        raise CallFailed(421, "Misdirected", f"Host: expected an address or a name of this server, got {text!r}; {remedy}")


def _is_address(name):
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
