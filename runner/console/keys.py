"""What was typed, as the names of keys: `a`, `up`, `enter`, `escape`. Pure."""

import re

_NAMED = {
    b"\t": "tab",
    b"\n": "enter",
    b"\r": "enter",
    b" ": "space",
    b"\x0c": "redraw",
    b"\x7f": "escape",
    b"\x08": "escape",
}
_SEQUENCES = {
    b"A": "up",
    b"B": "down",
    b"C": "right",
    b"D": "left",
    b"H": "home",
    b"F": "end",
    b"Z": "backtab",
    b"5~": "pageup",
    b"6~": "pagedown",
    b"1~": "home",
    b"4~": "end",
}
# A control sequence or one of the keypad, whole; its last byte, and a number before it, say which.
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*([@-~])|O([@-~]))")
_LONGEST = 32  # bytes of a sequence; what is longer is none


class Keys:
    """Cuts the bytes of a terminal into keys, whatever pieces they come in."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def waiting(self) -> bool:
        """Whether the last byte may be the Escape key, or begin a sequence that is still to come."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[str]:
        """The keys that `data` completes; what is no key is skipped."""
        data = self._rest + data
        self._rest = b""
        found: list[str] = []
        at = 0
        while at < len(data):
            if data[at : at + 1] != b"\x1b":
                found += _plain(data[at : at + 1])
                at += 1
            elif (match := _SEQUENCE.match(data, at)) is not None:
                found += _of_sequence(match.group())
                at = match.end()
            elif _may_go_on(data[at:]):
                self._rest = data[at:]
                break
            else:
                found.append("escape")
                at += 1
        return found

    def flush(self) -> list[str]:
        """Nothing has followed for a while: a lone Escape was the key."""
        lone, self._rest = self._rest == b"\x1b", b""
        return ["escape"] if lone else []


def _may_go_on(data: bytes) -> bool:
    return data == b"\x1b" or (data[1:2] in (b"[", b"O") and len(data) < _LONGEST)


def _plain(byte: bytes) -> list[str]:
    if name := _NAMED.get(byte):
        return [name]
    return [byte.decode()] if 0x20 < byte[0] < 0x7F else []


def _of_sequence(sequence: bytes) -> list[str]:
    name = _SEQUENCES.get(sequence[2:]) or _SEQUENCES.get(sequence[-1:])
    return [name] if name else []
