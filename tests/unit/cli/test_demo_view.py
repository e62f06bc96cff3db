from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from cli.demo.check import Verdict
from cli.demo.stats import Snapshot
from cli.demo.view import Moment, Scene, line, screen, staleness_s, state
from pipelines.domain.counting import Reactions

SCENE = Scene(
    "MovieLens 100K, 120,000 times as fast",
    100_000,
    {"50": "Star Wars", "181": "[bold]Return of the Jedi"},
    {"Kafka": "127.0.0.1:21155", "Cassandra": "127.0.0.1:27527", "Redis": "redis://127.0.0.1:31409/0"},
    "http://127.0.0.1:8080/?video=50&title=Star+Wars",
    ".venv/bin/likes counts 50 --json",
)
SNAPSHOT = Snapshot(
    events_in=54_321,
    counted=51_002,
    in_rate=652.3,
    counted_rate=640.0,
    users=512,
    contents=1_301,
    likes=30_112,
    dislikes=9_876,
    dead_letters=3,
    oldest_waiting_ms=1_000,
    newest_total_ms=2_000,
    top=(("50", Reactions(300, 100)), ("181", Reactions(100, 0))),
    job_state="running",
    job_url="http://127.0.0.1:26238",
)
MOMENT = Moment(83.4, 5_200, 54_400)


def drawn(snapshot: Snapshot, moment: Moment, width: int, height: int = 24, scene: Scene = SCENE) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=False)
    with console.capture() as captured:
        console.print(screen(scene, snapshot, moment, width=width, height=height))
    return captured.get().splitlines()


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_everything_is_on_the_screen_and_fits_it(width: int) -> None:
    lines = drawn(SNAPSHOT, MOMENT, width)
    assert len(lines) < 24
    assert all(len(text) <= width for text in lines)
    whole = "\n".join(lines)
    for figure in ("54,321", "652/s", "51,002", "3,319", "4.2", "512", "1,301", "30,112", "9,876", "3 s ago", "1:23"):
        assert figure in whole
    for text in (
        "54,400 of 100,000 published",
        "Star Wars",
        "[bold]Return",
        *SCENE.addresses.values(),
        SCENE.page,
        SCENE.hint,
    ):
        assert text in whole
    assert "http://127.0.0.1:26238" in whole
    assert "…" not in whole


def test_bars_are_to_scale() -> None:
    lines = drawn(SNAPSHOT, MOMENT, 100)
    wars, jedi = (next(text for text in lines if name in text).count("━") for name in ("Star Wars", "Jedi"))
    assert jedi == pytest.approx(wars / 4, abs=1)


def test_a_low_terminal_gets_fewer_contents_and_an_empty_log_keeps_its_place() -> None:
    many = replace(SNAPSHOT, top=tuple((f"v{n}", Reactions(n, 0)) for n in range(10)))
    assert len(drawn(many, MOMENT, 80, 24)) == 23
    assert len(drawn(many, MOMENT, 80, 20)) == 19
    assert len(drawn(many, MOMENT, 80, 60)) == 25
    assert len(drawn(Snapshot(), MOMENT, 80, 24)) == 23
    assert len(drawn(many, MOMENT, 80, 24, replace(SCENE, names={}))) == 23
    long = drawn(
        replace(many, trouble="Cassandra at 127.0.0.1:27527 does not answer: " + "one reason " * 10), MOMENT, 80
    )
    assert len(long) == 23
    assert sum("one reason" in text for text in long) > 1


def test_staleness_is_the_age_of_the_oldest_event_that_is_not_counted() -> None:
    assert staleness_s(SNAPSHOT, MOMENT) == pytest.approx(4.2)
    assert staleness_s(replace(SNAPSHOT, oldest_waiting_ms=None), MOMENT) == 0.0
    assert staleness_s(replace(SNAPSHOT, oldest_waiting_ms=6_000), MOMENT) == 0.0


def test_the_state_says_what_matters_most() -> None:
    done, counted = replace(MOMENT, finished=True, published=54_321), replace(SNAPSHOT, counted=54_321)
    right, wrong = Verdict(1_682, 0, ()), Verdict(1_682, 0, ("50 has 1",))
    assert state(replace(SNAPSHOT, job_state="starting"), MOMENT).plain == "the job starts; the log grows meanwhile"
    waiting = replace(MOMENT, waiting=True)
    assert state(replace(SNAPSHOT, job_state="starting"), waiting).plain == "the job starts; the replay waits for it"
    assert state(SNAPSHOT, MOMENT).plain == "replaying"
    assert state(replace(SNAPSHOT, earlier=9_000), MOMENT).plain == (
        "replaying beside 9,000 events of earlier runs: the same taps again change no count"
    )
    assert state(SNAPSHOT, done).plain == "replay finished; counting the rest"
    assert state(Snapshot(job_state="running"), done).plain == "replay finished; counting the rest"
    assert state(counted, done).plain == "replay finished; all counted; checking"
    assert state(replace(counted, verdict=right), done).plain == (
        "replay finished; all counted; checked: 1,682 contents equal an exact recount in both stores"
    )
    assert state(replace(counted, verdict=wrong), done).plain.startswith("wrong: 1 of 1,682 contents differ")
    assert "restarting" in state(replace(counted, verdict=right, job_state="restarting"), done).plain
    assert state(replace(counted, trouble="Kafka is away"), done).plain == "trouble: Kafka is away"


def test_a_line_says_the_same() -> None:
    assert line(SNAPSHOT, MOMENT) == (
        "1:23  in 54,321, counted 51,002, lag 3,319, staleness 4.2 s, users 512, likes 30,112, dislikes 9,876,"
        " dead letters 3; replaying"
    )
