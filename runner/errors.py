"""Every error of the project: one base with an exit code, printed in one place (`runner.cli`)."""


class RunnerError(Exception):
    """Something went wrong that one line can tell; `exit_code` is what the command ends with."""

    exit_code = 70

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())
        self.hint = hint


class UsageError(RunnerError):
    """Wrong options or arguments."""

    exit_code = 2


class InvalidTask(UsageError, ValueError):
    """A task that cannot be stored as it is; raised before any SQL is sent."""


class InvalidParams(RunnerError, ValueError):
    """The params of a task are not those that its handler takes; the task fails with this text."""


class ConfigError(RunnerError):
    """The surroundings are not set up: app, URL, schema or password."""

    exit_code = 78


class NoDatabase(ConfigError):
    """no database: set DATABASE_URL"""


class SchemaMismatch(ConfigError):
    """The schema in the database is missing, older or newer than this program."""


class AppError(ConfigError):
    """The app with the handlers could not be loaded."""


class DatabaseUnreachable(RunnerError):
    """The database did not answer within the time given to connect."""

    exit_code = 69


class EmbeddedError(RunnerError):
    """The embedded PostgreSQL could not be started or stopped."""

    exit_code = 70


class NoServerHere(EmbeddedError):
    """No PostgreSQL is installed here that could be the embedded one."""

    exit_code = 78


class NothingChanged(RunnerError):
    """What was asked for did not apply to anything: nothing changed."""

    exit_code = 1


class Busy(RunnerError):
    """Another drain holds the lock."""

    exit_code = 75


class LeaseLost(RunnerError):
    """The task is no longer ours: id, owner and fence matched no row, so everything is rolled back."""


class TransactionMisuse(RunnerError):
    """A handler tried to end the transaction that deletes its task."""


class Retry(Exception):
    """Raised by a handler: this attempt failed, try again after `delay` seconds (None: backoff)."""

    def __init__(self, message: str = "", *, delay: float | None = None) -> None:
        super().__init__(message)
        self.delay = delay


class Snooze(Exception):
    """Raised by a handler: not now, again in `delay` seconds; the attempt is refunded."""

    def __init__(self, delay: float) -> None:
        super().__init__(f"snoozed for {delay} s")
        self.delay = delay


class Discard(Exception):
    """Raised by a handler: this can never succeed; the task is dead at once, with the reason."""


class Stopped(KeyboardInterrupt):
    """Raised inside a handler when the fleet stops and the grace is over; the task is released.

    Derives from KeyboardInterrupt because only then does psycopg cancel a statement under way.
    """


class TimeLimit(KeyboardInterrupt):
    """Raised inside a handler at its time limit; a failure with the cause `time limit`."""
