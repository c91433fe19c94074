"""The next release of `chaos.handlers`: it knows one more type."""

from chaos.handlers import EFFECT, tasks, watched


@tasks.task(max_attempts=50)
def novel(tx, task):
    """One effect."""
    with watched(task):
        tx.execute(EFFECT, [task.id, task.attempt])
