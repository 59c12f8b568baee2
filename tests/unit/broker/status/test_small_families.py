"""Metrics of quotas, of the controller and of the coordinator."""

from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, QuotaEntity
from broker.status.controller_metrics import TIMERS, controller_pieces
from broker.status.quota_metrics import MAX_CLIENTS, quota_pieces
from controller.controller_state import ControllerState
from controller.controller_stats import ControllerStats


def text_of(quotas: ClientQuotas) -> str:
    return "".join(quota_pieces(quotas, 0))


def test_clients_with_a_quota_show_their_rate_and_their_delay() -> None:
    quotas = ClientQuotas()
    entity = QuotaEntity.of([("client-id", None)])
    quotas.set(entity, {PRODUCER_BYTE_RATE: 100.0, CONSUMER_BYTE_RATE: 1e9})
    quotas.take(PRODUCER_BYTE_RATE, "alice", 'a"b', 11_000, 0)
    quotas.take(CONSUMER_BYTE_RATE, "alice", "c", 10, 0)
    text = text_of(quotas)
    client = 'user="",client_id="a\\"b"'
    assert f"kafka_server_produce_byte_rate{{{client}}} 1100\n" in text
    assert f"kafka_server_produce_throttle_time{{{client}}} 100000\n" in text
    assert 'kafka_server_fetch_throttle_time{user="",client_id="c"} 0\n' in text


def test_only_the_clients_that_were_active_last_are_shown() -> None:
    quotas = ClientQuotas()
    quotas.set(QuotaEntity.of([("client-id", None)]), {PRODUCER_BYTE_RATE: 100.0})
    for number in range(MAX_CLIENTS + 5):
        quotas.take(PRODUCER_BYTE_RATE, "", f"client-{number}", 1, 0)
    text = text_of(quotas)
    assert text.count("\nkafka_server_produce_byte_rate{") == MAX_CLIENTS
    assert 'client_id="client-4"' not in text
    assert f'client_id="client-{MAX_CLIENTS + 4}"' in text


def test_each_kind_of_event_of_the_controller_has_a_timer() -> None:
    stats = ControllerStats()
    stats.on_event(ControllerState.BROKER_CHANGE, 12.0)
    stats.on_event(ControllerState.IDLE, 99.0)
    timers = {state.name: each for state, each in stats.timers.items()}
    assert timers.keys() == {"BROKER_CHANGE"}
    text = "".join(controller_pieces(timers, stats.queue_time))
    elections = "kafka_controller_controllerstats_leaderelectionrateandtimems"
    assert f'{elections}{{quantile="0.99"}} 12\n' in text
    assert f"{elections}_count 1\n" in text
    assert "kafka_controller_controllereventmanager_eventqueuetimems_count 0\n" in text
    named = {state.name for state in ControllerState}
    assert TIMERS.keys() == named - {"IDLE", "CONTROLLER_SHUTDOWN"}
