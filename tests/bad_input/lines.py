"""Every kind of bad input: what is typed where, and what the command has to answer.

`told` is how the message begins, behind `runner: error: `; places are made by `tests.bad_input.places`.
"""

from dataclasses import dataclass

from tests.commands import APP

EMPTY_APP = "import runner\ntasks = runner.Registry()\n"
DEEP = "[" * 101 + "]" * 101
BIG = '"' + "x" * 262_144 + '"'


@dataclass(frozen=True)
class Case:
    """One command, typed where it cannot work."""

    kind: str
    arguments: str | tuple[str, ...]
    told: str
    code: int = 2
    place: str = "db"  # or a URL
    app: str | None = APP
    stdin: str = ""
    hint: str | None = None
    stdout: str = ""
    error: bool = True  # else `told` is a warning or notice, and the command goes on

    @property
    def words(self) -> list[str]:
        return (
            self.arguments.split(" ") if isinstance(self.arguments, str) else list(self.arguments)
        )


def _cases(kind: str, *rows: tuple[str | tuple[str, ...], str], **more: object) -> list[Case]:
    return [Case(kind, arguments, told, **more) for arguments, told in rows]  # type: ignore[arg-type]


OPTIONS = [
    *_cases(
        "procs",
        ("start --procs 0", "--procs: 0 is too few: at least 1"),
        ("start --procs -1", "--procs: -1 is too few: at least 1"),
        ("start --procs abc", "--procs: 'abc' is no whole number"),
        ("start --procs \u0661", "--procs: '\\u0661' is no whole number"),
        ("start --procs ++1", "--procs: '++1' is no whole number"),
        ("start --procs 1e9", "--procs: '1e9' is no whole number"),
        ("start --procs 1000000000", "--procs: 1000000000 is too many: at most 1000"),
    ),
    *_cases(
        "lease",
        ("start --lease 2s", "--lease 2s is too short: at least 3s"),
        ("start --lease nan", "--lease: 'nan' is no duration"),
        ("start --renew 15s", "--renew 15s must be above 0 and at most a third of --lease 30s"),
        ("start --renew 0", "--renew 0s must be above 0 and at most a third of --lease 30s"),
        ("drain --lease 2s", "--lease 2s is too short: at least 3s"),
    ),
    *_cases(
        "queue name",
        ("start --queue =2", "--queue: empty"),
        ("start --queue a,,b", "--queue: empty"),
        ("start --queue a=0", "--queue: 0 is too few: at least 1"),
        ("start --queue a=x", "--queue: 'x' is no whole number"),
        ("start --queue a,a", "--queue a is given twice"),
        (f"start --queue {'ä' * 32}", "--queue: longer than 63 bytes in UTF-8"),
        (f"enqueue hello --queue {'q' * 64}", "queue: longer than 63 bytes in UTF-8"),
        ("start --queue a\x1b[2J", "--queue: holds a character that does not print"),
        ("start --queue a=4 --procs 2", "--queue asks for 4 workers, --procs gives 2"),
        ("start --queue a=2,b --procs 2", "no worker is left for the queues without a number"),
    ),
    Case("queue name", ("enqueue", "hello", "--queue", ""), "queue: empty"),
    *_cases(
        "option misspelt",
        ("start --lese 30s", "no such option: --lese (did you mean --lease?)"),
        ("drian", "no such verb: drian (did you mean drain?)"),
        ("stat", "no such verb: stat (did you mean status?)"),
        ("start --lease", "option '--lease' requires an argument"),
        ("drain extra", "got unexpected extra argument (extra)"),
        ("drain --overlap maybe", "--overlap: 'maybe' is not one of 'skip', 'allow'"),
        ("enqueue", "missing argument"),
        ("--embedded --database-url x status", "--embedded and --database-url exclude each other"),
        (
            ("--database-url", "", "status"),
            "--database-url is empty: of a variable that is not set?",
        ),
        ("demo /nonexistent", "directory '/nonexistent' does not exist"),
    ),
    *_cases(
        "other options",
        ("start --priority x", "--priority: 'x' is not TYPE=N"),
        ("start --priority x=12", "--priority: must be from 0 (first) to 9 (last)"),
        ("start --fair nan", "--fair: 'nan' is no number from 0 to 1"),
        ("start --fair 1.5", "--fair: '1.5' is no number from 0 to 1"),
        ("start --backoff 0:1s", "--backoff: '0:1s': the first delay must be above 0"),
        ("start --poll 0", "--poll: 0 is too short"),
        ("start --max-memory-per-child 1x", "--max-memory-per-child: '1x' is no size"),
        ("start --max-tasks-per-child 0", "--max-tasks-per-child: 0 is too few: at least 1"),
        ("status --check max-dad=0", "--check: 'max-dad' is no bound"),
        ("status --check max-dead=few", "--check: 'few' is no whole number"),
    ),
]

TASKS = [
    *_cases(
        "params",
        ("enqueue hello {", "params: not JSON"),
        ("enqueue hello NaN", "params: NaN is not JSON"),
        ("enqueue hello [Infinity]", "params: Infinity is not JSON"),
        ('enqueue hello {"a":1,"a":2}', 'params: the key "a" stands twice in one object'),
        (r'enqueue hello ["\u0000"]', "params[0]: holds U+0000"),
        (r'enqueue hello ["\ud800"]', "params[0]: holds a lone surrogate"),
        (f"enqueue hello {DEEP}", "params: nested more than 100 deep"),
    ),
    Case(
        "params",
        "enqueue hello --from -",
        "line 1: params: larger than 262144 bytes",
        stdin=BIG + "\n",
    ),
    Case(
        "params",
        "enqueue hello path=a.jpg",
        "params: not JSON",
        hint="""params are JSON: '{"path": "…"}'""",
    ),
    Case(
        "params",
        "enqueue hello --from -",
        "line 1: params: not JSON",
        stdin="a.jpg\nb.jpg\n",
        hint="did you mean --lines FIELD?",
    ),
    Case(
        "params",
        "enqueue hello --from -",
        "line 2: params: not JSON",
        stdin='{"a": 1}\n{\n{"a": 2}\n',
    ),
    *_cases(
        "time, priority",
        ("enqueue hello --at 2030-01-01T00:00", "--at: without a time zone"),
        ("enqueue hello --at 9999-01-01T00:00Z", "--at: must be between 1970 and the year 9000"),
        ("enqueue hello --in 101000d", "--in: '101000d' is more than 100 years"),
        ("enqueue hello --in 1s --at 2030-01-01T00:00Z", "--in and --at exclude each other"),
        ("enqueue hello --priority 10", "priority: must be from 0 (first) to 9 (last)"),
        ("enqueue hello --priority -1", "priority: must be from 0 (first) to 9 (last)"),
    ),
    *_cases(
        "not dead",
        ("dead requeue {running}", "task {running} is running, not dead: nothing changed"),
        ("dead requeue {ready}", "task {ready} is ready, not dead: nothing changed"),
        ("dead discard {ready}", "task {ready} is ready, not dead: nothing changed"),
        ("dead requeue 123456789", "task 123456789 was never issued: nothing changed"),
        ("cancel 123456789", "task 123456789 was never issued: nothing changed"),
        code=1,
    ),
]

DATABASES = [
    Case("not a PostgreSQL URL", "status", "this is no PostgreSQL URL", 78, "mysql://u@h/d"),
    Case("not a PostgreSQL URL", "status", "the database URL does not parse", 78, "nonsense"),
    Case(
        "@ in the password",
        "status",
        "the database URL does not parse",
        78,
        "postgresql://u:a@b@h/d",
    ),
    Case(
        "/ in the password",
        "status",
        "the database URL does not parse",
        78,
        "postgresql://u:a/b@h/d",
    ),
    Case("no URL", "status", "no database: set DATABASE_URL", 78, ""),
    Case(
        "host unknown",
        "status --connect-wait 0",
        "cannot reach the database at u@nowhere.invalid/d",
        69,
        "postgresql://u@nowhere.invalid/d",
    ),
    Case(
        "refused",
        "status --connect-wait 0",
        "cannot reach the database at u@127.0.0.1:1/d",
        69,
        "postgresql://u@127.0.0.1:1/d",
    ),
    Case(
        "wrong password", "status", "cannot use the database at runner_test_locked@", 78, "locked"
    ),
    Case(
        "wrong password",
        "start --procs 1",
        "cannot use the database at runner_test_locked@",
        78,
        "locked",
    ),
    Case("no database", "status", "cannot use the database at postgres@", 78, "nowhere"),
    Case(
        "read-only standby",
        "status --connect-wait 0",
        "the database at postgres@{standby} is read-only",
        69,
        "standby",
    ),
    Case(
        "read-only standby",
        "start --procs 1 --connect-wait 0",
        "the database at postgres@{standby} is read-only",
        69,
        "standby",
    ),
    Case("server too old", "status", "PostgreSQL {major} is too old: 14 or newer", 78, "old"),
    Case(
        "schema missing",
        "start --procs 1",
        "the database runner_bad_bare has no runner schema",
        78,
        "bare",
        hint="run: runner init",
    ),
    Case(
        "schema older",
        "start --procs 1",
        "the schema is version 0, this program needs",
        78,
        "older",
        hint="run: runner migrate",
    ),
    Case(
        "schema newer",
        "start --procs 1",
        "the schema is version 999, newer than this program's",
        78,
        "newer",
        hint="install the runner that made it, or a newer one",
    ),
    Case(
        "missing privilege",
        "list",
        "permission denied for table",
        78,
        "enqueuer",
        hint="give the login its role (deploy/roles.sql); runner doctor names what is missing",
    ),
    Case("missing privilege", "drain --procs 1", "permission denied for ", 78, "enqueuer"),
    Case(
        "connections",
        "check --procs 500 -q",
        "runner: warning: 500 workers need 505 connections (500 + 5), ",
        0,
        error=False,
        stdout="type\t",
    ),
]

SYNTAX = "x = 1\ndef f(:\n"
RAISES = "import os\n\nraise OSError('disk')\n"
EXITS = "import sys\nsys.exit(3)\n"
TWICE = APP + "\ndef again_hello(tx, task): pass\ntasks.add(again_hello, name='hello')\n"
ARITY = APP + "\n@tasks.task\ndef h(task): pass\n"
ASYNC = APP + "\n@tasks.task\nasync def h(tx, task): pass\n"
APPS = [
    case
    for verb in ("check", "start --procs 1", "drain --procs 1")
    for case in (
        Case("app not found", f"{verb} -A nosuch", "app nosuch not found in", 78),
        Case("app not found", verb, "no app: give -A MODULE, or set RUNNER_APP", 78, app=None),
        Case("app: syntax error", verb, "app tasks: {cwd}/tasks.py:2: SyntaxError", 78, app=SYNTAX),
        Case("app raises", verb, "app tasks: {cwd}/tasks.py:3: OSError: disk", 78, app=RAISES),
        Case(
            "app calls sys.exit",
            verb,
            "app tasks: {cwd}/tasks.py:2: calls sys.exit(3) at import",
            78,
            app=EXITS,
        ),
        Case(
            "two handlers of one name",
            verb,
            "{cwd}/tasks.py:17: two handlers are called hello, the first at {cwd}/tasks.py:5",
            78,
            app=TWICE,
        ),
        Case(
            "wrong arity",
            verb,
            "{cwd}/tasks.py:17: handler h(task) must take exactly",
            78,
            app=ARITY,
        ),
        Case("wrong arity", verb, "{cwd}/tasks.py:17: handler h is async", 78, app=ASYNC),
    )
]
APPS += [
    Case(
        "app: a path",
        "start --procs 1 -A ./shop/tasks.py",
        "app ./shop/tasks.py: no name of a module",
        78,
        hint="did you mean -A shop.tasks?",
    ),
    Case("app: a path", "check -A tasks.py", "app tasks.py: no name of a module", 78),
    Case("app: a path", "check -A ../x", "app ../x: no name of a module", 78),
    Case("app: no module", "check -A :tasks", "app :tasks: no name of a module", 78),
]
APPS.append(
    Case(
        "app without handlers",
        "check",
        "runner: warning: app tasks registers no handlers",
        0,
        app=EMPTY_APP,
        error=False,
    )
)

CASES = [*OPTIONS, *TASKS, *DATABASES, *APPS]
