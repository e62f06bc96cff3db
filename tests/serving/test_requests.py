"""What is refused, with which status, and what is not."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import jwt
import pytest

from pipelines.settings import Settings
from tests.serving.conftest import Serve, Served, bearer

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def served(serve: Serve, service_settings: Callable[..., Settings]) -> Iterator[Served]:
    settings = service_settings(serve={"request_timeout_ms": 1_500})
    with serve(settings) as running:
        yield running


PUT = "/v1/reactions/v1"
LIKE = {"reaction": "LIKE"}


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "title"),
    [
        ("PUT", PUT, {"json": LIKE}, 401, "unauthorized"),
        ("PUT", PUT, {"json": LIKE, "headers": {"Authorization": "Bearer x.y.z"}}, 401, "unauthorized"),
        ("PUT", PUT, {"json": LIKE, "headers": {"Authorization": "Basic eDp5"}}, 401, "unauthorized"),
        ("PUT", PUT, {"json": LIKE, "headers": bearer("u", exp=time.time() - 3_600)}, 401, "unauthorized"),
        ("PUT", PUT, {"json": LIKE, "headers": bearer("u", iss="others")}, 401, "unauthorized"),
        ("PUT", PUT, {"json": LIKE, "headers": bearer("u", aud="others")}, 401, "unauthorized"),
        ("PUT", PUT, {"json": {"reaction": "LOVE"}, "headers": bearer("u")}, 422, "invalid_request"),
        ("PUT", PUT, {"json": {**LIKE, "user_id": "x"}, "headers": bearer("u")}, 422, "invalid_request"),
        ("PUT", PUT, {"content": b"{", "headers": bearer("u")}, 422, "invalid_request"),
        ("PUT", PUT, {"content": b"[" * 2_000, "headers": bearer("u")}, 422, "invalid_request"),
        ("PUT", PUT, {"content": b" " * 5_000, "headers": bearer("u")}, 413, "too_large"),
        ("PUT", PUT, {"json": LIKE, "headers": {**bearer("u"), "Idempotency-Key": "k" * 256}}, 400, "bad_key"),
        ("PUT", PUT, {"json": LIKE, "headers": {**bearer("u"), "Read-Your-Write": "x"}}, 400, "bad_token"),
        ("PUT", f"/v1/reactions/{'x' * 65}", {"json": LIKE, "headers": bearer("u")}, 400, "bad_id"),
        ("PUT", "/v1/reactions/a%0Ab", {"json": LIKE, "headers": bearer("u")}, 400, "bad_id"),
        ("PUT", "/v1/reactions/a%00b", {"json": LIKE, "headers": bearer("u")}, 400, "bad_id"),
        ("PUT", "/v1/reactions/%ff", {"json": LIKE, "headers": bearer("u")}, 400, "not_utf8"),
        ("POST", "/v1/videos/%ED%A0%80/like", {"headers": bearer("u")}, 400, "not_utf8"),
        ("GET", "/v1/counts", {}, 400, "no_ids"),
        ("GET", "/v1/counts?ids=", {}, 400, "bad_id"),
        ("GET", "/v1/counts?ids=a,,b", {}, 400, "bad_id"),
        ("GET", f"/v1/counts?ids={'x' * 65}", {}, 400, "bad_id"),
        ("GET", f"/v1/counts?ids={','.join(map(str, range(101)))}", {}, 400, "too_many_ids"),
        ("GET", "/v1/counts?ids=a%ffb", {}, 400, "not_utf8"),
        ("GET", "/v1/counts?ids=v1", {"headers": {"Authorization": "Bearer x"}}, 401, "unauthorized"),
        ("GET", "/v1/counts?ids=v1", {"headers": {"Read-Your-Write": "x"}}, 400, "bad_token"),
        ("GET", "/v1/stream?ids=", {}, 400, "bad_id"),
        ("GET", "/v1/nothing", {}, 404, "http_error"),
        ("POST", PUT, {}, 405, "http_error"),
        ("GET", "/v1/reactions/v1", {}, 405, "http_error"),
        ("DELETE", "/v1/counts?ids=v1", {}, 405, "http_error"),
    ],
)  # fmt: skip
def test_refusals(served: Served, method: str, path: str, options: dict[str, object], status: int, title: str) -> None:
    answer = served.client.request(method, path, **options)  # type: ignore[arg-type]
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    assert answer.json()["title"] == title
    assert answer.headers["x-content-type-options"] == "nosniff"
    if status == 401:
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert served.client.get("/healthz").json() == {"status": "ok"}


def test_nobody_signs_for_somebody_else(served: Served) -> None:
    made = {"sub": "u", "iss": "likes", "aud": "likes", "exp": time.time() + 60}
    for token in (jwt.encode(made, "another secret of thirty-two bytes"), jwt.encode(made, "", algorithm="none")):
        answer = served.client.put(PUT, json=LIKE, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401


def test_unknown_contents_have_zeros(served: Served) -> None:
    answer = served.client.get("/v1/counts?ids=x1,x2,x1").json()
    assert [(it["content_id"], it["likes"], it["dislikes"], it["known"]) for it in answer["counts"]] == [
        ("x1", 0, 0, False),
        ("x2", 0, 0, False),
        ("x1", 0, 0, False),
    ]
    one = served.client.get("/v1/counts/x1").json()
    assert (one["content_id"], one["likes"], one["as_of"], one["version"]) == ("x1", 0, None, 0)


def test_the_limits_are_named(serve: Serve, service_settings: Callable[..., Settings]) -> None:
    settings = service_settings(limit={"user_per_minute": 6, "user_burst": 3})
    with serve(settings) as running:
        answers = [running.client.put(PUT, json=LIKE, headers=bearer("u")) for _ in range(5)]
        assert [answer.status_code for answer in answers] == [202, 202, 202, 429, 429]
        assert [answer.headers["ratelimit-remaining"] for answer in answers[:4]] == ["2", "1", "0", "0"]
        assert answers[0].headers["ratelimit-limit"] == "3"
        assert 1 <= int(answers[3].headers["retry-after"]) <= 10
        assert answers[3].json()["title"] == "rate_limited"
        assert running.client.put(PUT, json=LIKE, headers=bearer("another")).status_code == 202
        assert running.metric("likes_rate_limited_total", limit="user") == 2


def test_an_address_is_the_peers_own_unless_a_trusted_proxy_says_otherwise(
    serve: Serve, service_settings: Callable[..., Settings]
) -> None:
    def statuses(running: Served, *forwarded: str) -> list[int]:
        clients = [{**bearer(f"u{number}"), "X-Forwarded-For": address} for number, address in enumerate(forwarded)]
        return [running.client.put(PUT, json=LIKE, headers=headers).status_code for headers in clients]

    limit = {"address_per_minute": 6, "address_burst": 2}
    with serve(service_settings(limit=limit)) as running:
        assert statuses(running, "192.0.2.1", "192.0.2.2", "192.0.2.3") == [202, 202, 429]
    with serve(service_settings(limit=limit, serve={"trusted_proxies": "127.0.0.1"})) as running:
        assert statuses(running, "192.0.2.1", "192.0.2.2", "192.0.2.3") == [202, 202, 202]
        # What a client writes itself stands before what the proxy adds.
        assert statuses(running, "198.51.100.9, 192.0.2.1", "198.51.100.8, 192.0.2.1") == [202, 429]


def test_head_is_get_without_a_body(served: Served) -> None:
    for path in ("/", "/healthz", "/v1/counts?ids=v1", "/v1/counts/v1", "/metrics", "/v1/counts"):
        head, get = served.client.head(path), served.client.get(path)
        assert (head.status_code, head.headers["content-type"]) == (get.status_code, get.headers["content-type"])
        assert head.content == b""
        assert int(head.headers["content-length"]) > 0
    assert served.client.head("/v1/stream?ids=v1").status_code == 405


def test_of_two_values_of_one_name_the_last_counts_as_in_an_event(served: Served) -> None:
    body = b'{"reaction": "LIKE", "reaction": "NONE"}'
    answer = served.client.put(PUT, content=body, headers=bearer("twice"))
    assert (answer.status_code, answer.json()["reaction"]) == (202, "NONE")


def test_clients_that_dawdle_are_disconnected(served: Served) -> None:
    place = urlsplit(served.url)
    slow_header = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "
    slow_body = f"PUT {PUT} HTTP/1.1\r\nHost: x\r\nAuthorization: {bearer('u')['Authorization']}\r\n".encode()
    slow_body += b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    idle = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    for start in (slow_header, slow_body, b"", idle + b"\r\n"):
        with socket.create_connection((place.hostname or "", place.port or 0), timeout=20) as dawdling:
            if start:
                dawdling.sendall(start)
            began = time.monotonic()
            while dawdling.recv(4_096):
                pass
            assert time.monotonic() - began < 15
    assert served.client.get("/healthz").status_code == 200


def test_a_large_body_is_told_so_however_it_comes(served: Served) -> None:
    for size in (5_000, 100_000, 1_000_000):
        place = urlsplit(served.url)
        head = f"PUT {PUT} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n"
        head += f"Authorization: {bearer('u')['Authorization']}\r\n\r\n"
        with socket.create_connection((place.hostname or "", place.port or 0), timeout=20) as client:
            client.sendall(head.encode() + b" " * min(size, 60_000))
            assert client.recv(4_096).startswith(b"HTTP/1.1 413 ")


def test_a_hundred_long_ids_are_answered(served: Served) -> None:
    ids = [f"{number:03}" + "\N{HEAVY BLACK HEART}" * 61 for number in range(100)]
    answer = served.client.get("/v1/counts", params={"id": ids})
    assert answer.status_code == 200
    assert [it["content_id"] for it in answer.json()["counts"]] == ids


def test_odd_claims_are_refused(served: Served) -> None:
    odd: list[dict[str, object]] = [
        {"exp": 10**400},
        {"sub": "a\ud800"},
        {"sub": 7},
        {"sub": "x" * 65},
        {"region": "moon"},
    ]
    for claims in odd:
        answer = served.client.put(PUT, json=LIKE, headers=bearer("u", **claims))
        assert answer.status_code == 401, (claims, answer.text)


def test_a_repeated_request_that_the_user_has_overtaken_says_so(served: Served) -> None:
    key = {**bearer("late"), "Idempotency-Key": "k"}
    first = served.client.put(PUT, json=LIKE, headers=key)
    served.client.put(PUT, json={"reaction": "NONE"}, headers=bearer("late"))
    again = served.client.put(PUT, json=LIKE, headers=key)
    assert (first.json()["superseded"], again.json()["superseded"]) == (False, True)
    assert first.json()["event_id"] == again.json()["event_id"]


def test_the_api_is_described(served: Served) -> None:
    described = served.client.get("/openapi.json").json()
    assert {"/v1/counts", "/v1/reactions/{content_id}", "/v1/stream", "/readyz"} <= described["paths"].keys()
    assert described["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
