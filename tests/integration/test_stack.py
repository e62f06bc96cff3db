"""The stack as a user has it: real services, found, killed and brought back through `likes stack`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import psutil
import pytest
import redis
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import WhiteListRoundRobinPolicy
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from deploy.flink.local_stack import Stack, processes
from pipelines.settings import SERVICE_VARIABLES, Settings
from tests.support import CLI, ROOT, Likes, cli_environment, wait_until

pytestmark = pytest.mark.integration

LOOPBACK = {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
# Kafka and Cassandra leave more than half of the demo's 6 GB to Flink.
LARGEST_RSS_MB = 2_500


def status(likes: Likes) -> dict[str, dict[str, object]]:
    return {entry["name"]: entry for entry in json.loads(likes("stack", "status", "--json").stdout)["services"]}


def test_everything_is_up_and_env_says_where(stack: Stack, likes: Likes) -> None:
    shown = likes("stack", "status")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count(" up ") == 3
    lines = likes("stack", "env").stdout.splitlines()
    assert dict(line.split("=", 1) for line in lines) == stack.env()
    assert [line.split("=")[0] for line in lines] == list(SERVICE_VARIABLES)


def test_up_again_changes_nothing_whatever_the_environment_says(stack: Stack, likes: Likes) -> None:
    before = status(likes)
    environment = cli_environment(stack) | {"KAFKA_BOOTSTRAP": "elsewhere:9092", "KAFKA_OPTS": "-Dsurprise"}
    done = subprocess.run(
        [*CLI, "stack", "up"], env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "note: KAFKA_BOOTSTRAP=elsewhere:9092 in the environment ranks above this stack" in done.stderr
    assert {name: entry["pid"] for name, entry in status(likes).items()} == {
        name: entry["pid"] for name, entry in before.items()
    }


def test_another_port_for_what_runs_is_refused(likes: Likes) -> None:
    done = likes("stack", "up", "--kafka-port", "1")
    assert done.returncode == 3
    assert "run `likes stack down` first" in done.stderr


def test_nothing_listens_beyond_this_machine(stack: Stack) -> None:
    for name, service in stack.services().items():
        process = psutil.Process(service.pid)
        hosts = {entry.laddr.ip for entry in process.net_connections("tcp") if entry.status == psutil.CONN_LISTEN}
        assert hosts, name
        assert hosts <= LOOPBACK, name


def test_it_leaves_room_for_flink(stack: Stack) -> None:
    assert sum(entry.rss_mb for entry in stack.status()) < LARGEST_RSS_MB


@pytest.mark.crash
def test_a_killed_service_comes_back_alone_on_its_port(stack: Stack, likes: Likes) -> None:
    before = status(likes)
    stack.services()["redis"].kill()
    down = likes("stack", "status", "--json")
    assert down.returncode == 5
    assert json.loads(down.stdout)["up"] is False
    assert down.stderr == "error: not running: redis; run `likes stack up`\n"
    assert likes("stack", "env").returncode == 0, "a stack with one service down is still this stack"

    assert likes("stack", "up").returncode == 0
    after = status(likes)
    assert {name: entry["port"] for name, entry in after.items()} == {n: e["port"] for n, e in before.items()}
    assert after["redis"]["pid"] != before["redis"]["pid"]
    assert after["kafka"]["pid"] == before["kafka"]["pid"]
    assert after["cassandra"]["pid"] == before["cassandra"]["pid"]


@pytest.mark.crash
def test_kafka_keeps_what_it_acknowledged_through_a_kill(stack: Stack, settings: Settings) -> None:
    topic, bootstrap = settings.kafka.events_topic, settings.kafka.bootstrap
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for number in range(1_000):
        producer.send(topic, str(number).encode())
    producer.flush()

    stack.services()["kafka"].kill()
    producer.close(timeout=0)
    stack.services()["kafka"].start()

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([TopicPartition(topic, 0)])
    found: list[bytes] = []

    def read() -> bool:
        for records in consumer.poll(200).values():
            found.extend(record.value for record in records)
        return len(found) >= 1_000

    wait_until(read, what="1000 records")
    consumer.close()
    assert found == [str(number).encode() for number in range(1_000)]


@pytest.mark.crash
def test_cassandra_keeps_what_it_acknowledged_the_moment_before_a_kill(stack: Stack, settings: Settings) -> None:
    keyspace = settings.cassandra.keyspace
    with cluster(settings) as opened:
        session = opened.connect()
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {replication}")
        session.execute(f"CREATE TABLE {keyspace}.written (number int PRIMARY KEY)")
        insert = session.prepare(f"INSERT INTO {keyspace}.written (number) VALUES (?)")
        for number in range(200):
            session.execute(insert, [number])
        stack.services()["cassandra"].kill()
    stack.services()["cassandra"].start()
    with cluster(settings) as opened:
        rows = opened.connect().execute(f"SELECT number FROM {keyspace}.written")
        assert sorted(row.number for row in rows) == list(range(200))


@pytest.mark.crash
def test_redis_forgets(stack: Stack, settings: Settings) -> None:
    url = settings.redis.url.get_secret_value()
    with redis.Redis.from_url(url) as client:
        client.set("count", "1")
    stack.services()["redis"].kill()
    stack.services()["redis"].start()
    with redis.Redis.from_url(url) as client:
        assert client.get("count") is None


def test_down_ends_just_our_processes_and_purge_removes_their_data(tmp_path: Path) -> None:
    folder = tmp_path / "other"
    other = Stack(folder)
    other.services()["redis"].start()
    pid = other.services()["redis"].pid
    bystander = subprocess.Popen(["sleep", "60"])
    record = json.loads((folder / "stack.json").read_text())
    # As after a reboot: the pid that Kafka once had is somebody else's now.
    record["kafka"] = {"ports": {"client": 20_001}, "pid": bystander.pid, "mark": "another boot:1"}
    (folder / "stack.json").write_text(json.dumps(record))
    try:
        environment = os.environ | {"LIKES_STACK_DIR": str(folder)}
        done = subprocess.run(
            [*CLI, "stack", "down", "--purge"], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr.splitlines() == ["redis: stopped", f"removed the data in {folder}"]
        assert pid is not None
        assert processes.mark(pid) is None
        assert bystander.poll() is None
        assert not folder.exists()
    finally:
        bystander.kill()
        bystander.wait()


def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    other = Stack(tmp_path / "other")
    service = other.services()["redis"]
    service.start()
    port = service.port
    service.stop()
    with socket.create_server(("127.0.0.1", port)):
        environment = os.environ | {"LIKES_STACK_DIR": str(other.folder)}
        done = subprocess.run(
            [*CLI, "stack", "up"], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
    other.down(purge=True)
    assert done.returncode == 5
    assert done.stderr.splitlines()[-1] == (
        f"error: redis: port {port} is taken by another process; "
        "end it, or choose another port with `likes stack up --redis-port`"
    )


def cluster(settings: Settings) -> Cluster:
    hosts = settings.cassandra.hosts.split(",")
    profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy(hosts))
    return Cluster(hosts, port=settings.cassandra.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
