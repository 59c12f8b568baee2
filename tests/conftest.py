"""Shared fixtures. An edge: real broker processes, each on a free port with its own directory.

`broker_process` is one running broker; `start_broker` starts any number of brokers, also on the
data of an earlier one. Each process is stopped by its own id when the test ends.
"""

import collections
import gc
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import hypothesis
import pytest

from tests import line_counter, planted_secrets
from tests.programs import Program

if os.environ.get("OTTLA_TEST_COMPILED"):
    # Before any import of our modules, so that the tests run against the compiled ones.
    import tests.compiled  # noqa: F401

# The many objects of a collection live until the end, so there is no garbage to look for.
gc.disable()

# The programs under test run as users start them, with buffered output.
os.environ.pop("PYTHONUNBUFFERED", None)

# Under nohup, programs started by tests would inherit the ignored signal.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Prefixes of the names of tests that run without coverage. Some draw random examples, so their
# coverage differs between runs. Others try thousands of cases and run lines that no test is about.
# Separate broker processes are not counted either, except for the brokers that all tests of a
# module share.
UNCOUNTED = (
    "benchmarks/",
    "tests/analytics/histories/",
    "tests/analytics/test_naive",
    "tests/analytics/test_stream.py::test_stream_restarted_anywhere",
    "tests/integration/broker/test_bad_input.py::test_ten_thousand_connections",
    "tests/integration/broker/test_crash.py",
    "tests/integration/broker/test_network_hostile.py",
    "tests/integration/broker/test_network_leak.py",
    "tests/integration/cluster/test_rounds.py",
    "tests/integration/coordination/test_crash.py",
    "tests/integration/scripts/",
    "tests/integration/storage/",
    "tests/interop/",
    "tests/property/",
    "tests/simulation/coordination/",
    "tests/simulation/world/",
    "tests/simulation/zookeeper/test_memberships.py",
    "tests/unit/cli/test_documented_commands.py",
    "tests/unit/coordination/protocol/test_golden_frames.py",
    "tests/unit/coordination/server/disk/test_fault_matrix.py",
    "tests/unit/storage/test_disk_full.py::test_wherever_space_runs_out",
    "tests/unit/storage/log/test_loading.py::test_a_flipped_bit_anywhere",
    "tests/unit/storage/log/test_loading.py::test_flipped_bit_in_an_index",
    "tests/unit/storage/log/test_segment_split.py::test_a_crash_at_each_change",
    "tests/unit/storage/log/test_swap_crash.py",
    "tests/unit/storage/test_fault_matrix.py",
    "tests/unit/test_house.py",
    "tests/unit/test_structure.py",
)
# Tests that mostly wait for other processes. Their files alternate with other files, so that the
# load on the cores is even.
WAITING = ("tests/analytics/test_spark.py", "tests/integration/", "tests/interop/clients/")
# The longest files start first, so that no worker runs one of them alone at the end.
LONGEST = (
    "tests/analytics/test_spark.py",
    "tests/integration/scripts/test_demo.py",
    "tests/simulation/coordination/test_cluster.py",
)
# A fraction of the usual limit of 1,024 for a process.
MANY_OPEN_FILES = 200
SEED = "hypothesis_seed"
READY_EVENT = "broker.started"
WITHOUT_RETENTION = {"log.initial.task.delay.ms": "3600000"}
"""Overrides for shared brokers: records of tests have old timestamps, and retention begins after 30
seconds, so that on a slow machine it would delete them under the tests."""
# Far more than a broker needs, because other tests and their processes share the machine.
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
LOG_LINES_SHOWN = 40

Event = Mapping[str, object]


# Fresh examples in every run, even with CI set. No deadline: times depend on the machine's load.
hypothesis.settings.register_profile(
    "fresh",
    derandomize=False,
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("fresh")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.option.hypothesis_seed is None:
        # One seed for all random examples, the same in all workers.
        inputs = getattr(config, "workerinput", {})
        config.option.hypothesis_seed = inputs.get(SEED) or str(secrets.randbits(32))
    planted_secrets.begin()
    planted_secrets.watch_tests()
    # A shell starts background jobs with SIGINT ignored, and child processes inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    # A worker gets the command's arguments, but not the options set in `pytest_configure`.
    node.workerinput[SEED] = node.config.option.hypothesis_seed


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for marker in metafunc.definition.iter_markers("fresh_seeds"):
        # All workers must collect the same seeds.
        seed = metafunc.config.option.hypothesis_seed
        dice = random.Random(f"{seed} {metafunc.definition.nodeid}")
        seeds = [dice.getrandbits(32) for _ in range(marker.args[0])]
        metafunc.parametrize("seed", seeds, ids=[f"seed{seed}" for seed in seeds])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if line_counter.IS_ON:
        line_counter.save()
    if planted_secrets.findings() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure() -> None:
    planted_secrets.end()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # A failed test may show the secrets that it compares.
    if report.passed:
        planted_secrets.check(f"output of {report.nodeid}", *(text for _, text in report.sections))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    seed = config.option.hypothesis_seed
    terminalreporter.write_line(f"random examples: repeat with --hypothesis-seed={seed}")
    found = planted_secrets.findings()
    count = planted_secrets.watched_count()
    terminalreporter.write_line(f"planted secrets: {len(found)} found, {count} processes searched")
    for text in found:
        terminalreporter.write_line(text)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if line_counter.IS_ON and (item.nodeid.startswith(UNCOUNTED) or _draws(item)):
            item.add_marker("uncounted")
    items[:] = scheduled(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    if item.get_closest_marker("uncounted") is None:
        return (yield)
    with line_counter.paused():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the logs of the brokers that a failed test has started."""
    report = yield
    if report.failed:
        started: list[BrokerProcess] = item.stash.get(STARTED, [])
        for number, broker in enumerate(started):
            report.sections.append((f"Log of broker {number}", broker.log_tail()))
    return report


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Close the files that tests have left to the garbage collector, once there are many.

    A handler of SIGINT that a test has left would change the tests after it: it fails that test.
    """
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    assert handler is signal.default_int_handler, f"the test has left {handler} for SIGINT"
    is_last_of_file = nextitem is None or nextitem.path != item.path
    if is_last_of_file and sum(1 for _ in Path("/proc/self/fd").iterdir()) > MANY_OPEN_FILES:
        gc.collect()


def _draws(item: pytest.Item) -> bool:
    """Whether hypothesis draws the examples of the test."""
    return isinstance(item, pytest.Function) and hypothesis.is_hypothesis_test(item.obj)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def scheduled(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the longest files first, then the waiting files spread evenly among the others."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    groups: tuple[list[list[pytest.Item]], list[list[pytest.Item]]] = ([], [])
    for tests in files.values():
        groups[tests[0].nodeid.startswith(WAITING)].append(tests)
    placed = [(place / len(group), tests) for group in groups for place, tests in enumerate(group)]
    placed.sort(key=lambda each: (not each[1][0].nodeid.startswith(LONGEST), each[0]))
    return [item for _, tests in placed for item in tests]


class BrokerProcess:
    """A broker in its own process; a thread reads its log, so that tests can wait for events.

    The broker logs one JSON object per line, because its standard error is no terminal. With an
    `environment`, which extends that of the test, the broker runs in a new interpreter.
    """

    def __init__(
        self,
        data_dir: Path,
        overrides: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.overrides = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(data_dir),
            **overrides,
        }
        self.events: list[Event] = []
        self.output: collections.deque[str] = collections.deque(maxlen=10_000)
        self._news = threading.Condition()
        self._has_ended = False
        self.process = self._start(environment)
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()

    def _start(self, environment: Mapping[str, str] | None) -> Program | subprocess.Popen[str]:
        if environment is None:
            return Program("broker", self._arguments(), stderr=subprocess.PIPE)
        program = ["broker"]
        if line_counter.VARIABLE in environment:
            program.insert(0, "tests.counted_program")
        return subprocess.Popen(
            [sys.executable, "-m", *program, *self._arguments()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        )

    def _arguments(self) -> list[str]:
        mark = planted_secrets.MARK
        hidden = {key: value for key, value in self.overrides.items() if mark in value}
        shown = [f"{key}={value}" for key, value in self.overrides.items() if key not in hidden]
        words = [word for pair in shown for word in ("--override", pair)]
        if hidden:
            # After the imports above, which decide how our modules are loaded.
            from broker.config.properties import format_properties

            # Others can list the arguments of a process, so secrets go by file.
            file = self.data_dir.with_name(f"{self.data_dir.name}.properties")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(format_properties(hidden))
            words.insert(0, str(file))
        return words

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self._note(line)
        with self._news:
            self._has_ended = True
            self._news.notify_all()

    def _note(self, line: str) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        with self._news:
            self.output.append(line)
            if isinstance(event, dict):
                self.events.append(event)
            self._news.notify_all()

    def wait_for_event(
        self,
        name: str,
        timeout_s: float = READY_TIMEOUT_S,
        where: Callable[[Event], bool] = lambda _event: True,
    ) -> Event:
        """Return the first event `name` that `where` accepts, as soon as the broker logs it.

        Raises:
            AssertionError: the process ended or the timeout passed without such an event.
        """

        def found() -> Event | None:
            return next((e for e in self.events if e.get("event") == name and where(e)), None)

        with self._news:
            self._news.wait_for(lambda: found() is not None or self._has_ended, timeout_s)
            event = found()
        if event is None:
            raise AssertionError(f"no event {name!r} in the broker's log:\n{self.log_tail()}")
        return event

    def log_tail(self) -> str:
        """Return the last lines of output, for the message of a failure."""
        return "".join(list(self.output)[-LOG_LINES_SHOWN:])

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT` of the first listener, once the broker is ready."""
        addresses = self.wait_for_event(READY_EVENT)["bound_addresses"]
        assert isinstance(addresses, list)
        return str(addresses[0])

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Stop the process (SIGTERM), wait for its end, and return its exit code."""
        return self._end(signal.SIGTERM, timeout_s)

    def kill(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """End the process at once (SIGKILL), as a crash would, and return its exit code."""
        return self._end(signal.SIGKILL, timeout_s)

    def _end(self, number: signal.Signals, timeout_s: float) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            exit_code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(timeout_s)
            raise AssertionError(
                f"the broker did not stop within {timeout_s} s:\n{self.log_tail()}"
            ) from None
        self._reader.join(timeout_s)
        return exit_code


class StartBroker(Protocol):
    """A function that starts a broker, waits until it is ready, and returns it."""

    def __call__(
        self, data_dir: Path | None = None, overrides: Mapping[str, str] | None = None
    ) -> BrokerProcess:
        """Start on `data_dir` (default: a new directory) with overrides of Kafka's config keys."""


@pytest.fixture(scope="session")
def counted() -> Mapping[str, str]:
    """Additional environment for a process whose lines coverage counts, if it counts any."""
    # The marks are in the sources only, not in compiled modules.
    return {line_counter.VARIABLE: "1", "OTTLA_PURE_PYTHON": "1"} if line_counter.IS_ON else {}


STARTED = pytest.StashKey[list[BrokerProcess]]()
"""The brokers that a test has started."""


@pytest.fixture
def start_broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[StartBroker]:
    """A function that starts brokers; the fixture stops them at the end of the test."""
    started: list[BrokerProcess] = []
    request.node.stash[STARTED] = started

    def start(
        data_dir: Path | None = None, overrides: Mapping[str, str] | None = None
    ) -> BrokerProcess:
        broker = BrokerProcess(data_dir or tmp_path / f"broker-{len(started)}", overrides or {})
        started.append(broker)
        broker.wait_for_event(READY_EVENT)
        return broker

    yield start
    # Stopped, not killed: a broker that ignores SIGTERM is a failure.
    for broker in started:
        broker.stop()


@pytest.fixture(scope="module")
def shared_broker(
    tmp_path_factory: pytest.TempPathFactory, counted: Mapping[str, str]
) -> Iterator[BrokerProcess]:
    """One running broker for all tests of a module; each test uses its own topics."""
    # Groups need not wait for more members before their first rebalance.
    overrides = {"group.initial.rebalance.delay.ms": "0", **WITHOUT_RETENTION}
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), overrides, counted)
    try:
        broker.wait_for_event(READY_EVENT)
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def broker_process(start_broker: StartBroker) -> BrokerProcess:
    """One running broker with Kafka's defaults, on a free port of 127.0.0.1."""
    return start_broker()
