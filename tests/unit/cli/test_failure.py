"""Failures of commands: each has an exit code and one sentence."""

import pytest
import typer

from ottla.cli.failure import CommandError, guarded, run_client, usage_error
from ottla.cli.options import parse_settings
from ottla.cli.termination import Terminated
from ottla.client.errors import NoBrokerAvailableError


def end_of(error: BaseException) -> int:
    @guarded
    def command() -> None:
        raise error

    with pytest.raises(typer.Exit) as ended:
        command()
    return ended.value.exit_code


@pytest.mark.parametrize(
    ("error", "exit_code", "sentence"),
    [
        pytest.param(CommandError("do this"), 1, "ottla: do this\n", id="failed"),
        pytest.param(CommandError("not so", 2), 2, "ottla: not so\n", id="usage"),
        pytest.param(KeyboardInterrupt(), 130, "", id="Ctrl-C is quiet"),
        pytest.param(Terminated(), 143, "", id="SIGTERM is quiet"),
        pytest.param(
            FileNotFoundError(2, "No such file or directory", "x.log"),
            1,
            "ottla: x.log: No such file or directory\n",
            id="a file is missing",
        ),
        pytest.param(OSError("odd"), 1, "ottla: odd\n", id="an error without a file"),
    ],
)
def test_failed_command_prints_one_sentence_and_sets_its_exit_code(
    error: BaseException, exit_code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end_of(error) == exit_code
    assert capsys.readouterr() == ("", sentence)


def test_unexpected_error_propagates() -> None:
    @guarded
    def command() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        command()


def test_client_error_becomes_a_command_error() -> None:
    async def work() -> None:
        raise NoBrokerAvailableError("start one")

    with pytest.raises(CommandError, match="start one"):
        run_client(work())


def test_each_part_that_failed_has_its_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    async def work() -> None:
        error = NoBrokerAvailableError("topic a: no.")
        error.add_note("topic b: neither.")
        raise error

    with pytest.raises(CommandError) as caught:
        run_client(work())
    assert end_of(caught.value) == 1
    assert capsys.readouterr().err == "ottla: topic a: no.\nottla: topic b: neither.\n"


def test_run_client_returns_the_result() -> None:
    async def work() -> int:
        return 7

    assert run_client(work()) == 7


def test_wrong_usage_has_exit_code_2() -> None:
    with pytest.raises(CommandError) as ended:
        usage_error("choose")
    assert ended.value.exit_code == 2


def test_setting_is_split_at_its_first_equals_sign() -> None:
    assert parse_settings(None) == {}
    assert parse_settings(["a=1", "b = x=y "]) == {"a": "1", "b": "x=y"}


@pytest.mark.parametrize("pair", ["a", "=1", " =1"])
def test_setting_without_a_key_or_value_is_rejected(pair: str) -> None:
    with pytest.raises(typer.BadParameter, match="not of the form KEY=VALUE"):
        parse_settings([pair])
