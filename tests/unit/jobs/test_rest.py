from __future__ import annotations

import pytest

from pipelines.errors import ServiceUnavailable
from pipelines.jobs.rest import FlinkRest, shorten

TRACE = """java.lang.RuntimeException: Error received from SDK harness for instruction 3:
Traceback (most recent call last):
  File "connectors/store.py", line 1, in write
pipelines.errors.ServiceUnavailable: Cassandra at 127.0.0.1:9042 does not answer; run `likes stack up`
Caused by: java.io.IOException: closed
\tat org.apache.flink.X
"""


def test_the_line_that_says_most_is_python_s_own() -> None:
    expected = "pipelines.errors.ServiceUnavailable: Cassandra at 127.0.0.1:9042 does not answer; run `likes stack up`"
    assert shorten(TRACE) == expected
    assert shorten("a.B: x\nCaused by: c.D: y\n\tat z\nCaused by: e.F: w\n") == "e.F: w"
    assert shorten("only this") == "only this"
    assert not shorten("")


def test_a_cluster_that_is_not_there_is_named_with_the_remedy() -> None:
    with pytest.raises(ServiceUnavailable, match=r"Flink at http://127.0.0.1:9 does not answer.*job.flink_rest"):
        FlinkRest("http://127.0.0.1:9/").jobs()


def test_a_job_is_as_old_as_its_first_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FlinkRest, "vertices", lambda *_: [{"duration": n} for n in (6_750, 7_250, -1)])
    assert FlinkRest("http://127.0.0.1:9").age_s("job") == pytest.approx(7.25)
    monkeypatch.setattr(FlinkRest, "vertices", lambda *_: [{"duration": -1}])
    assert FlinkRest("http://127.0.0.1:9").age_s("job") == 0.0
