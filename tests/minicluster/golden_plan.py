"""The golden plans: which operators a pipeline has, how they are chained, and what of it a savepoint depends on.

    golden/<pipeline>.plan.txt    every operator, task by task, and what the grouping ones do
    golden/<pipeline>.state.txt   every operator by the id under which a savepoint files its state, and the layout of
                                  the keyed state

`.venv/bin/python -m tests.minicluster.golden_plan` writes them. Numbers that Flink counts up within a process are left
out.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyflink.java_gateway import get_gateway
from pyflink.table import StatementSet, TableEnvironment
from pyflink.util.java_utils import get_field_value

from connectors.cassandra import Lease
from deploy.flink.local_stack.jars import ensure_jars
from pipelines import like_counts, user_likes
from pipelines.jobs import tables
from pipelines.jobs.saved_state import StateFolders
from pipelines.settings import EventSettings, Settings
from pipelines.steps.read import read
from pipelines.steps.store import StoreTotals
from pipelines.steps.store_reactions import StoreReactions
from tests.minicluster.support import MiniCluster

_LEASE = Lease("lease", "owner", "host", 0, "", 0)

PIPELINES = ("like_counts", "user_likes")
GOLDEN = Path(__file__).parent / "golden"
COMMAND = ".venv/bin/python -m tests.minicluster.golden_plan"
# The others compute row by row; what they say is the steps' own SQL.
_TELLING = (
    "TableSourceScan",
    "MiniBatchAssigner",
    "Aggregate",
    "Exchange",
    "ProcessTableFunction",
    "PythonCalc",
    "Sink",
)


@dataclass(frozen=True, slots=True)
class Task:
    """A chain of operators.

    Fields:
        inputs: How the rows of each input are spread.
        operators: (operator id, name), source first.
    """

    inputs: tuple[str, ...]
    operators: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """What Flink makes of a pipeline.

    Fields:
        tasks: From the job graph that would be submitted.
        nodes: The optimised plan's nodes as Flink serialises them.
    """

    tasks: tuple[Task, ...]
    nodes: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, env: TableEnvironment, statements: StatementSet) -> Planned:
        compiled = json.loads(statements._j_statement_set.compilePlan().asJsonString())
        return cls(tuple(_tasks(env, statements)), tuple(compiled["nodes"]))

    def operators(self, kind: str) -> list[str]:
        """The names of the operators of a kind: the part of a name before any bracket or colon."""
        return [name for task in self.tasks for _, name in task.operators if re.split(r"[^A-Za-z ]", name)[0] == kind]

    def descriptions(self, kind: str) -> list[str]:
        """What the optimised plan's nodes of a kind do."""
        return [text for node in self.nodes if (text := node["description"]).startswith(f"{kind}(")]

    def plan_text(self) -> str:
        lines = ["operators, task by task"]
        for number, task in enumerate(self.tasks, 1):
            lines.append(f"  task {number}{''.join(f' ⟵ {spread}' for spread in task.inputs)}")
            lines += [f"    {name}" for _, name in task.operators]
        lines.append("nodes that read, group, exchange, call Python or write")
        told = (node["description"] for node in self.nodes)
        lines += [f"  {text}" for text in told if any(kind in text.partition("(")[0] for kind in _TELLING)]
        return "\n".join(lines) + "\n"

    def state_text(self) -> str:
        lines = ["operator ids"]
        lines += [f"  {identity}  {name}" for task in self.tasks for identity, name in task.operators]
        lines.append("keyed state")
        for node in self.nodes:
            for state in node.get("state", ()):
                lines.append(f"  {node['description'].partition(', select')[0]})")
                lines.append(f"    {state['name']}, ttl {state['ttl']}, of {node['localAggInputRowType']}")
                lines += [f"      {call['internalName']} {call['type']} {call['name']}" for call in node["aggCalls"]]
        return "\n".join(lines) + "\n"


def plan(cluster: MiniCluster, pipeline: str, folder: Path, rules: EventSettings | None = None) -> Planned:
    """Plan a pipeline with its real settings, connectors and functions; nothing is connected to."""
    settings = Settings() if rules is None else Settings(events=rules)
    env = cluster.environment(StateFolders(folder), settings.job, parallelism=2, jars=ensure_jars("flink"))
    connector = tables.source(settings, "group", None)

    def source(env: TableEnvironment) -> None:
        read(env, connector)

    if pipeline == "user_likes":
        return Planned.of(env, user_likes.build(env, source, settings.events, StoreReactions(settings, _LEASE)))
    function = StoreTotals(settings, 1, _LEASE)
    return Planned.of(env, like_counts.build(env, source, tables.sinks(settings, 1), settings.events, function, 1))


def _tasks(env: TableEnvironment, statements: StatementSet) -> Iterator[Task]:
    """What `execute` does up to the job graph."""
    java, jvm = env._j_tenv, get_gateway().jvm
    transformations = java.getPlanner().translate(statements._j_statement_set.getOperations())
    configuration = java.getConfig().getConfiguration()
    pipeline = get_field_value(java, "execEnv").createPipeline(
        transformations, configuration, "plan", jvm.java.util.ArrayList()
    )
    for vertex in pipeline.getJobGraph().getVerticesSortedTopologicallyFromSources():
        pairs = [
            (pair.getGeneratedOperatorID().toHexString(), re.sub(r"\[\d+\]", "", pair.getUserDefinedOperatorName()))
            for pair in vertex.getOperatorIDs()
        ]
        # Flink lists a chain from its end.
        yield Task(tuple(edge.getShipStrategyName() for edge in vertex.getInputs()), tuple(reversed(pairs)))


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        cluster = MiniCluster(Path(folder))
        for pipeline in PIPELINES:
            planned = plan(cluster, pipeline, Path(folder))
            for kind, text in (("plan", planned.plan_text()), ("state", planned.state_text())):
                file = GOLDEN / f"{pipeline}.{kind}.txt"
                file.write_text(text, encoding="utf-8")
                print(file)  # noqa: T201 - a command


if __name__ == "__main__":
    main()
