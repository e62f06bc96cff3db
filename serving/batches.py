"""What many requests ask of a service at the same time, asked together.

While a few batches are on their way, whatever else is wanted waits for the next one; so a batch grows with the load,
and alone nobody waits for company.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import redis.asyncio

from serving.dependency import Away

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence

Item = TypeVar("Item", bound="Hashable")
Answer = TypeVar("Answer")

_COMMANDS = 500


class Batches(Generic[Item, Answer]):
    """Asks for items in batches, on the running event loop.

    Args:
        send: Takes distinct items and returns an answer, or an exception, for each; what it raises is raised for all.
        most: Items in one batch.
        flights: Batches on their way at once.
    """

    def __init__(
        self, send: Callable[[list[Item]], Awaitable[Sequence[Answer | Exception]]], *, most: int, flights: int = 2
    ) -> None:
        self._send = send
        self._most = most
        self._flights = flights
        self._waiting: dict[Item, list[asyncio.Future[Answer]]] = {}
        self._flying: set[asyncio.Task[None]] = set()
        self._starts = False

    async def ask(self, item: Item) -> Answer:
        """The answer to an item; who asks for the same one meanwhile shares it.

        Raises:
            Away: The event loop ends.
            Exception: What `send` says of the item.
        """
        return await self.put(item)

    def put(self, item: Item) -> asyncio.Future[Answer]:
        """The same for who waits later, or not at all."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.setdefault(item, []).append(answer)
        if not self._starts and len(self._flying) < self._flights:
            self._starts = True
            loop.call_soon(self._start)
        return answer

    def _start(self) -> None:
        self._starts = False
        while self._waiting and len(self._flying) < self._flights:
            batch = dict(islice(self._waiting.items(), self._most))
            for item in batch:
                del self._waiting[item]
            task = asyncio.ensure_future(self._fly(batch))
            self._flying.add(task)
            task.add_done_callback(self._landed)

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._flying.discard(task)
        self._start()

    async def _fly(self, batch: dict[Item, list[asyncio.Future[Answer]]]) -> None:
        answers: Sequence[Answer | Exception]
        try:
            answers = await self._send(list(batch))
        except asyncio.CancelledError:
            answers = [Away("the service ends")] * len(batch)
        except Exception as error:  # noqa: BLE001  whoever asked decides what it means
            answers = [error] * len(batch)
        for futures, answer in zip(batch.values(), answers, strict=True):
            for future in futures:
                if future.done():
                    continue  # whoever waited has gone
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)


class _Command:
    """One command of Redis; no two are the same."""

    __slots__ = ("args", "options")

    def __init__(self, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.args, self.options = args, options


class TogetherRedis(redis.asyncio.Redis):  # type: ignore[misc, type-arg, unused-ignore]
    """A client of Redis whose commands share pipelines with those that are given at the same time.

    Guarantee: the order of commands of one task that waits for each; nothing is tried again.

    Args:
        args: As redis-py has them.
        timeout_s: Of one pipeline, connecting included.
        kwargs: As redis-py has them.
    """

    def __init__(self, *args: Any, timeout_s: float = 1.0, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self.timeout_s = timeout_s
        self._batches: Batches[_Command, Any] = Batches(self._send_all, most=_COMMANDS, flights=1)

    async def execute_command(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        """The answer to a command, as redis-py has it.

        Raises:
            RedisError: What Redis says of this one, or of the pipeline.
            TimeoutError: It says nothing in time.
        """
        return await self._batches.ask(_Command(args, options))

    async def _send_all(self, commands: list[_Command]) -> list[Any]:
        pipeline = self.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command.args, **command.options)
        async with asyncio.timeout(self.timeout_s):
            return list(await pipeline.execute(raise_on_error=False))
