"""`--command-config`: keys of Kafka's tools and of librdkafka become options of our client."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.command_config import ClusterAccess, cluster_access
from ottla.cli.failure import CommandError
from ottla.cli.old_groups import groups_access
from ottla.cli.options import PROFILE
from tests.unit.trust.stores import GOLDEN, KEY_PASSWORD, PASSWORD

SECRET = "s3cret;="
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def write(folder: Path, text: str) -> Path:
    file = folder / "client.properties"
    file.write_text(text, encoding="utf-8")
    return file


def test_file_of_kafkas_tools_is_read(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        f"""
        # of kafka-topics.sh
        bootstrap.servers=kafka.example:9093
        security.protocol=SASL_SSL
        sasl.mechanism=SCRAM-SHA-512
        sasl.jaas.config={JAAS} \\
            username="alice" password="{SECRET}";
        ssl.truststore.location={tmp_path}/trust.jks
        ssl.keystore.location={tmp_path}/key.jks
        ssl.keystore.password={PASSWORD}
        ssl.key.password={KEY_PASSWORD}
        ssl.endpoint.identification.algorithm=
        group.id=ignored
        """,
    )
    write_stores(tmp_path)
    access = cluster_access(None, file)
    assert access.bootstrap == "kafka.example:9093"
    context = access.security["ssl_context"]
    assert access.security == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": SECRET,
        "ssl_context": context,
    }
    assert not context.check_hostname
    assert context.get_ca_certs(binary_form=True) == [GOLDEN["ca.der"]]
    assert SECRET not in repr(access)


def write_stores(folder: Path) -> None:
    for name, data in GOLDEN.items():
        (folder / name).write_bytes(data)


STORE = "security.protocol=SSL\nssl.keystore.location=key.jks\nssl.keystore.password="


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{STORE}{SECRET}", "ssl.keystore.location (key.jks) cannot be used: the password is"),
        (f"{STORE}{PASSWORD}\nssl.key.password={SECRET}", "the password of the key is wrong"),
        (STORE, "ssl.keystore.password must be set for JKS"),
        (
            f"{STORE}{PASSWORD}\nssl.keystore.type=pem",
            "ssl.keystore.password must not be set for PEM",
        ),
        (f"{STORE}x\nssl.keystore.type=BKS", "ssl.keystore.type (BKS) must be one of JKS"),
        (f"{STORE}x\nssl.key.location=key.pem", "ssl.key.location excludes the keys that begin"),
        ("security.protocol=ssl\nssl.truststore.location=none.jks", "cannot be read: No such file"),
        (
            "security.protocol=SSL\nssl.truststore.certificates=x",
            "ssl.truststore.type (JKS) must be PEM for text",
        ),
    ],
)
def test_unusable_stores_are_refused_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    write_stores(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandError) as caught:
        cluster_access(None, write(tmp_path, text))
    assert message in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_librdkafkas_pkcs12_store_stands_beside_pem(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    write_stores(tmp_path)
    authority = tmp_path / "ca.pem"
    authority.write_text(ssl.DER_cert_to_PEM_cert(GOLDEN["ca.der"]))
    file = write(
        tmp_path,
        f"""
        security.protocol=ssl
        ssl.ca.location={authority}
        ssl.keystore.location={tmp_path}/key.p12
        ssl.keystore.password={PASSWORD}
        ssl.cipher.suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        """,
    )
    context = cluster_access(None, file).security["ssl_context"]
    assert context.check_hostname
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    assert context.get_ca_certs(binary_form=True) == [GOLDEN["ca.der"]]


def test_file_of_kcat_is_read(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
        security.protocol=sasl_ssl
        sasl.mechanisms=PLAIN
        sasl.username=alice
        sasl.password=s3cret
        ssl.ca.location=ca.pem
        ssl.certificate.location=alice.pem
        ssl.key.location=alice.key
        ssl.endpoint.identification.algorithm=https
        ssl.cipher.suites=ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384
        """,
    )
    assert cluster_access(None, file).security == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "s3cret",
        "ssl_cafile": "ca.pem",
        "ssl_certfile": "alice.pem",
        "ssl_keyfile": "alice.key",
        "ssl_check_hostname": True,
        "ssl_ciphers": "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384",
    }


def test_option_takes_precedence_over_the_addresses_of_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "bootstrap.servers=other:1")
    assert cluster_access("here:2", file).bootstrap == "here:2"
    assert cluster_access(None, file).bootstrap == "other:1"
    assert cluster_access(None, None).bootstrap == "127.0.0.1:9092"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ssl.enabled.protocols=TLSv1.3", "ssl.enabled.protocols is not supported"),
        ("sasl.login.class=x.Y", "sasl.login.class is not supported"),
        (f"sasl.jaas.config={JAAS} password={SECRET};", "sasl.jaas.config needs sasl.mechanism"),
        (
            f"sasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={JAAS} password='{SECRET}';",
            "sasl.jaas.config must have a username and a password",
        ),
        (
            f"sasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={JAAS} password='{SECRET}'",
            "sasl.jaas.config must end with a semicolon",
        ),
        ("key=\\u12", "is not a properties file in UTF-8"),
    ],
)
def test_unusable_keys_are_refused_without_secrets(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CommandError) as caught:
        cluster_access(None, write(tmp_path, text))
    assert message in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError, match="is not a properties file in UTF-8"):
        cluster_access(None, file)


PROD = f"""
default = "prod"
[prod]
bootstrap.servers = "prod:9093"
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "SCRAM-SHA-512"
sasl.jaas.config = '{JAAS} username="prod" password="{SECRET}";'
"""


@pytest.fixture
def prod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make a cluster with a login the default profile."""
    file = tmp_path / "profiles.toml"
    file.write_text(PROD)
    monkeypatch.setenv("OTTLA_PROFILES", str(file))
    before = PROFILE.set(None)
    yield
    PROFILE.reset(before)


@pytest.mark.usefixtures("prod")
def test_the_login_of_the_default_profile_stays_with_its_brokers(tmp_path: Path) -> None:
    assert cluster_access(None, None).security["sasl_plain_password"] == SECRET
    other = write(tmp_path, "bootstrap.servers=dev:9092")
    assert cluster_access(None, other) == ClusterAccess("dev:9092", {})
    assert cluster_access("dev:9092", None) == ClusterAccess("dev:9092", {})
    assert groups_access("zk:2181", "kafka", None, None).security == {}
    irrelevant = write(tmp_path, "group.id=g")
    assert cluster_access(None, irrelevant) == cluster_access(None, None)


@pytest.mark.usefixtures("prod")
@pytest.mark.parametrize(
    "key", ["security.protocol=PLAINTEXT", "sasl.username=dev", "ssl.ca.location=ca.pem"]
)
def test_a_file_with_a_login_needs_brokers_beside_a_default_profile(
    tmp_path: Path, key: str
) -> None:
    file = write(tmp_path, key)
    with pytest.raises(CommandError, match="names no brokers, and the default profile") as raised:
        cluster_access(None, file)
    assert raised.value.exit_code == 2
    assert cluster_access("dev:9092", file).bootstrap == "dev:9092"
    assert groups_access("zk:2181", "kafka", None, file).security
    (tmp_path / "profiles.toml").write_text("[prod]")
    assert cluster_access(None, file).bootstrap == "127.0.0.1:9092", "no profile is the default"


@pytest.mark.usefixtures("prod")
def test_the_login_of_a_file_wins_over_a_chosen_profile(tmp_path: Path) -> None:
    PROFILE.set("prod")
    login = write(tmp_path, "sasl.username=dev\nsasl.password=other")
    access = cluster_access(None, login)
    assert access.bootstrap == "prod:9093"
    assert access.security == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "dev",
        "sasl_plain_password": "other",
    }
    kept = cluster_access("dev:9092", write(tmp_path, "bootstrap.servers=dev:9092"))
    assert kept.security["sasl_plain_username"] == "prod"
    assert groups_access("zk:2181", "kafka", None, None).security == kept.security
