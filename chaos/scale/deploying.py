"""A rolling deploy, host by host, of a release that knows one type more."""

from chaos.scale.ground import Found, Ground

NEXT = "chaos.handlers_next"
NEW = "novel"
TOUCHED = """select count(*) from runner.task
             where task_type = 'novel' and (attempt > 0 or fence > 0 or released > 0)"""
WAITING = "select count(*) from runner.task where task_type = 'novel'"
CHARGED = "select coalesce(sum(attempt - 1), 0) from effect where task_id = any (%s)"
WHERE = "select distinct host(address) from effect where task_id = any (%s)"


def deploying(ground: Ground, each: int) -> Found:
    """So many tasks of the new type, and of a known one, are added before each host is replaced."""
    new: list[int] = []
    wrong = []
    known: set[str] = set()

    def add() -> None:
        new.extend(ground.add(NEW, each))
        ground.add("quick", each)

    add()
    ground.until(lambda: ground.left() == each, "the known type done")
    before = ground.count(TOUCHED)
    if before:
        wrong.append(f"{before} claimed by hosts that do not know the type")
    for runner in ground.runners:
        assert runner.host is not None
        add()
        runner.app = NEXT
        known.add(runner.host.address)
        ground.replace(runner)
        ground.until(lambda: ground.left() == 0, "both types done")
        ran = {str(row[0]) for row in ground.conn.execute(WHERE, [new])}
        wrong += [f"run at {address}, before its turn" for address in ran - known]
    burnt = ground.count(CHARGED, new)
    wrong += [f"{burnt} attempts burnt"] if burnt else []
    said = (
        f"rolling deploy over {len(ground.runners)} hosts: {len(new)} tasks of the new type,"
        f" claimed by hosts that do not know it: {before}, attempts burnt: {burnt};"
        f" {sum(map(int, ground.shares(new[0]).values()))} effects in all"
    )
    return Found(said, wrong + ground.faults())
