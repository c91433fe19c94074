"""One line for each verb as people type it, shown at the end of its help; the tests parse every one."""

import click

EXAMPLES = {
    "start": "runner start --procs 8 --queue mail=2 --queue default -A shop.tasks",
    "drain": "runner drain --max-time 50s --wait-retries 30s -A shop.tasks",
    "enqueue": "find . -name '*.jpg' | runner enqueue resize_photo --from - --lines path",
    "status": "runner status --check max-oldest=5m,max-dead=0",
    "workers": "runner workers --json | jq 'select(.run_seconds > 600)'",
    "todo": "runner todo --scaffold >> tasks.py",
    "list": "runner list --state scheduled --type send_mail --limit 20",
    "show": "runner show 4711 --json",
    "explain": "runner explain 4711",
    "dead list": "runner dead list --type send_mail --older-than 1h",
    "dead show": "runner dead show 4711",
    "dead requeue": "runner dead requeue --error 'connection refused' --dry-run",
    "dead discard": "runner dead discard --older-than 90d --yes",
    "cancel": "runner cancel 4711 4712",
    "pause": "runner pause --type send_mail --until 2h",
    "resume": "runner resume --type send_mail",
    "init": "runner init --sql | less",
    "migrate": "runner migrate --dry-run",
    "check": "runner check -A shop.tasks",
    "doctor": "runner doctor",
    "health": "runner health --min-workers 4 --here",
    "metrics": "runner metrics --file /var/lib/node_exporter/runner.prom",
    "db url": 'psql "$(runner db url)"',
    "db start": "runner db start",
    "db stop": "runner db stop",
    "db status": "runner db status --json",
    "db psql": "runner db psql -c 'select * from runner.task limit 5'",
    "db reset": "runner db reset --yes",
    "demo": "runner demo .",
}


def add_example(command: click.Command, name: str) -> None:
    """Give a command, or every verb of a group, its example."""
    if isinstance(command, click.Group):
        for verb, inner in command.commands.items():
            add_example(inner, f"{name} {verb}")
    elif name in EXAMPLES:
        # \b: the lines stay as they are.
        command.epilog = f"\b\nExample:\n  {EXAMPLES[name]}"
