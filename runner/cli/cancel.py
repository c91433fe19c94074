"""`runner cancel ID…`: take tasks away, whatever they are at."""

import click

from ..operating.person import who
from .changing import Deed, Doing
from .choosing import ids_argument
from .database import connect_wait, connection
from .settings import Settings


@click.command()
@ids_argument(required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@connect_wait()
@click.pass_obj
def cancel(settings: Settings, /, ids: tuple[int, ...], as_json: bool, connect_wait: float) -> None:
    """Delete tasks in any state; `runner show` tells who did so and when.

    The worker of a running one is killed when its lease is renewed next, a sixth of --lease at most:
    what the task wrote in its transaction is undone, effects elsewhere stand.
    """
    from ..store import operate

    change = operate.remover("cancelled", who())
    deed = Deed("cancel", "cancelled", operate.EVERY_STATE, change)
    with connection(settings, "cancel", connect_wait) as conn:
        # They were named one by one: that is asking enough.
        Doing(conn, settings, deed, as_json).to_named(tuple(dict.fromkeys(ids)), yes=True)
