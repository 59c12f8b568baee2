"""Addresses at which no process can listen: `kafkawire.address`."""

import pytest

from kafkawire.address import AddressError, check_address


@pytest.mark.parametrize("host", ["a", "a.example.", "127.0.0.1", "::1", "fe80::1%eth0", "bücher"])
@pytest.mark.parametrize("port", [1, 65_535])
def test_an_address_that_may_exist_passes(host: str, port: int) -> None:
    check_address(host, port)


@pytest.mark.parametrize("port", [-1, 0, 65_536, 2**40])
def test_a_port_outside_the_range_is_refused(port: int) -> None:
    with pytest.raises(AddressError, match=f"port {port} is not within 1..65535"):
        check_address("127.0.0.1", port)


@pytest.mark.parametrize("host", ["", ".a", "two..dots", "x" * 64, "127.0.0.1\0", "\ud800"])
def test_a_name_that_no_host_can_have_is_refused(host: str) -> None:
    with pytest.raises(AddressError) as caught:
        check_address(host, 9092)
    assert str(caught.value) == f"{host!r} is not the name of a host"
