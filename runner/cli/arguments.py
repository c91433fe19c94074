"""Secrets on the command line: everybody on the host can read it, so they do not stay there."""

import re
from collections.abc import Sequence

OPTION = "--database-url"
# Whatever carries a password, typed in the wrong place as well.
_CREDENTIALS = re.compile(r"://[^/\s]*@|passw(?:or)?d", re.IGNORECASE)


def hide_secrets(arguments: Sequence[str]) -> None:
    """Overwrite database URLs and passwords in what `ps` shows of this process and its children.

    What was typed is seen for the moment that it takes to get here; a URL in the environment never is.
    """
    if found := secrets(arguments):
        from ..kernel import overwrite_arguments

        overwrite_arguments(found)


def secrets(arguments: Sequence[str]) -> list[str]:
    """The pieces of a command line that are nobody's business."""
    found = []
    for before, argument in zip(("", *arguments), arguments, strict=False):
        name, _, value = argument.partition("=")
        if before == OPTION:
            found.append(argument)
        elif name == OPTION:
            found.append(value)
        elif _CREDENTIALS.search(argument):
            found.append(argument)
    return [one for one in found if one]
