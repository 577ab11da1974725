"""What only real brokers can do to a catalog and a reader: compaction, damage, dying and freezing, wrong passwords."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from airflow_kafka_hdfs.adapters.kafka.catalog import KafkaCatalog
from airflow_kafka_hdfs.adapters.kafka.direct import direct_fault
from airflow_kafka_hdfs.adapters.kafka.mirror import GroupMirror
from airflow_kafka_hdfs.adapters.kafka.producer import CheckedProducer
from airflow_kafka_hdfs.adapters.kafka.reader import KafkaReader
from airflow_kafka_hdfs.adapters.kafka.settings import client_settings
from airflow_kafka_hdfs.exceptions import KafkaUnavailableError
from airflow_kafka_hdfs.model import PartitionOffsets, TopicPartition
from tests.contract.kafka.drivers import PASSWORD, READERS, USER, Reading, RealDriver, until
from tests.stack.kafka import KafkaCluster
from tests.stack.process import wait_until

pytestmark = pytest.mark.services

NOBODY = "127.0.0.1:1"


@pytest.fixture(params=READERS)
def reader_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def reading(real_driver: RealDriver) -> Iterator[Reading]:
    reading = Reading(real_driver.reader())
    yield reading
    reading.reader.close()


def test_compacted_records_leave_holes_that_are_read_over(real_driver: RealDriver, reading: Reading, unique_name: str):
    name = f"compacted_{unique_name}"
    config = {"cleanup.policy": "compact", "segment.ms": 100, "min.cleanable.dirty.ratio": 0.01}
    real_driver.cluster.create_topic(name, config=config)
    for _ in range(10):
        real_driver.produce(name, 0, b"old", key=b"same")
    real_driver.produce(name, 0, b"kept", key=b"other")
    tp = TopicPartition(name, 0)
    end = 11

    def cleaned() -> bool:
        nonlocal end
        real_driver.produce(name, 0, b"%d" % end, key=b"same")  # closes the segment before it
        end += 1
        again = Reading(real_driver.reader())
        again.reader.assign({tp: 0})
        again.to({tp: end})
        again.reader.close()
        return len(again.records) < 6

    until(cleaned, seconds=60)
    reading.reader.assign({tp: 0})
    reading.to({tp: end})
    offsets = [r.offset for r in reading.records]
    assert b"kept" in reading.values()
    assert reading.values()[-1] == b"%d" % (end - 1)
    assert len(offsets) < end - 5, "holes"
    assert real_driver.catalog().offsets([tp])[tp].last_stable == end


def test_damaged_data_is_a_fault_and_nothing_behind_it_is_handed_out(
    real_driver: RealDriver, reading: Reading, secured_broker: KafkaCluster
):
    name = real_driver.topic(partitions=2)
    for i in range(6):
        real_driver.produce(name, 0, b"marked-%d" % i * 10)
    real_driver.produce(name, 1, *[b"fine"] * 3)
    (log,) = Path(secured_broker.folder).glob(f"*/{name}-0/*.log")
    place = log.read_bytes().index(b"marked-3")
    with log.open("r+b") as file:
        file.seek(place + 20)
        file.write(b"X")
    bad, good = TopicPartition(name, 0), TopicPartition(name, 1)
    reading.reader.assign({bad: 0, good: 0})
    reading.until(lambda: bad in reading.faults).to({good: 3})
    for _ in range(5):
        reading.poll()
    assert reading.faults == {bad: "corrupt"}
    assert [r.offset for r in reading.records if r.partition == 0] == [0, 1, 2]
    assert reading.positions[bad] == 3


def test_rights_on_a_group_and_on_the_cluster_are_not_needed(real_driver: RealDriver, reading: Reading):
    denied = ResourcePatternType.LITERAL, f"User:{USER}", "*", AclOperation.ALL, AclPermissionType.DENY
    places = (ResourceType.GROUP, "airflow-kafka-hdfs"), (ResourceType.BROKER, "kafka-cluster")
    name = real_driver.topic()
    real_driver.produce(name, 0, b"x")
    tp = TopicPartition(name, 0)
    settings = client_settings(dict(real_driver.cluster.secure_config(USER)))
    admin = real_driver.cluster.admin
    wait_for(admin.create_acls([AclBinding(*place, *denied) for place in places]))
    try:
        every = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        user = AdminClient(settings.for_admin())
        wait_until(lambda: seen_by(admin, every), what="rights in force", timeout=30)
        # Who may not describe the cluster sees none of the rights that are there.
        wait_until(lambda: not seen_by(user, every), what="rights denied", timeout=30)
        catalog = KafkaCatalog(settings)
        assert catalog.cluster_id() == real_driver.cluster.cluster_id
        assert name in catalog.topics()
        assert catalog.offsets([tp])[tp] == PartitionOffsets(log_start=0, last_stable=1, high_watermark=1)
        reading.reader.assign({tp: 0})
        reading.to({tp: 1})
    finally:
        wait_for(admin.delete_acls([AclBindingFilter(*place, *denied) for place in places]))
    assert reading.values() == [b"x"]


def seen_by(client: AdminClient, rights: AclBindingFilter) -> list[AclBinding]:
    """Rights that a client is told; the client library answers a refusal by an error or by nothing."""
    try:
        return list(client.describe_acls(rights).result(timeout=30))
    except KafkaException:
        return []


def wait_for(futures: Mapping[object, Future]) -> None:
    for future in futures.values():
        future.result(timeout=30)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_every_way_to_log_in_works(secured_broker: KafkaCluster, mechanism: str):
    settings = client_settings(dict(secured_broker.secure_config(USER, mechanism)))
    assert KafkaCatalog(settings).cluster_id() == secured_broker.cluster_id


def test_a_wrong_password_is_named_as_the_reason_and_shown_nowhere(secured_broker: KafkaCluster, caplog):
    settings = client_settings({**secured_broker.secure_config(USER), "sasl.password": "wrong-and-secret"})
    catalog = KafkaCatalog(settings, timeout=3)
    with pytest.raises(KafkaUnavailableError, match="_AUTHENTICATION") as caught:
        catalog.offsets([TopicPartition("any", 0)])
    troubles = []
    for make in READERS.values():
        reader = make(settings)
        reader.assign({TopicPartition("any", 0): 0})
        until(lambda reader=reader: reader.poll(1, 0.1).positions == {} and "_AUTHENTICATION" in reader.trouble())
        reader.close()
        troubles.append(reader.trouble())
    shown = f"{caught.value} {settings!r} {troubles} {caplog.text}"
    assert "wrong-and-secret" not in shown
    assert PASSWORD not in shown


def test_nobody_there_is_told_after_the_time_out_by_every_call():
    catalog = KafkaCatalog(client_settings({"bootstrap.servers": NOBODY}), timeout=1)
    tp = TopicPartition("any", 0)
    for call in (
        catalog.cluster_id,
        catalog.topics,
        lambda: catalog.describe(["any"]),
        lambda: catalog.offsets([tp]),
        lambda: catalog.offsets_for_times({tp: 0}),
    ):
        start = time.monotonic()
        with pytest.raises(KafkaUnavailableError, match=NOBODY):
            call()
        assert time.monotonic() - start < 60  # it ends; how soon is for the benchmark


def test_a_reader_without_brokers_brings_nothing_and_says_why(reader_name: str):
    reader = READERS[reader_name](client_settings({"bootstrap.servers": NOBODY}))
    reader.assign({TopicPartition("any", 0): 0})
    until(lambda: reader.poll(10, 0.1).positions == {} and reader.trouble() != "")
    assert "refused" in reader.trouble()
    start = time.monotonic()
    reader.close()
    assert time.monotonic() - start < 30  # it does not hang


def test_a_thousand_partitions_are_looked_up_in_a_few_calls(kafka_cluster: KafkaCluster, unique_name: str):
    for number in range(10):
        kafka_cluster.create_topic(f"{unique_name}_{number}", partitions=100)
    catalog = KafkaCatalog(client_settings({"bootstrap.servers": kafka_cluster.bootstrap_servers}))
    names = [f"{unique_name}_{number}" for number in range(10)]
    partitions = [TopicPartition(name, number) for name in names for number in range(100)]
    empty = {PartitionOffsets(log_start=0, last_stable=0, high_watermark=0)}

    def described() -> list[TopicPartition]:
        return [TopicPartition(info.name, p) for info in catalog.describe(names).values() for p in info.partitions]

    # Brokers hear of new topics one after the other, and a leader just chosen takes a while to answer for itself.
    until(lambda: described() == partitions and set(catalog.offsets(partitions).values()) == empty)
    start = time.monotonic()
    catalog.describe(names)
    asked = time.monotonic()
    found = catalog.offsets(partitions)
    seconds = time.monotonic() - asked
    times = catalog.offsets_for_times(dict.fromkeys(partitions, 0))
    by_time = time.monotonic() - asked - seconds
    assert len(found) == len(times) == 1000
    assert set(found.values()) == empty
    print(f"1000 partitions: described in {asked - start:.3f} s, offsets {seconds:.3f} s, by time {by_time:.3f} s")


def test_a_leader_killed_while_it_is_read_costs_time_and_no_record(tmp_path: Path):
    with KafkaCluster(tmp_path, nodes=3) as cluster:
        name = cluster.create_topic("read_on", partitions=6)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "acks": "all"})
        for i in range(6000):
            producer.produce(name, b"%d" % i, partition=i % 6)
        assert producer.flush(60) == 0
        settings = client_settings({"bootstrap.servers": cluster.bootstrap_servers})
        readings = [Reading(make(settings)) for make in READERS.values()]
        tps = [TopicPartition(name, p) for p in range(6)]
        for reading in readings:
            reading.reader.assign(dict.fromkeys(tps, 0))
            reading.until(lambda reading=reading: len(reading.records) >= 300, n=50)
        cluster.kill_node(cluster.leader_of(name, 0))
        for reading in readings:
            reading.to(dict.fromkeys(tps, 1000), n=50, seconds=60)
            for _ in range(3):
                reading.poll()
            reading.reader.close()
        for many in (1, 2_000):
            offsets = KafkaCatalog(settings, many=many).offsets(tps)
            assert offsets == {tp: PartitionOffsets(log_start=0, last_stable=1000, high_watermark=1000) for tp in tps}
    for reading in readings:
        for tp in tps:
            wanted = [b"%d" % i for i in range(tp.partition, 6000, 6)]
            assert reading.values(name, tp.partition) == wanted


def test_one_frozen_broker_is_a_fault_of_its_partitions_alone(tmp_path: Path):
    """Topics of one replica on three brokers; one broker hangs with open connections."""
    with KafkaCluster(tmp_path, nodes=3, properties={"default.replication.factor": 1}) as cluster:
        name = cluster.create_topic("spread", partitions=6)
        settings = client_settings({"bootstrap.servers": cluster.bootstrap_servers})
        catalogs = [KafkaCatalog(settings, timeout=8, many=many) for many in (1, 2_000)]
        tps = [TopicPartition(name, p) for p in range(6)]
        for catalog in catalogs:
            assert all(isinstance(answer, PartitionOffsets) for answer in catalog.offsets(tps).values())
        frozen = cluster.leader_of(name, 0)
        lost = {tp for tp in tps if cluster.leader_of(name, tp.partition) == frozen}
        cluster.pause_node(frozen)
        readers = [make(settings) for make in READERS.values()]
        for reader in readers:
            reader.assign(dict.fromkeys(tps, 0))
            reader.poll(10, 0.5)
        with ThreadPoolExecutor() as threads:
            looks = list(threads.map(lambda catalog: catalog.offsets(tps), catalogs))
        start = time.monotonic()
        for reader in readers:
            reader.close()
        closing = time.monotonic() - start
        cluster.continue_node(frozen)
        for found in looks:
            assert {tp for tp, answer in found.items() if isinstance(answer, str)} == lost
            assert all(str(found[tp]).startswith("no_leader") for tp in lost)
        assert closing < 1


def test_settings_of_the_client_are_what_the_brokers_see(real_driver: RealDriver):
    """A reader joins no group and leaves no offsets behind."""
    name = real_driver.topic()
    real_driver.produce(name, 0, b"x")
    reading = Reading(real_driver.reader())
    reading.reader.assign({TopicPartition(name, 0): 0})
    reading.to({TopicPartition(name, 0): 1})
    groups = real_driver.cluster.admin.list_consumer_groups(request_timeout=10).result(timeout=15).valid
    reading.reader.close()
    assert "airflow-kafka-hdfs" not in [group.group_id for group in groups]


def unsecured_token(config: str) -> tuple[str, float]:
    """A token as test brokers take it: not signed by anybody."""
    now = int(time.time())
    claims = {"sub": USER, "iat": now, "exp": now + 600}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, claims)]
    return b".".join([*parts, b""]).decode(), now + 600


def test_a_log_in_by_token_works_for_every_kind_of_client(tmp_path: Path):
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    login = f'{module} required unsecuredLoginStringClaim_sub="broker";'
    properties = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.secure.oauthbearer.sasl.jaas.config": login,
    }
    with KafkaCluster(tmp_path, users={USER: PASSWORD}, properties=properties) as cluster:
        name = cluster.create_topic("by_token")
        config = {
            **cluster.secure_config(USER),
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": unsecured_token,
        }
        del config["sasl.username"], config["sasl.password"]
        settings = client_settings(config)
        with CheckedProducer(settings) as producer:
            producer.send(name, b"x")
        tp = TopicPartition(name, 0)
        assert KafkaCatalog(settings).offsets([tp])[tp].last_stable == 1
        assert direct_fault(settings) == "only the client's Python face can call oauth_cb"
        reading = Reading(KafkaReader(settings))
        reading.reader.assign({tp: 0})
        reading.to({tp: 1})
        reading.reader.close()
        assert GroupMirror(settings, "by_token").copy({tp: 1})


def test_the_end_of_a_range_behind_a_marker_is_told_in_a_moment(real_driver: RealDriver):
    name = real_driver.topic()
    transaction = real_driver.transaction()
    transaction.produce(name, 0, *[b"x"] * 2000)
    transaction.commit()
    tp = TopicPartition(name, 0)
    seconds = []
    for _ in range(5):
        reading = Reading(real_driver.reader())
        reading.reader.assign({tp: 0})
        reading.until(lambda reading=reading: len(reading.records) == 2000)
        start = time.monotonic()
        reading.to({tp: 2001})
        seconds.append(time.monotonic() - start)
        reading.reader.close()
    print(f"after the last record: {[round(one, 3) for one in seconds]} s")
    assert min(seconds) < 5  # an end event tells it, no time-out does; the figure is printed
