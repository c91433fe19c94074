"""A span for every attempt, by the conventions of OpenTelemetry for messaging; needs the extra `otel`.

Times in traces are the handler's: from its first line to its last, before the commit.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .errors import ConfigError, Snooze, Stopped
from .registry import Registry
from .task import Task

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

SYSTEM = "runner"
NO_FAILURES = (Snooze, Stopped)  # a handler that asks for later, or has to stop, has not failed


def instrument(tasks: Registry, tracer_provider: "TracerProvider | None" = None) -> None:
    """Have every handler of a registry run inside a span of kind CONSUMER.

    `tracer_provider`: the global one when it is left out. What its processors hold back is sent when
    the worker stops; of a worker that is killed it is lost. ConfigError without opentelemetry-api.
    """
    try:
        from opentelemetry import trace
    except ImportError:
        raise ConfigError(
            "opentelemetry-api is not installed", hint="install: pgbatch-runner[otel]"
        ) from None
    from . import __version__

    provider = tracer_provider or trace.get_tracer_provider()
    tracer = provider.get_tracer("runner", __version__)

    @tasks.around
    def span(task: Task) -> Iterator[None]:
        with tracer.start_as_current_span(
            f"process {task.queue}",
            kind=trace.SpanKind.CONSUMER,
            attributes=attributes(task),
            record_exception=False,
            set_status_on_exception=False,
        ) as current:
            try:
                yield
            except NO_FAILURES:
                raise
            except BaseException as error:
                current.set_attribute("error.type", type(error).__qualname__)
                current.record_exception(error)
                current.set_status(trace.Status(trace.StatusCode.ERROR, type(error).__name__))
                raise

    @tasks.on_worker_stop
    def send_the_rest() -> None:
        flush = getattr(provider, "force_flush", None)
        if flush is not None:
            flush()


def attributes(task: Task) -> dict[str, Any]:
    """What is said of a task; never its params."""
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": task.queue,
        "messaging.message.id": str(task.id),
        "runner.task.type": task.type,
        "runner.task.attempt": task.attempt,
        "runner.task.max_attempts": task.max_attempts,
    }
