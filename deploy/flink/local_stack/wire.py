"""One question to a server, to see whether it answers: raw bytes, since loading a client would take longer."""

from __future__ import annotations

import socket

from deploy.flink.local_stack.ports import HOST


def ask(port: int, question: bytes, answer_bytes: int, *, timeout_s: float = 1.0) -> bytes:
    """Send `question` and return the first `answer_bytes` of the answer; fewer when the server is not there."""
    answer = b""
    try:
        with socket.create_connection((HOST, port), timeout=timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(question)
            while len(answer) < answer_bytes and (more := connection.recv(answer_bytes - len(answer))):
                answer += more
    except OSError:
        pass
    return answer
