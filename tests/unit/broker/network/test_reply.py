"""A reply is completed or cancelled, once."""

from __future__ import annotations

import pytest

from broker.network.reply import EncodedMessage, Reply, ReplyState, after


def test_a_reply_with_a_message_is_done() -> None:
    reply = Reply("message")
    assert (reply.is_done, reply.message) == (True, "message")


def test_a_reply_without_a_message_waits_for_one() -> None:
    reply = Reply()
    assert not reply.is_done
    reply.complete("message")
    assert (reply.is_done, reply.message) == (True, "message")


def test_the_connection_is_notified_of_the_completion_once() -> None:
    called: list[str] = []
    reply = Reply()
    reply.on_done(lambda: called.append("done"))
    reply.complete("message")
    assert called == ["done"]


@pytest.mark.parametrize(
    "reply", [Reply("message"), Reply.none(), Reply.close("bad")], ids=["message", "none", "close"]
)
def test_completing_twice_is_a_bug(reply: Reply) -> None:
    with pytest.raises(AssertionError, match="completes once"):
        reply.complete("another")


def test_no_response_is_done_and_has_no_message() -> None:
    reply = Reply.none()
    assert (reply.is_done, reply.state) == (True, ReplyState.NO_RESPONSE)


def test_a_closing_reply_carries_its_reason() -> None:
    reply = Reply.close("acks=0 failed")
    assert (reply.is_done, reply.state) == (True, ReplyState.CLOSE)
    assert reply.close_reason == "acks=0 failed"


def test_a_waiting_reply_may_end_by_closing() -> None:
    called: list[str] = []
    reply = Reply()
    reply.on_done(lambda: called.append("done"))
    reply.complete_by_closing("handler failed")
    assert (reply.state, reply.close_reason, called) == (
        ReplyState.CLOSE,
        "handler failed",
        ["done"],
    )


def test_cancelling_runs_every_callback_once() -> None:
    called: list[int] = []
    reply = Reply()
    reply.on_cancel(lambda: called.append(1))
    reply.on_cancel(lambda: called.append(2))
    reply.cancel()
    reply.cancel()
    assert (reply.cancelled, reply.is_done, called) == (True, False, [1, 2])


def test_a_failing_callback_does_not_stop_the_others() -> None:
    called: list[str] = []
    reply = Reply()
    reply.on_cancel(lambda: called.append("first"))
    reply.on_cancel(lambda: 1 // 0)
    reply.on_cancel(lambda: called.append("last"))
    with pytest.raises(ZeroDivisionError):
        reply.cancel()
    assert called == ["first", "last"]


def test_completing_a_cancelled_reply_has_no_effect() -> None:
    called: list[str] = []
    reply = Reply()
    reply.on_done(lambda: called.append("done"))
    reply.cancel()
    reply.complete("too late")
    reply.complete_by_closing("too late")
    assert (reply.cancelled, reply.message, called) == (True, None, [])


def test_cancelling_a_complete_reply_does_nothing() -> None:
    called: list[str] = []
    reply = Reply()
    reply.on_cancel(lambda: called.append("cancelled"))
    reply.complete("message")
    reply.cancel()
    assert (reply.cancelled, called) == (False, [])


def test_a_callback_added_after_the_cancellation_runs_at_once() -> None:
    called: list[str] = []
    reply = Reply()
    reply.cancel()
    reply.on_cancel(lambda: called.append("cancelled"))
    assert called == ["cancelled"]


def test_a_callback_on_a_complete_reply_is_never_called() -> None:
    reply = Reply("message")
    reply.on_cancel(lambda: pytest.fail("it was not cancelled"))
    reply.cancel()


def test_only_one_connection_waits_for_a_reply() -> None:
    reply = Reply()
    reply.on_done(lambda: None)
    with pytest.raises(AssertionError, match="one connection"):
        reply.on_done(lambda: None)
    with pytest.raises(AssertionError, match="not pending"):
        Reply("message").on_done(lambda: None)


def test_a_changed_reply_closes_the_connection_as_its_original_does() -> None:
    reply = Reply()
    changed = after(reply, lambda message: f"changed {message}")
    reply.complete_by_closing("lost")
    assert changed.state is ReplyState.CLOSE
    assert changed.close_reason == "lost"


def test_an_encoded_message_is_a_message() -> None:
    assert Reply(EncodedMessage(b"")).is_done
