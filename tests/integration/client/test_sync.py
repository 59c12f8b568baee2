"""The client without `await`, its metrics and its health, against a real broker."""

import os
import signal
import threading
from collections.abc import Sequence
from queue import Queue

import pytest

import ottla
from ottla import NewTopic, OttlaError, TopicPartition
from ottla.client.admin_model import ResourceType
from ottla.client.errors import BufferFullError, ClientClosedError, NoBrokerAvailableError
from ottla.client.serialization import json_deserializer, json_serializer
from ottla.sync import Admin, Consumer, Producer
from tests.conftest import BrokerProcess, StartBroker
from tests.ports import free_port
from tests.waiting import DEADLINE_S, until_sync

REFUSED = 3
"""Exit code of a forked process whose client refused to work."""


def test_a_script_needs_no_await(shared_broker: BrokerProcess) -> None:
    threads_before = set(threading.enumerate())
    with Admin(shared_broker.bootstrap) as admin:
        admin.create_topics([NewTopic("script", partitions=1)])
        assert "script" in admin.list_topics()
    with Producer(shared_broker.bootstrap, value_serializer=json_serializer) as producer:
        futures = [producer.send("script", {"n": n}) for n in range(100)]
        assert [future.result().offset for future in futures] == list(range(100))
        assert producer.send_and_wait("script", {"n": 100}).offset == 100
        assert producer.partitions("script") == [0]
    with Consumer(
        shared_broker.bootstrap,
        group_id="scripts",
        auto_offset_reset="earliest",
        value_deserializer=json_deserializer,
    ) as consumer:
        consumer.subscribe(["script"])
        for record in consumer:
            if record.value["n"] == 5:
                break
        rest = consumer.fetch_batch(10)
        assert [each.value["n"] for each in rest] == list(range(6, 16))
        consumer.commit()
        place = TopicPartition("script", 0)
        assert consumer.committed([place])[place].offset == 16
    assert set(threading.enumerate()) <= threads_before
    with pytest.raises(ClientClosedError):
        consumer.fetch_batch()


def test_a_record_that_may_not_wait_for_memory_has_a_future(shared_broker: BrokerProcess) -> None:
    with Producer(shared_broker.bootstrap) as producer:
        with pytest.raises(BufferFullError):
            producer.send_nowait("sent-at-once", b"unknown topic", partition=0)
        producer.send_and_wait("sent-at-once", b"first", partition=0)
        delivery = producer.send_nowait("sent-at-once", b"second", partition=0)
        assert delivery.result(timeout=DEADLINE_S).offset == 1


def test_transactions_are_blocks(shared_broker: BrokerProcess) -> None:
    with Producer(shared_broker.bootstrap, transactional_id="script") as producer:
        with producer.transaction():
            producer.send("ledger", b"kept")
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send("ledger", b"dropped").result(timeout=1 / 0)
    with Consumer(
        shared_broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign_topics("ledger")
        assert [record.value for record in consumer.fetch_batch()] == [b"kept"]
        assert consumer.fetch_batch(timeout_ms=200) == []


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_transaction_is_aborted(
    shared_broker: BrokerProcess, end: type[BaseException]
) -> None:
    topic = f"ended-by-{end.__name__}"
    with Producer(shared_broker.bootstrap, transactional_id=topic) as producer:

        def write_until_interrupted() -> None:
            with producer.transaction():
                producer.send(topic, b"dropped").result()
                raise end

        with pytest.raises(end):
            write_until_interrupted()
        with producer.transaction():
            producer.send(topic, b"kept")
    with Consumer(
        shared_broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign_topics(topic)
        assert [record.value for record in consumer.fetch_batch()] == [b"kept"]


def test_errors_arrive_in_the_thread_of_the_script(shared_broker: BrokerProcess) -> None:
    threads_before = set(threading.enumerate())
    with (
        pytest.raises(NoBrokerAvailableError),
        Producer(f"127.0.0.1:{free_port()}", request_timeout_ms=500),
    ):
        pass
    with Admin(shared_broker.bootstrap) as admin:
        with pytest.raises(OttlaError):
            admin.describe_topics(["no-such-topic"])
        with pytest.raises(AttributeError):
            admin.no_such_method()
    assert set(threading.enumerate()) <= threads_before


def test_callbacks_of_a_subscription_may_call_the_consumer(shared_broker: BrokerProcess) -> None:
    with Producer(shared_broker.bootstrap) as producer:
        for number in range(5):
            producer.send("called-back", b"%d" % number, partition=0).result()
    revoked: list[TopicPartition] = []
    with Consumer(
        shared_broker.bootstrap,
        group_id="called-back",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:

        def on_assigned(partitions: Sequence[TopicPartition]) -> None:
            for each in partitions:
                consumer.seek(each, 3)

        def on_revoked(partitions: Sequence[TopicPartition]) -> None:
            consumer.commit()
            revoked.extend(partitions)

        consumer.subscribe(["called-back"], on_assigned=on_assigned, on_revoked=on_revoked)
        assert [record.value for record in consumer.fetch_batch()] == [b"3", b"4"]
        consumer.unsubscribe()
        place = TopicPartition("called-back", 0)
        assert revoked == [place]
        assert consumer.committed([place])[place].offset == 5


def test_a_callback_in_the_thread_of_the_client_cannot_wait_for_it(
    shared_broker: BrokerProcess,
) -> None:
    refusals: Queue[BaseException] = Queue()
    # The record waits for the flush, so that it is not written before it has its callback.
    with Producer(shared_broker.bootstrap, linger_ms=60_000) as producer:

        def on_done(_: object) -> None:
            for call in (producer.flush, producer.close):
                try:
                    call()
                except RuntimeError as error:
                    refusals.put(error)

        producer.send("waited-for", b"record").add_done_callback(on_done)
        producer.flush()
        for _ in range(2):
            assert "client's own thread" in str(refusals.get(timeout=DEADLINE_S))
        last = producer.send("waited-for", b"next")
        producer.flush()
        assert last.result(timeout=DEADLINE_S).offset == 1


def test_close_ends_the_calls_of_other_threads(shared_broker: BrokerProcess) -> None:
    failures: Queue[BaseException] = Queue()
    admin = Admin(
        shared_broker.bootstrap,
        request_timeout_ms=600_000,
        retry_backoff_ms=500_000,
        retry_backoff_max_ms=500_000,
    )
    admin.start()
    begun = threading.Event()

    def ask_a_missing_broker() -> None:
        begun.set()
        try:
            admin.describe_configs(ResourceType.BROKER, "99")
        except OttlaError as error:
            failures.put(error)

    threading.Thread(target=ask_a_missing_broker, daemon=True).start()
    begun.wait()
    # By the time of the answer, the other call waits for its next attempt.
    admin.describe_cluster()
    admin.close()
    assert isinstance(failures.get(timeout=DEADLINE_S), ClientClosedError)


@pytest.mark.parametrize("wrong", [{"timeout_ms": -1}, {"timeout_s": 1}])
def test_a_wrong_argument_of_close_leaves_the_client_open(
    shared_broker: BrokerProcess, wrong: dict[str, int]
) -> None:
    with Producer(shared_broker.bootstrap, linger_ms=60_000) as producer:
        delivery = producer.send("kept-open", b"accepted")
        with pytest.raises((ValueError, TypeError), match="timeout"):
            producer.close(**wrong)
        producer.flush()
        assert delivery.result(timeout=DEADLINE_S).topic == "kept-open"


def test_an_iteration_may_outlive_the_client(shared_broker: BrokerProcess) -> None:
    with Producer(shared_broker.bootstrap) as producer:
        producer.send_and_wait("outlived", b"record")
    with Consumer(shared_broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign_topics("outlived")
        records, others = iter(consumer), iter(consumer)
        assert next(records).value == b"record"
    with pytest.raises(ClientClosedError):
        next(records)
    with pytest.raises(ClientClosedError):
        next(others)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_client_refuses_to_work_in_a_forked_process(shared_broker: BrokerProcess) -> None:
    with Producer(shared_broker.bootstrap) as producer:
        producer.send_and_wait("forked", b"parent")
        child_id = os.fork()
        if child_id == 0:
            try:
                producer.send_and_wait("forked", b"child")
            except ClientClosedError:
                producer.close()
                os._exit(REFUSED)
            finally:
                os._exit(1)
        statuses: list[int] = []

        def has_ended() -> bool:
            pid, status = os.waitpid(child_id, os.WNOHANG)
            statuses.append(status)
            return pid == child_id

        try:
            until_sync(has_ended, "the end of the child")
        except AssertionError:
            os.kill(child_id, signal.SIGKILL)
            os.waitpid(child_id, 0)
            raise
        assert os.waitstatus_to_exitcode(statuses[-1]) == REFUSED
        assert producer.send_and_wait("forked", b"parent").offset == 1


async def test_metrics_and_health_follow_the_work(start_broker: StartBroker) -> None:
    broker = start_broker(overrides={"group.initial.rebalance.delay.ms": "0"})
    async with (
        ottla.Producer(broker.bootstrap, retry_backoff_ms=20) as producer,
        ottla.Consumer(
            broker.bootstrap, auto_offset_reset="earliest", request_timeout_ms=2_000
        ) as consumer,
    ):
        for number in range(20):
            await producer.send("metered", b"%d" % number, partition=0)
        await producer.flush()
        sent = producer.metrics()
        assert (sent["record-send-total"], sent["record-error-total"]) == (20, 0)
        assert sent["buffer-available-bytes"] == sent["buffer-total-bytes"]
        (place,) = await consumer.assign_topics("metered")
        assert consumer.lag(place) is None
        await consumer.fetch_batch(5)
        assert (consumer.highwater(place), consumer.lag(place)) == (20, 15)
        read = consumer.metrics()
        assert (read["records-lag-max"], read["assigned-partitions"]) == (15, 1)
        assert read["records-consumed-total"] == 20
        assert read["connection-count"] >= 1
        assert producer.health().is_healthy
        assert consumer.health().is_healthy
        broker.kill()
        with pytest.raises(OttlaError):
            await consumer.partitions_of("another")
        health = consumer.health()
        assert not health.is_healthy
        assert "no broker could be reached" in health.reason
        await producer.close(timeout_ms=0)
    assert not producer.health().is_healthy
