"""The client without `await`, for scripts (composition).

    from ottla.sync import Consumer, Producer

    with Producer("localhost:9092") as producer:
        print(producer.send_and_wait("greetings", b"hello").offset)

Each class has the settings and the methods of its namesake in `ottla`, except `partition_streams`,
which is for tasks. Each call waits for its result; `send` and `send_nowait` return a future of it.
The client itself runs in an event loop of its own, in a background thread, and so do
serializers, interceptors and the callbacks of futures. The callbacks of `subscribe` run in yet
another thread, so that they may call the consumer. An object may be used by several threads.
Invariant: after `close` the thread has ended.
"""

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from typing import Any, Final, Self

from ottla.client.admin.admin import Admin as AsyncAdmin
from ottla.client.consumer.consumer import Consumer as AsyncConsumer
from ottla.client.errors import ClientClosedError, ConfigurationError
from ottla.client.producer.producer import Producer as AsyncProducer
from ottla.client.record import ConsumerRecord, RecordMetadata

__all__ = ["Admin", "Consumer", "Producer"]

CALLBACKS: Final = ("on_assigned", "on_revoked", "on_lost")
"""Arguments of `subscribe` that are callbacks."""
CLOSED: Final = "the client is not running: use `with`, and call it before the end of the block"
FORKED: Final = "the client runs in the process that forked this one: make a new one after the fork"
OWN_THREAD: Final = (
    "this function runs in the client's own thread, which cannot wait for a call of the client: "
    "let another thread make the call"
)


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A script that forgets to close its client must still be able to end.
        self._thread = threading.Thread(target=self._loop.run_forever, name="ottla", daemon=True)
        self._thread.start()
        self._process_id = os.getpid()
        self._lock = threading.Lock()
        self._has_ended = False

    @property
    def is_elsewhere(self) -> bool:
        """Whether the thread runs in the process that this one was forked from."""
        return self._process_id != os.getpid()

    def submit(self, method: Callable[..., Any], *arguments: Any, **settings: Any) -> Future[Any]:
        """Call a plain or async method in the loop; return a future of its result.

        Raises:
            ClientClosedError: the thread has ended or is elsewhere; the method was not called.
        """
        if self.is_elsewhere:
            raise ClientClosedError(FORKED)

        async def call() -> Any:
            result = method(*arguments, **settings)
            return await result if inspect.isawaitable(result) else result

        # Under the lock, since a loop that has been stopped would never answer.
        with self._lock:
            if self._has_ended:
                raise ClientClosedError(CLOSED)
            return asyncio.run_coroutine_threadsafe(call(), self._loop)

    def call(self, method: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
        """Call a plain or async method in the loop; return its result.

        Raises:
            ClientClosedError: the thread ended before the method did.
            RuntimeError: the caller runs in the loop, which cannot wait for itself.
        """
        self.require_other_thread()
        future = self.submit(method, *arguments, **settings)
        try:
            return future.result()
        except CancelledError:
            raise ClientClosedError(CLOSED) from None
        except BaseException:
            # Ctrl-C must also end the call in the other thread.
            future.cancel()
            raise

    def require_other_thread(self) -> None:
        """Require that the caller may wait for this loop.

        Raises:
            RuntimeError: the caller runs in the loop.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError(OWN_THREAD)

    def end(self) -> None:
        """Cancel the calls of other threads, stop the loop, and wait for the end of the thread."""
        with self._lock:
            self._has_ended = True
        asyncio.run_coroutine_threadsafe(self._cancel_calls(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel_calls(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class _Blocking:
    """A client whose methods wait for their results."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._thread: _LoopThread | None = None

    def start(self) -> None:
        """Connect to the cluster; `with` calls this.

        Raises:
            OttlaError: as `start` of the async client.
        """
        thread = _LoopThread()
        try:
            thread.call(self._inner.start)
        except BaseException:
            thread.end()
            raise
        self._thread = thread

    def close(self, *arguments: Any, **settings: Any) -> None:
        """Close the client, and end its thread; arguments as for the async client.

        After a wrong argument the client is still open. While another thread closes the client,
        this returns at once, because a callback that the other thread waits for may call it, too.
        """
        inspect.signature(self._inner.close).bind(*arguments, **settings)
        self._end(self._inner.close, *arguments, **settings)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        self._end(self._inner.__aexit__, kind, *details)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self._inner, name)

        def call(*arguments: Any, **settings: Any) -> Any:
            return self._running().call(method, *arguments, **settings)

        return call

    def _end(self, method: Callable[..., Any], *arguments: Any, **settings: Any) -> None:
        if self._thread is None or self._thread.is_elsewhere:
            return
        self._thread.require_other_thread()
        thread, self._thread = self._thread, None
        try:
            thread.call(method, *arguments, **settings)
        except ConfigurationError:
            # A timeout out of range: the records that were accepted still have to be sent.
            self._thread = thread
            raise
        except BaseException:
            thread.end()
            raise
        thread.end()

    def _running(self) -> _LoopThread:
        if self._thread is None:
            raise ClientClosedError(CLOSED)
        return self._thread


class Producer(_Blocking):
    """`ottla.Producer` without `await`."""

    def __init__(self, bootstrap_servers: Any, **settings: Any) -> None:
        """Configure the producer; settings as for `ottla.Producer`."""
        super().__init__(AsyncProducer(bootstrap_servers, **settings))

    def send(self, topic: str, value: Any = None, **record: Any) -> Future[RecordMetadata]:
        """Accept one record; return a future whose `result()` waits for the acknowledgement."""
        thread = self._running()
        accepted: Any = thread.call(_accept, self._inner, topic, value, record)
        return thread.submit(_identity, accepted)

    def send_nowait(self, topic: str, value: Any = None, **record: Any) -> Future[RecordMetadata]:
        """Accept one record without waiting for memory; return a future as `send` does."""
        thread = self._running()
        accepted: Any = thread.call(_accept_now, self._inner, topic, value, record)
        return thread.submit(_identity, accepted)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Return a block whose records become visible together, or not at all."""
        thread = self._running()
        block = self._inner.transaction()
        thread.call(block.__aenter__)
        try:
            yield
        except BaseException as error:
            if not thread.call(block.__aexit__, type(error), error, error.__traceback__):
                raise
        else:
            thread.call(block.__aexit__, None, None, None)


class Consumer(_Blocking):
    """`ottla.Consumer` without `await`."""

    def __init__(self, bootstrap_servers: Any, **settings: Any) -> None:
        """Configure the consumer; settings as for `ottla.Consumer`."""
        super().__init__(AsyncConsumer(bootstrap_servers, **settings))

    def subscribe(self, topics: Iterable[str] = (), **settings: Any) -> None:
        """Read topics as a member of the group; settings as for `ottla.Consumer.subscribe`."""
        callbacks = {
            name: _outside_loop(settings[name])
            for name in CALLBACKS
            if settings.get(name) is not None
        }
        self._running().call(self._inner.subscribe, topics, **{**settings, **callbacks})

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield records one by one, and wait for new ones; `fetch_batch` is faster.

        Leaving the loop loses no record: the next read continues after the last one.
        """
        thread = self._running()
        records = aiter(self._inner)
        try:
            while True:
                try:
                    yield thread.call(records.__anext__)
                except StopAsyncIteration:
                    return
        finally:
            # An iteration that outlives the client has nothing left to close.
            with suppress(ClientClosedError):
                thread.call(records.aclose)


class Admin(_Blocking):
    """`ottla.Admin` without `await`."""

    def __init__(self, bootstrap_servers: Any, **settings: Any) -> None:
        """Configure the client; settings as for `ottla.Admin`."""
        super().__init__(AsyncAdmin(bootstrap_servers, **settings))


def _outside_loop(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Return an async function that runs a plain callback in a thread, an async one in the loop."""
    if inspect.iscoroutinefunction(callback):
        return callback

    async def call(*arguments: Any) -> Any:
        result = await asyncio.to_thread(callback, *arguments)
        return await result if inspect.isawaitable(result) else result

    return call


async def _accept(producer: AsyncProducer, topic: str, value: Any, record: Any) -> list[Any]:
    # In a list, so that the acknowledgement is not awaited here.
    return [await producer.send(topic, value, **record)]


def _accept_now(producer: AsyncProducer, topic: str, value: Any, record: Any) -> list[Any]:
    return [producer.send_nowait(topic, value, **record)]


async def _identity(accepted: list[Any]) -> RecordMetadata:
    metadata: RecordMetadata = await accepted[0]
    return metadata
