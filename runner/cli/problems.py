"""The one error printer: whatever ended a command becomes `runner: error: …`, a hint, an exit code."""

import contextlib
import difflib
import re
import sys
import traceback

import click

from ..errors import RunnerError
from ..text import one_line, redact, safe
from .settings import Settings

INTERRUPTED = 130
LINE_LIMIT = 2000

# Whatever a person typed may be repeated in an error, a URL in the wrong place as well.
_SECRETS = [
    (re.compile(r"(\w://)(?:.*@\S*|\S+)"), r"\1***"),
    (re.compile(r"(passw(?:or)?d\s*=\s*)('(?:[^'\\]|\\.)*'?|[^\s&]+)", re.IGNORECASE), r"\1***"),
]
_LIKE_A_URL = re.compile(r"\S*(?:passw.*|(?:@|://)\S*)", re.IGNORECASE)


def report(error: BaseException, settings: Settings) -> int:
    """Print an error in the common form and return the exit code that it means."""
    if isinstance(error, KeyboardInterrupt) or _is_interrupted(error):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return 0  # the reader has had enough
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 0
    if type(error).__name__ == "NoArgsIsHelpError":  # where click has it: a group without a verb
        tell(str(getattr(error, "message", "")), settings, cut=False)
        return 2
    message, hint, code = explain(error)
    # Behind an error of ours there is something to see only where it tells of another one.
    telling = code == 70 or error.__cause__ is not None
    if settings.verbosity > (0 if telling else 1) and not isinstance(error, click.ClickException):
        tell("".join(traceback.format_exception(error)).rstrip(), settings, cut=False)
    tell(f"runner: error: {message}", settings)
    if hint:
        tell(f"hint: {hint}", settings)
    return code


def explain(error: BaseException) -> tuple[str, str | None, int]:
    """Message, hint and exit code of an error."""
    if isinstance(error, RunnerError):
        return str(error), error.hint, error.exit_code
    if isinstance(error, click.Abort):
        return "nothing was answered", None, 1
    if isinstance(error, click.ClickException):
        return _explain_usage(error)
    if "psycopg" in sys.modules:
        from ..store.troubles import explain as explain_database

        if (found := explain_database(error)) is not None:
            return found
    return f"internal: {type(error).__name__}: {error}", "run it again with -v for more", 70


def tell(text: str, settings: Settings, *, cut: bool = True) -> None:
    """Write to stderr, without secrets; a closed or full stderr is nobody's concern."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    text = redact(text, _password(settings))
    lines = [one_line(text)] if cut else text.splitlines()
    with contextlib.suppress(OSError, ValueError):
        for line in lines:
            sys.stderr.write(safe(line, LINE_LIMIT) + "\n")
        sys.stderr.flush()


def notice(text: str, settings: Settings) -> None:
    """One line on stderr that is no error; not with -q."""
    if settings.verbosity >= 0:
        tell(f"runner: {text}", settings)


def _explain_usage(error: click.ClickException) -> tuple[str, str | None, int]:
    message = error.format_message()
    context = getattr(error, "ctx", None)
    hint = f"see {context.command_path} --help" if context is not None else None
    if isinstance(error, click.NoSuchOption):
        message = f"no such option: {error.option_name}{_neighbour(error, context)}"
    elif isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter):
        options = [each for each in (error.param.opts if error.param else []) if each[0] == "-"]
        message = f"{options[-1]}: {error.message}" if options else error.message
    message = _LIKE_A_URL.sub("***", message)  # typed where no URL belongs, so nobody has parsed it
    return message[:1].lower() + message[1:].rstrip("."), hint, error.exit_code


def _neighbour(error: click.NoSuchOption, context: click.Context | None) -> str:
    names = [] if context is None else [n for each in context.command.params for n in each.opts]
    bare = {name.lstrip("-"): name for name in names if name.startswith("--")}
    near = difflib.get_close_matches(error.option_name.lstrip("-"), bare, 1)
    return f" (did you mean {bare[near[0]]}?)" if near else ""


def _is_interrupted(error: BaseException) -> bool:
    # click raises it `from None`, so only the context tells a Ctrl-C from an input that has ended.
    return isinstance(error, click.Abort) and not isinstance(error.__context__, EOFError)


def _password(settings: Settings) -> str | None:
    """The password of the URL in use, if it has one that can be read."""
    if not settings.database_url or "psycopg" not in sys.modules:
        return None
    from ..store.connect import password

    with contextlib.suppress(RunnerError):
        return password(settings.database_url)
    return None
