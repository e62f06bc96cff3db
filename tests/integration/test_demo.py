"""`likes demo` as people run it: to its end, interrupted at a terminal, and with its job killed."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import psutil
import pytest
import redis
import requests

from deploy.flink.local_stack import Stack
from pipelines.settings import Settings
from tests.exactness import assert_exact, truth
from tests.jobs import QUICK
from tests.support import CLI, ROOT, FreshSettings, Likes, cli_environment, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

START_S = 300.0
END_S = 40.0
SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


@pytest.fixture
def own(fresh_settings: FreshSettings, stack: Stack) -> Settings:
    """Names of this test alone, but the database that a stack's own address means."""
    url = stack.env()["REDIS_URL"]
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return fresh_settings(job=QUICK, redis={"url": url})


class Demo:
    """A `likes demo` in the background; what is left of it at the end of the block is killed."""

    def __init__(self, environment: dict[str, str], *arguments: str, terminal: bool = False) -> None:
        self._arguments = arguments
        self._environment = environment
        self._terminal = terminal
        self._chunks: list[bytes] = []

    def __enter__(self) -> Self:
        self.mine, theirs = pty.openpty() if self._terminal else os.pipe()
        termios.tcsetwinsize(theirs, (40, 100)) if self._terminal else None
        self.process = subprocess.Popen(
            [*CLI, "demo", *self._arguments],
            stdin=theirs if self._terminal else subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            cwd=ROOT,
            env=self._environment | {"TERM": "xterm"},
            start_new_session=True,
            # Makes the terminal the one whose Ctrl-C the process gets.
            preexec_fn=(lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) if self._terminal else None,  # noqa: PLW1509
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.family: list[psutil.Process] = []
        return self

    def __exit__(self, *_: object) -> None:
        self.look()
        if self.process.poll() is None:
            self.process.kill()
        for process in self.family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
        self._reader.join(5)
        os.close(self.mine)

    def _read(self) -> None:
        # A terminal whose other end is closed is an I/O error on Linux, an end of file elsewhere.
        with contextlib.suppress(OSError):
            while chunk := os.read(self.mine, 65_536):
                self._chunks.append(chunk)

    @property
    def said(self) -> str:
        return b"".join(self._chunks).decode(errors="replace")

    def look(self) -> list[psutil.Process]:
        """The processes that it has started by now, services aside: those are not its children for long."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.family = list({*self.family, *psutil.Process(self.process.pid).children(recursive=True)})
        return self.family

    def until(self, pattern: str, deadline_s: float = START_S) -> re.Match[str]:
        def found() -> re.Match[str] | None:
            match = re.search(pattern, self.said)
            assert match or self.process.poll() is None, self.said
            return match

        try:
            match = wait_until(found, deadline_s, what=pattern)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.said}") from None
        assert match is not None
        return match

    def ends(self) -> int:
        """Its exit code, once it has ended and left nothing behind."""
        try:
            code = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {END_S:g} s: {self.said}") from None
        self._reader.join(5)
        wait_until(lambda: not any(p.is_running() for p in self.family if "java" in self._name(p)), 5, what="no JVM")
        return code

    def _name(self, process: psutil.Process) -> str:
        try:
            return process.name() if process.status() != psutil.STATUS_ZOMBIE else ""
        except psutil.NoSuchProcess:
            return ""


def test_once_counts_checks_and_leaves_what_was_running(likes: Likes, stack: Stack, own: Settings) -> None:
    for _ in range(2):  # the second replay, on top of the first, meets the same users and contents again
        done = likes("demo", "--once", "--sample", "--events", "3000", "--rate", "0", settings=own, timeout_s=START_S)
        assert done.returncode == 0, done.stderr
        last = done.stdout.splitlines()[-1]
        contents = re.search(r"checked: ([\d,]+) contents equal an exact recount in both stores", last)
        assert contents, last
        expected = truth(own)
        assert int(contents[1].replace(",", "")) == len(expected.by_content())
        assert_exact(own, expected)
        users = {user_id for users in expected.registers.values() for user_id in users}
        assert f"users {len(users):,}," in last
        likes_shown = sum(total.likes for total in expected.totals.values())
        assert f"likes {likes_shown:,}," in last
    assert [service.is_up for service in stack.status()] == [True, True, True]


def test_a_job_that_dies_ends_the_demo_with_one_line(stack: Stack, own: Settings) -> None:
    with Demo(cli_environment(stack, own), "--sample", "--rate", "200") as demo:
        demo.until(r"; replaying")
        page = re.search(r"open (http://127\.0\.0\.1:\d+/)\?video=\w+&title=", demo.said)
        assert page, demo.said
        assert "Watch" in requests.get(page[1], timeout=20).text
        jvm = next(process for process in demo.look() if "java" in process.name())
        jvm.kill()
        assert demo.ends() == 7
        errors = [line for line in demo.said.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, demo.said
        assert "the like-counts job ended" in errors[0]
        assert "demo-like-counts.log" in errors[0]
        assert "Traceback" not in demo.said
    assert [service.is_up for service in stack.status()] == [True, True, True]


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Stack]:
    """A stack of which only Redis runs."""
    stack = Stack(tmp_path / "stack")
    try:
        stack.services()["redis"].start()
        yield stack
    finally:
        stack.down(purge=True)


def test_ctrl_c_at_a_terminal_stops_what_was_started_and_nothing_else(bare: Stack) -> None:
    with Demo(cli_environment(bare), "--sample", "--rate", "500", terminal=True) as demo:
        demo.until("likes demo")
        assert HIDE_CURSOR in demo.said
        demo.until(r"v1\b.*━")  # the most popular content has a count and a bar
        demo.look()
        counted = subprocess.run(
            [*CLI, "counts", "v1", "--json"], capture_output=True, cwd=ROOT, env=cli_environment(bare), check=True
        )
        assert json.loads(counted.stdout)[0]["likes"] > 0
        os.write(demo.mine, b"\x03")
        assert demo.ends() == 0
        assert demo.said.rindex(SHOW_CURSOR) > demo.said.rindex(HIDE_CURSOR)
        after = demo.said.rpartition("stopping what the demo started")[2]
        assert "cassandra: stopped" in after
        assert "kafka: stopped" in after
        assert "redis" not in after
    assert {service.name: service.is_up for service in bare.status()} == {
        "cassandra": False,
        "kafka": False,
        "redis": True,
    }


def test_sigterm_while_it_starts_leaves_nothing_running(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "stack")
    try:
        with Demo(cli_environment(stack), "--sample") as demo:
            demo.until("cassandra: starting")
            demo.process.send_signal(signal.SIGTERM)
            assert demo.ends() == 0
        assert not stack.is_running()
    finally:
        stack.down(purge=True)
