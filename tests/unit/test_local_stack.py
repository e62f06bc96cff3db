"""The local stack without its services: identity of processes, records, ports, folders, jars."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.flink.local_stack import Stack, jars, paths, ports, processes
from deploy.flink.local_stack.records import Record, Records, locked
from deploy.flink.local_stack.redis import Redis
from pipelines.errors import BadInput, Refused, ServiceUnavailable
from tests.support import wait_until


@dataclass(frozen=True)
class Sleeper:
    pid: int
    mark: str


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Sleeper]:
    pid = processes.start_detached(["sleep", "60"], log=tmp_path / "log", folder=tmp_path)
    mark = processes.mark(pid)
    assert mark is not None
    yield Sleeper(pid, mark)
    processes.stop(pid, mark, grace_s=5)


def test_a_process_is_known_until_it_ends_and_leaves_no_zombie(sleeper: Sleeper) -> None:
    assert processes.is_running(sleeper.pid, sleeper.mark)
    processes.stop(sleeper.pid, sleeper.mark, grace_s=5)
    assert not processes.is_running(sleeper.pid, sleeper.mark)
    with pytest.raises(ProcessLookupError):
        os.kill(sleeper.pid, 0)


def test_a_reused_pid_is_never_signalled(sleeper: Sleeper) -> None:
    assert not processes.send(sleeper.pid, "another boot:1", signal.SIGKILL)
    processes.stop(sleeper.pid, "another boot:1", grace_s=5)
    assert processes.is_running(sleeper.pid, sleeper.mark)


def test_a_process_that_ignores_term_is_killed(tmp_path: Path) -> None:
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    log = tmp_path / "log"
    pid = processes.start_detached([sys.executable, "-c", script], log=log, folder=tmp_path)
    mark = processes.mark(pid) or ""
    wait_until(lambda: "deaf" in log.read_text(), what="the process ignores TERM")
    processes.stop(pid, mark, grace_s=0.2)
    assert not processes.is_running(pid, mark)


def test_a_detached_process_has_its_own_session_and_none_of_our_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", "-Dsurprise")
    monkeypatch.setenv("LIKES_KAFKA_BOOTSTRAP", "elsewhere:9092")
    script = "import os; print(os.getsid(0) == os.getpid(), sorted(n for n in os.environ if 'KAFKA' in n), flush=True)"
    log = tmp_path / "log"
    pid = processes.start_detached([sys.executable, "-c", script], log=log, folder=tmp_path)
    wait_until(lambda: processes.mark(pid) is None, what="its end")
    assert log.read_text() == "True []\n"


def test_records_survive_and_keep_what_is_not_replaced(tmp_path: Path) -> None:
    Records(tmp_path).update("kafka", ports={"client": 21_000})
    Records(tmp_path).update("redis", ports={"client": 21_001}, process=(7, "boot:1"))
    Records(tmp_path).update("kafka", process=(8, "boot:2"))
    assert Records(tmp_path).get("kafka") == Record({"client": 21_000}, 8, "boot:2")
    assert Records(tmp_path).get("redis") == Record({"client": 21_001}, 7, "boot:1")
    assert Records(tmp_path).get("cassandra") == Record()


@pytest.mark.parametrize("text", ["{", "[]", '{"kafka": {"colour": 1}}', '{"kafka": 3}'])
def test_a_broken_record_is_one_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "stack.json").write_text(text)
    with pytest.raises(BadInput, match=r"stack\.json cannot be read"):
        Records(tmp_path).get("kafka")


def test_a_second_holder_waits_for_the_first_even_across_a_purge(tmp_path: Path) -> None:
    folder = tmp_path / "stack"
    waits, order = threading.Event(), list[str]()

    def second() -> None:
        with locked(folder, waits.set):
            order.append("second")

    thread = threading.Thread(target=second)
    with locked(folder, lambda: None):
        thread.start()
        assert waits.wait(10)
        (folder / ".lock").unlink()
        folder.rmdir()
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
    assert (folder / ".lock").exists()


def test_ports_are_free_distinct_and_outside_the_ephemeral_range() -> None:
    taken: set[int] = set()
    for _ in range(20):
        taken.add(ports.free_port(taken))
    assert len(taken) == 20
    assert all(20_000 <= port < 32_000 and ports.is_free(port) for port in taken)


def test_a_start_on_a_taken_port_names_it(tmp_path: Path) -> None:
    taken: set[int] = set()
    first, second = Redis(tmp_path, Records(tmp_path)), Redis(tmp_path, Records(tmp_path))
    first.plan(ports.free_port(set()), taken)
    with pytest.raises(ServiceUnavailable, match=f"port {first.port} is taken.*--redis-port"):
        second.plan(first.port, taken)


def test_a_planned_port_is_kept(tmp_path: Path) -> None:
    service = Redis(tmp_path, Records(tmp_path))
    service.plan(None, set())
    port = service.port
    service.plan(None, set())
    assert service.port == port != 0


def test_the_last_useful_line_is_the_trouble_not_its_trace(tmp_path: Path) -> None:
    service = Redis(tmp_path, Records(tmp_path))
    service.log.parent.mkdir()
    old = "ERROR of an earlier start\n"
    service.log.write_text(old + "INFO fine\nERROR disk full (Log)\n\tat a.b.C(D.java:1)\n\n\t... 3 more\nINFO bye\n")
    assert service._last_useful_line(len(old)) == "ERROR disk full (Log)"
    service.log.write_text("INFO only this\n")
    assert service._last_useful_line(0) == "INFO only this"
    service.log.unlink()
    assert service._last_useful_line(0) == "its log is empty"


def test_folders_come_from_the_environment_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKES_STACK_DIR", str(tmp_path / "s"))
    monkeypatch.setenv("LIKES_CACHE_DIR", str(tmp_path / "c"))
    assert paths.stack_dir() == tmp_path / "s"
    assert paths.cache_dir() == tmp_path / "c"
    monkeypatch.delenv("LIKES_STACK_DIR")
    monkeypatch.delenv("LIKES_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert paths.cache_dir() == tmp_path / "x" / "likes-counter"
    root = paths.repository_root()
    assert root is not None
    assert paths.stack_dir() == root / ".stack"


def test_a_folder_with_something_else_in_it_is_refused_and_never_purged(tmp_path: Path) -> None:
    mine = tmp_path / "thesis.txt"
    mine.write_text("years of work")
    with pytest.raises(Refused, match=r"thesis\.txt.*LIKES_STACK_DIR"):
        Stack(tmp_path).up()
    (tmp_path / "kafka").mkdir()
    Stack(tmp_path).down(purge=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_stack_that_never_ran_is_down_and_makes_nothing(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "none")
    assert [(status.name, status.is_up, status.pid) for status in stack.status()] == [
        ("cassandra", False, None),
        ("kafka", False, None),
        ("redis", False, None),
    ]
    assert stack.down() == []
    assert not stack.folder.exists()


@pytest.fixture
def cached_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pom's one locked jar, in the cache as if it had been downloaded."""
    monkeypatch.setattr(jars, "JARS_DIR", tmp_path)
    monkeypatch.setenv("LIKES_CACHE_DIR", str(tmp_path / "cache"))
    lock = f"# a comment\n{hashlib.sha256(b'good').hexdigest()}  a-1.jar\n"
    (tmp_path / "tool.lock").write_text(lock)
    folder = tmp_path / "cache" / "jars" / f"tool-{hashlib.sha256(lock.encode()).hexdigest()[:16]}"
    folder.mkdir(parents=True)
    (folder / "a-1.jar").write_bytes(b"good")
    return folder / "a-1.jar"


def test_a_jar_as_locked_is_used(cached_jar: Path) -> None:
    assert jars.ensure_jars("tool") == [cached_jar]


def test_a_jar_that_is_not_as_locked_is_removed_and_named(cached_jar: Path) -> None:
    cached_jar.write_bytes(b"evil")
    with pytest.raises(ServiceUnavailable, match=r"tool jars: a-1\.jar does not have the locked checksum"):
        jars.ensure_jars("tool")
    assert not cached_jar.exists()


def test_a_missing_jar_is_named(cached_jar: Path) -> None:
    cached_jar.unlink()
    with pytest.raises(ServiceUnavailable, match=r"tool jars: a-1\.jar is missing"):
        jars.ensure_jars("tool")


def test_without_maven_one_line_says_so(cached_jar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached_jar.unlink()
    cached_jar.parent.rmdir()
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ServiceUnavailable, match=r"Maven \(mvn\) was not found; apt-get install maven"):
        jars.ensure_jars("tool")


def test_every_pom_is_locked() -> None:
    for name in jars.NAMES:
        assert (jars.JARS_DIR / name / "pom.xml").is_file()
        assert jars.read_lock(name)


def test_the_python_lock_names_no_package_index() -> None:
    root = paths.repository_root()
    assert root is not None
    text = (root / "requirements.lock").read_text()
    assert "://" not in text
    assert "index" not in text


def test_help_does_not_load_flink_or_a_client() -> None:
    script = (
        "import sys; from cli.main import invoke; invoke(['--help'], debug=False); "
        "print([m for m in ('pyflink', 'cassandra', 'kafka', 'redis') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
