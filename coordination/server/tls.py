"""The TLS context of the coordinator (edge), which follows its files.

A context is never changed: if a file has changed, the next connection gets a new context, and open
connections keep theirs. Files that cannot be used leave the last context in place.
"""

import math
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from coordination.errors import OUT_OF_DESCRIPTORS
from coordination.server.coordinator_config import ClientAuth, TlsConfig
from trust.changing_files import ChangingFiles
from trust.tls_alert import ServerContext
from trust.tls_store import SERVER_CIPHERS

_VERIFY_MODES: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.WANT: ssl.CERT_OPTIONAL,
    ClientAuth.NEED: ssl.CERT_REQUIRED,
}

RETRY_DELAY_S: Final = 10.0
"""Back-off after a lack of descriptors: opening an encrypted key may take a second of processor
time, in the loop, and a lack of descriptors is when many clients connect."""

log = structlog.get_logger(__name__)


class ServerTls:
    """Certificate, key and trusted authorities of the TLS listener."""

    def __init__(self, config: TlsConfig, clock: Callable[[], float]) -> None:
        """Read the files; `clock` returns seconds of a monotonic clock.

        Raises:
            OSError: a file cannot be used.
        """
        self._config = config
        self._clock = clock
        self._retry_at_s = -math.inf
        files = (
            config.certificate_file,
            config.key_file,
            config.key_password_file,
            config.ca_file,
        )
        self._files = ChangingFiles(each for each in files if each is not None)
        self._context = make_context(config)

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        # Also if they cannot be used, the next change is the next attempt.
        if self._clock() >= self._retry_at_s and self._files.have_changed():
            try:
                self._context = make_context(self._config)
                log.info("certificate.reloaded", file=str(self._config.certificate_file))
            except OSError as error:
                log.warning("certificate.not_reloaded", error=str(error))
                if error.errno in OUT_OF_DESCRIPTORS:
                    # No fault of the files.
                    self._files.forget()
                    self._retry_at_s = self._clock() + RETRY_DELAY_S
        return self._context


def make_context(config: TlsConfig) -> ssl.SSLContext:
    """Return a new context of the server.

    Raises:
        OSError: a file cannot be used; the message names it, and never a password.
    """
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_ciphers(SERVER_CIPHERS)
    context.verify_mode = _VERIFY_MODES[config.client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        # A resumed session would keep a certificate whose authority is not trusted any more.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    _load_key(context, config)
    if config.ca_file is not None:
        try:
            context.load_verify_locations(config.ca_file)
        except OSError as error:
            raise _unusable(config.ca_file, error) from None
    return context


def _load_key(context: ssl.SSLContext, config: TlsConfig) -> None:
    password = _key_password(config.key_password_file)
    try:
        # Without a password, OpenSSL would ask for one at the terminal.
        context.load_cert_chain(config.certificate_file, config.key_file, lambda: password)
    except OSError as error:
        raise _unusable(config.certificate_file, error, f" with {config.key_file}") from None
    except ValueError as error:
        raise OSError(f"cannot use {config.key_file}: {error}") from None


def _key_password(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text(encoding="utf-8").strip("\r\n")
    except OSError as error:
        raise _unusable(path, error) from None
    except UnicodeDecodeError:
        raise OSError(f"cannot use {path}: it is not UTF-8") from None


def _unusable(path: Path, error: OSError, more: str = "") -> OSError:
    is_tls = isinstance(error, ssl.SSLError)
    reason = (error.reason or "malformed") if isinstance(error, ssl.SSLError) else error.strerror
    text = (reason or str(error)).lower()
    unusable = OSError(f"cannot use {path}{more}: {text.replace('_', ' ') if is_tls else text}")
    unusable.errno = None if is_tls else error.errno
    return unusable
