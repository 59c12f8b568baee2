"""States of a controller: `controller.controller_state`."""

import typing

import pytest

from controller import events as e
from controller.controller_state import ControllerState, state_during

NAMELESS = {e.ProducerIdsRequested}


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (e.Reelect(), ControllerState.CONTROLLER_CHANGE),
        (e.BrokerChange(), ControllerState.BROKER_CHANGE),
        (e.UncleanElectionEnabled(), ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE),
        (e.UncleanElectionEnabled("t"), ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE),
    ],
)
def test_events_have_kafkas_state_numbers(event: e.Event, state: ControllerState) -> None:
    assert state_during(event) is state


def test_every_event_that_kafka_knows_has_a_state() -> None:
    from controller.controller_state import _STATES

    known = {*_STATES, e.UncleanElectionEnabled}
    assert set(typing.get_args(e.Event)) - known == NAMELESS
