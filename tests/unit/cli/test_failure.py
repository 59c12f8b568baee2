"""How commands end: with the exit code of their failure, and one sentence."""

import pytest
import typer

from ottla.cli.failure import CommandError, guarded, run_client, usage_error
from ottla.cli.options import parse_settings
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
        pytest.param(
            FileNotFoundError(2, "No such file or directory", "x.log"),
            1,
            "ottla: x.log: No such file or directory\n",
            id="a file is missing",
        ),
        pytest.param(OSError("odd"), 1, "ottla: odd\n", id="an error without a file"),
    ],
)
def test_a_failure_is_one_sentence_and_an_exit_code(
    error: BaseException, exit_code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end_of(error) == exit_code
    assert capsys.readouterr() == ("", sentence)


def test_a_bug_is_not_hidden() -> None:
    @guarded
    def command() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        command()


def test_what_the_client_raises_becomes_the_commands_failure() -> None:
    async def work() -> None:
        raise NoBrokerAvailableError("start one")

    with pytest.raises(CommandError, match="start one"):
        run_client(work())


def test_the_clients_answer_is_returned() -> None:
    async def work() -> int:
        return 7

    assert run_client(work()) == 7


def test_wrong_usage_has_its_own_exit_code() -> None:
    with pytest.raises(CommandError) as ended:
        usage_error("choose")
    assert ended.value.exit_code == 2


def test_settings_are_split_at_the_first_equals_sign() -> None:
    assert parse_settings(None) == {}
    assert parse_settings(["a=1", "b = x=y "]) == {"a": "1", "b": "x=y"}


@pytest.mark.parametrize("pair", ["a", "=1", " =1"])
def test_a_setting_without_a_key_or_value_is_refused(pair: str) -> None:
    with pytest.raises(typer.BadParameter, match="no KEY=VALUE"):
        parse_settings([pair])
