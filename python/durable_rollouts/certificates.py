"""TLS to a Temporal server: files that no connection can use, what one that fails lacks, and files that are renewed."""

from __future__ import annotations

import os
import re
import socket
import ssl
import tempfile
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Awaitable, Callable, Iterator, Mapping, NamedTuple, Optional, Tuple, Type, Union

from google.protobuf.message import Message
from temporalio.envconfig import ClientConfigTLS
from temporalio.service import RPCError, ServiceClient, ServiceResponse, TLSConfig

Source = Union[Path, str, bytes]

LOOK_S = 2.0
TRUST = ("tls", "api_key", "rpc_metadata")
"""What of the settings a connection keeps for its life."""


def setting(name: str) -> str:
    """A setting of TLS by both of its names."""
    return f"TEMPORAL_TLS_{name.upper()}, or tls.{name} of temporal.toml"


AUTHORITY = f"name the file of the authority that signed it in {setting('server_ca_cert_path')}"
OWN = "TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH, or in temporal.toml"
EXPIRED, NOT_YET = 10, 9
OTHER_NAME = {62, 64}
"""Codes of OpenSSL (X509_V_ERR_…): the name, or the address, is another one."""


class Found(NamedTuple):
    """Why a connection fails, and the next step."""

    what: str
    remedy: str


class _Part(NamedTuple):
    place: str
    text: bytes


def check_files(tls: ClientConfigTLS) -> None:
    """Raises ``ConnectionError`` by name for what no connection can use: the SDK would have no name for it."""
    if tls.disabled:
        return
    authority = _read("the certificate of the authority", "server_ca_cert", tls.server_root_ca_cert)
    cert = _read("the client certificate", "client_cert", tls.client_cert)
    key = _read("the client key", "client_key", tls.client_private_key)
    if authority is not None:
        _expect(authority, "a certificate in PEM", "CERTIFICATE")
        try:
            ssl.create_default_context(cadata=authority.text.decode())
        except (ssl.SSLError, ValueError) as error:
            raise ConnectionError(f"{authority.place}: expected a certificate in PEM: {error}") from None
    if (cert is None) != (key is None):
        raise ConnectionError(
            f"the client certificate ({setting('client_cert_path')}) and the client key ({setting('client_key_path')}): "
            "name both, or none"
        )
    if cert is None or key is None:
        return
    _expect(cert, "a certificate in PEM", "CERTIFICATE")
    if b"ENCRYPTED" in key.text:
        raise ConnectionError(
            f"{key.place}: expected a key without a passphrase; openssl pkey -in FILE -out FILE removes it"
        )
    _expect(key, "a private key in PEM", "PRIVATE KEY")
    try:
        _context(TLSConfig(client_cert=cert.text, client_private_key=key.text))
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConnectionError(
                f"{key.place} does not belong to {cert.place}: name the key that it was made with"
            ) from None
        raise ConnectionError(f"{cert.place}, {key.place}: expected a certificate and its key in PEM: {error}") from None


def _read(what: str, name: str, source: Optional[Source]) -> Optional[_Part]:
    if source is None:
        return None
    if not isinstance(source, Path):
        text = source.encode() if isinstance(source, str) else source
        return _Part(f"{what} ({setting(name + '_data')})", text)
    place = f"{what} {source} ({setting(name + '_path')})"
    try:
        return _Part(place, source.read_bytes())
    except OSError as error:
        raise ConnectionError(f"cannot read {place}: {error.strerror}") from None


def _expect(part: _Part, what: str, kind: str) -> None:
    """Nothing of the text itself is told, since it may be a key."""
    kinds = [each.decode() for each in re.findall(rb"-----BEGIN ([A-Z0-9 ]+)-----", part.text)]
    if not any(each.endswith(kind) for each in kinds):
        got = f'"{kinds[0]}"' if kinds else "a text without -----BEGIN" if part.text.strip() else "nothing"
        raise ConnectionError(f"{part.place}: expected {what}, got {got}")


def _context(tls: TLSConfig) -> ssl.SSLContext:
    authority = tls.server_root_ca_cert
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    context.set_alpn_protocols(["h2"])
    if tls.client_cert and tls.client_private_key:
        with _file(tls.client_cert) as cert, _file(tls.client_private_key) as key:
            context.load_cert_chain(cert, key, password="")
    return context


@contextmanager
def _file(text: bytes) -> Iterator[str]:
    """A file that only this user can read: module ssl takes a client's certificate from files alone."""
    handle, name = tempfile.mkstemp()
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
        yield name
    finally:
        os.unlink(name)


def look(target_host: str, tls: Union[bool, TLSConfig, None]) -> Optional[Found]:
    """Why TLS keeps a connection from being made. None: it does not. Takes up to a few seconds."""
    host, colon, port = target_host.rpartition(":")
    if not colon or not port.isdigit():
        return None
    place = (host.strip("[]"), int(port))
    if tls:
        return _look_secure(place, tls if isinstance(tls, TLSConfig) else TLSConfig())
    if _answers_plainly(place) is not False or _is_tls(place) is not True:
        return None
    return Found("it speaks TLS", f"set TEMPORAL_TLS=true; and if no public authority signed its certificate, {AUTHORITY}")


def refused_certificate(said: str) -> Optional[Found]:
    """Why the SDK alone refuses a server's certificate: it has authorities, and rules, of its own."""
    named = re.search(r"InvalidCertificate\(.*?\)|peer certificate", said)
    if named is None:
        return None
    return Found(f"its certificate is not accepted: {named[0]}", f"install the system's authorities (ca-certificates), or {AUTHORITY}")


Place = Tuple[str, int]
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""The first words of a client of HTTP/2, with its settings."""
SETTINGS = 4
"""The type of the server's first frame."""


def _look_secure(place: Place, tls: TLSConfig) -> Optional[Found]:
    is_shaken = False
    try:
        with socket.create_connection(place, LOOK_S) as plain:
            with _context(tls).wrap_socket(plain, server_hostname=tls.domain or place[0]) as secure:
                is_shaken = True
                secure.sendall(GREETING)
                if secure.recv(9):
                    return None
        why = "it closed the connection"
    except ssl.SSLCertVerificationError as error:
        return Found(f"its certificate is not accepted: {error.verify_message}", _remedy_of(error.verify_code))
    except (ConnectionRefusedError, socket.gaierror, socket.timeout):
        return None
    except OSError as error:
        reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
        why = reason or str(error)
        if "ALERT" in reason and re.search("CERTIFICATE|UNKNOWN_CA|HANDSHAKE_FAILURE|ACCESS_DENIED|DECRYPT", reason):
            return _of_own_certificate(tls, reason)
    if is_shaken:
        wanted = "another" if tls.client_cert else "a"
        return Found(
            f"it ends the connection after the TLS handshake ({why}), as servers do that want {wanted} client certificate",
            f"name one in {OWN}",
        )
    if _answers_plainly(place) is not True:
        return None
    return Found(f"it speaks no TLS ({why})", "set TEMPORAL_TLS=false, or remove tls and api_key from temporal.toml")


def _remedy_of(code: int) -> str:
    if code == EXPIRED:
        return "renew it on the server, or compare the clocks of both machines"
    if code == NOT_YET:
        return "compare the clocks of both machines"
    if code in OTHER_NAME:
        return f"write a name that it has in {setting('server_name')}, or as the address"
    return AUTHORITY


def _of_own_certificate(tls: TLSConfig, reason: str) -> Found:
    if tls.client_cert is None:
        return Found(
            f"it asks for a client certificate, and none is named ({reason})", f"name one, and its key, in {OWN}"
        )
    what = f"it does not accept the client certificate ({reason})"
    if "EXPIRED" in reason:
        return Found(what, f"renew it, with its key, in {OWN}")
    return Found(what, f"name one that an authority of the server has signed in {OWN}")


def _answers_plainly(place: Place) -> Optional[bool]:
    """None: nobody answers at all."""
    try:
        with socket.create_connection(place, LOOK_S) as plain:
            plain.sendall(GREETING)
            return plain.recv(9)[3:4] == bytes([SETTINGS])
    except (ConnectionRefusedError, socket.gaierror, socket.timeout):
        return None
    except OSError:
        return False


def _is_tls(place: Place) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection(place, LOOK_S) as plain:
            # Nothing is sent: only whether there is a handshake is seen.
            context.wrap_socket(plain).close()
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:
        return False


class Renewed(ServiceClient):
    """Sends by another connection once a call has not reached the server and certificates or keys have changed. A client
    may live for days, and its SDK reads their files once.
    """

    def __init__(
        self,
        first: ServiceClient,
        settings: Mapping[str, Any],
        *,
        read: Callable[[], Mapping[str, Any]],
        connect: Callable[[Mapping[str, Any]], Awaitable[ServiceClient]],
        is_away: Callable[[RPCError], bool],
    ) -> None:
        super().__init__(first.config)
        self._by = first
        self._trust = _trust_of(settings)
        self._read = read
        self._connect = connect
        self._is_away = is_away
        self._is_renewing = False

    @property
    def worker_service_client(self) -> Any:
        return self._by.worker_service_client

    def update_rpc_metadata(self, metadata: Mapping[str, Union[str, bytes]]) -> None:
        self._by.update_rpc_metadata(metadata)

    def update_api_key(self, api_key: Optional[str]) -> None:
        self._by.update_api_key(api_key)

    async def _rpc_call(
        self,
        rpc: str,
        req: Message,
        resp_type: Type[ServiceResponse],
        *,
        service: str,
        retry: bool,
        metadata: Mapping[str, Union[str, bytes]],
        timeout: Optional[timedelta],
    ) -> ServiceResponse:
        by = self._by
        try:
            return await by._rpc_call(
                rpc, req, resp_type, service=service, retry=retry, metadata=metadata, timeout=timeout
            )
        except RPCError as error:
            if self._is_away(error) and by is self._by and not self._is_renewing:
                await self._renew()
            raise

    async def _renew(self) -> None:
        """Files that are just being replaced, or are not accepted yet, are looked at again after the next call."""
        self._is_renewing = True
        try:
            settings = self._read()
            if _trust_of(settings) != self._trust:
                self._by = await self._connect(settings)
                self._trust = _trust_of(settings)
        except (ConnectionError, RuntimeError, ValueError):
            pass
        finally:
            self._is_renewing = False


def _trust_of(settings: Mapping[str, Any]) -> Tuple[Any, ...]:
    return tuple(settings.get(name) for name in TRUST)
