"""Names of cipher suites and the choice among them: `trust.cipher_suite`."""

import ssl

import pytest

from trust.cipher_suite import OPENSSL_NAMES, TLS_1_3, CipherChoice, choose_suites, suite_names

JAVA = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
OPENSSL = "ECDHE-RSA-AES256-GCM-SHA384"
OTHER = "ECDHE-ECDSA-AES128-GCM-SHA256"


def test_names_of_java_and_openssl_are_the_same_suite() -> None:
    for java, openssl in OPENSSL_NAMES.items():
        assert choose_suites([java]) == choose_suites([openssl]) == CipherChoice((openssl,), False)


def test_openssl_has_every_suite() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(":".join(OPENSSL_NAMES.values()))
    found = {each["name"] for each in context.get_ciphers()}
    assert found == {*OPENSSL_NAMES.values(), *TLS_1_3}


def test_the_order_is_kept_and_repetition_has_no_effect() -> None:
    assert choose_suites([OTHER, JAVA, OPENSSL]) == CipherChoice((OTHER, OPENSSL), False)


def test_all_suites_of_tls_1_3_choose_that_version() -> None:
    assert choose_suites([*TLS_1_3, JAVA]) == CipherChoice((OPENSSL,), True)
    assert choose_suites(sorted(TLS_1_3)) == CipherChoice((), True)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", id="CBC"),
        pytest.param("AES256-GCM-SHA384", id="no forward secrecy"),
        pytest.param("TLS_NULL_WITH_NULL_NULL", id="no encryption"),
        pytest.param("ecdhe-rsa-aes256-gcm-sha384", id="lower case"),
        pytest.param("HIGH", id="a group of suites"),
        pytest.param("", id="nothing"),
    ],
)
def test_a_suite_that_is_not_served_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"must be a list of TLS_.*: '{name}' is not served$"):
        choose_suites([JAVA, name])


def test_some_suites_of_tls_1_3_are_refused() -> None:
    with pytest.raises(ValueError, match=r"all suites of TLS 1\.3 or none, .*: add TLS_AES_128"):
        choose_suites(sorted(TLS_1_3)[1:])


def test_names_are_between_commas_or_colons() -> None:
    assert suite_names(f"{JAVA}, {OTHER}") == suite_names(f"{JAVA}:{OTHER}") == (JAVA, OTHER)
