"""What an error of the database means to the person who typed a command."""

import psycopg

from .connect import tells_of_server


def explain(error: BaseException) -> tuple[str, str | None, int] | None:
    """Message, hint and exit code; None when it is no error of the database.

    DETAIL and CONTEXT stay out: they hold values of rows.
    """
    if not isinstance(error, psycopg.Error):
        return None
    message = error.diag.message_primary or str(error)
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return (
            message,
            "give the login its role (deploy/roles.sql); runner doctor names what is missing",
            78,
        )
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedFunction):
        return message, "run: runner init", 78
    if isinstance(error, psycopg.errors.QueryCanceled | psycopg.errors.LockNotAvailable):
        return f"the database took too long: {message}", None, 69
    if isinstance(error, psycopg.errors.DiskFull) or tells_of_server(error):
        return f"the database failed: {message}", None, 69
    return f"internal: {type(error).__name__}: {message}", "run it again with -v for more", 70
