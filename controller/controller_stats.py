"""The times that the controller takes for its events (decision), in milliseconds."""

from controller.controller_state import ControllerState
from monitoring.samples import Samples


class ControllerStats:
    """Times by the state of the controller, and times in the queue."""

    def __init__(self) -> None:
        self.timers: dict[ControllerState, Samples] = {}
        """Times of processing; of a kind of event that has occurred."""
        self.queue_time = Samples()
        """Times of waiting, of all events."""

    def on_event(self, state: ControllerState, duration_ms: float) -> None:
        """Note the time of an event with a state of its own."""
        if state is not ControllerState.IDLE:
            self.timers.setdefault(state, Samples()).add(duration_ms)
