"""`python -m coordination`: the coordinator as a daemon, and its offline commands (composition)."""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Final

import structlog

from coordination import daemon
from coordination.errors import OUT_OF_THREADS, DataError, is_out_of_threads
from coordination.protocol.messages import DEFAULT_PORT
from coordination.server.coordinator_config import (
    DEFAULT_COMMANDS,
    DEFAULT_CONNECTIONS_PER_ADDRESS,
    DEFAULT_TICK_MS,
    Address,
    ClientAuth,
    CoordinatorConfig,
    PasswordKind,
    TlsConfig,
    parse_words,
)
from coordination.server.coordinator_log import set_up_logging
from coordination.server.disk.data_dir import DataDir
from coordination.server.disk.state_recovery import recover, truncate_at
from coordination.server.disk.zookeeper_export import export_zookeeper, ttl_warning
from trust.jaas import DIGEST_MODULE, JaasError, parse_login_file

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
SERVER_SECTION: Final = "Server"
"""Section of the login file with the users, as in ZooKeeper's."""
READABLE_BY_OTHERS: Final = 0o077
DEFAULT_DATA_DIR: Final = Path("coordinator-data")

log = structlog.get_logger(__name__)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parsed = argparse.ArgumentParser(prog="ottla coordinator", description=__doc__)
    parsed.add_argument("--listen", default=f"127.0.0.1:{DEFAULT_PORT}", metavar="HOST:PORT")
    parsed.add_argument("--data-dir", type=Path, default=DEFAULT_DATA_DIR)
    parsed.add_argument("--tick", type=int, default=DEFAULT_TICK_MS, metavar="MS")
    parsed.add_argument("--min-session-timeout", type=int, metavar="MS")
    parsed.add_argument("--max-session-timeout", type=int, default=60_000, metavar="MS")
    parsed.add_argument("--linger", type=int, default=250, metavar="MS")
    parsed.add_argument("--max-connections", type=int, default=60_000)
    parsed.add_argument(
        "--max-connections-per-address", type=int, default=DEFAULT_CONNECTIONS_PER_ADDRESS
    )
    parsed.add_argument(
        "--four-letter-words", default=",".join(sorted(DEFAULT_COMMANDS)), metavar="WORD,..."
    )
    parsed.add_argument("--handshake-timeout", type=int, default=10_000, metavar="MS")
    parsed.add_argument("--server-id", type=int, default=1)
    parsed.add_argument(
        "--passwords", choices=[kind.value for kind in PasswordKind], default="keyed"
    )
    parsed.add_argument("--super-digest", metavar="USER:SHA1")
    parsed.add_argument("--super-digest-file", type=Path, metavar="FILE")
    parsed.add_argument("--login-config", type=Path, metavar="FILE")
    parsed.add_argument("--super-user", action="append", default=[], metavar="USER")
    parsed.add_argument("--x509-super-user", metavar="NAME")
    parsed.add_argument("--enforce-auth-schemes", default="", metavar="SCHEME,...")
    parsed.add_argument("--container-check-interval", type=int, default=60_000, metavar="MS")
    parsed.add_argument("--wal-fsync", choices=["always", "off"], default="always")
    parsed.add_argument("--tls-listen", metavar="HOST:PORT")
    parsed.add_argument("--tls-cert", type=Path, metavar="FILE")
    parsed.add_argument("--tls-key", type=Path, metavar="FILE")
    parsed.add_argument("--tls-key-password-file", type=Path, metavar="FILE")
    parsed.add_argument("--tls-ca", type=Path, metavar="FILE")
    parsed.add_argument("--tls-client-auth", choices=[each.value for each in ClientAuth])
    parsed.add_argument("--metrics-listen", metavar="HOST:PORT")
    parsed.add_argument("--truncate-at", metavar="FILE:OFFSET")
    parsed.add_argument("--export-zookeeper", type=Path, metavar="DIR")
    return parsed


def config_from(options: argparse.Namespace) -> CoordinatorConfig:
    """Return the configuration given by the options.

    Raises:
        ValueError: an option is out of its range.
        OSError: a file cannot be read.
    """
    least = options.min_session_timeout
    return CoordinatorConfig(
        listen=Address.parse(options.listen),
        tls=_tls(options),
        metrics_listen=Address.parse(options.metrics_listen) if options.metrics_listen else None,
        tick_ms=options.tick,
        min_session_timeout_ms=2 * options.tick if least is None else least,
        max_session_timeout_ms=options.max_session_timeout,
        linger_ms=options.linger,
        max_connections=options.max_connections,
        max_connections_per_address=options.max_connections_per_address,
        commands=parse_words(options.four_letter_words),
        container_check_interval_ms=options.container_check_interval,
        handshake_timeout_ms=options.handshake_timeout,
        server_id=options.server_id,
        passwords=PasswordKind(options.passwords),
        super_digest=_super_digest(options),
        users={} if options.login_config is None else _users(options.login_config),
        super_users=frozenset(options.super_user),
        x509_super_user=options.x509_super_user,
        required_schemes=parse_words(options.enforce_auth_schemes),
        does_sync=options.wal_fsync == "always",
    )


def _super_digest(options: argparse.Namespace) -> str | None:
    if options.super_digest_file is None:
        given: str | None = options.super_digest
        return given
    if options.super_digest is not None:
        raise ValueError("--super-digest and --super-digest-file exclude each other")
    return _text(options.super_digest_file).strip()


def _users(path: Path) -> dict[str, str]:
    text = _text(path)
    if path.stat().st_mode & READABLE_BY_OTHERS:
        log.warning("login_config.readable_by_others", file=str(path))
    try:
        modules = parse_login_file(text).get(SERVER_SECTION, ())
    except JaasError as error:
        raise ValueError(f"{path} {error}") from None
    found = {name: each for module in modules for name, each in module.passwords.items()}
    if [each.name for each in modules] != [DIGEST_MODULE] or not found:
        raise ValueError(
            f"{path} must have a section {SERVER_SECTION} with {DIGEST_MODULE} and options "
            'user_NAME="PASSWORD"'
        )
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8") from None
    except OSError as error:
        raise OSError(f"cannot read {path}: {error.strerror}") from None


def _tls(options: argparse.Namespace) -> TlsConfig | None:
    if options.tls_listen is None:
        return None
    if options.tls_cert is None or options.tls_key is None:
        raise ValueError("--tls-listen needs --tls-cert and --tls-key")
    implied = ClientAuth.NONE if options.tls_ca is None else ClientAuth.NEED
    return TlsConfig(
        listen=Address.parse(options.tls_listen),
        certificate_file=options.tls_cert,
        key_file=options.tls_key,
        key_password_file=options.tls_key_password_file,
        ca_file=options.tls_ca,
        client_auth=ClientAuth(options.tls_client_auth or implied),
    )


def main(argv: list[str]) -> int:
    """Run the daemon, or one offline command; return the exit code."""
    options = parser().parse_args(argv)
    set_up_logging()
    try:
        if options.truncate_at is not None:
            return _truncate(options.data_dir, options.truncate_at)
        if options.export_zookeeper is not None:
            return _export(options.data_dir, options.export_zookeeper)
        config = config_from(options)
    except ValueError as error:
        return _complain(str(error), EXIT_USAGE)
    except (DataError, OSError) as error:
        return _complain(str(error), EXIT_FAILED)
    return _run(config, options.data_dir)


def _run(config: CoordinatorConfig, directory: Path) -> int:
    def on_ready(port: int) -> None:
        _say(f"ready {config.listen.host}:{port}")

    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(daemon.run_until_signal(config, directory, on_ready))
    except (DataError, OSError) as error:
        return _complain(str(error), EXIT_FAILED)
    except RuntimeError as error:
        if not is_out_of_threads(error):
            raise
        return _complain(OUT_OF_THREADS, EXIT_FAILED)
    return EXIT_OK


def _loop_factory() -> "type[asyncio.AbstractEventLoop] | None":
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


def _truncate(directory: Path, place: str) -> int:
    data_dir = DataDir(directory)
    try:
        for path in truncate_at(data_dir, place):
            _say(f"set aside: {path}")
    finally:
        data_dir.close()
    return EXIT_OK


def _export(directory: Path, target: Path) -> int:
    data_dir = DataDir(directory)
    try:
        state = recover(data_dir.path, data_dir.identity).state
        _say(f"written: {export_zookeeper(state, target)}")
        if (warning := ttl_warning(state)) is not None:
            _warn(warning)
    finally:
        data_dir.close()
    return EXIT_OK


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _warn(text: str) -> None:
    sys.stderr.write(f"ottla coordinator: {text}\n")


def _complain(text: str, code: int) -> int:
    _warn(text)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
