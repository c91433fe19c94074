"""Three Patroni nodes; the primary's PostgreSQL, its Patroni, and its network are struck under load,
standbys are behind, and a switchover is asked for."""

import pytest

from chaos.replicated import failovers, lacking
from chaos.strikes import KINDS, STRIKES
from tests import servers

pytestmark = [pytest.mark.process, pytest.mark.full, pytest.mark.timeout(900)]
behind_haproxy = pytest.mark.skipif(lacking("haproxy") is not None, reason=str(lacking("haproxy")))
by_names = pytest.mark.skipif(lacking("urls") is not None, reason=str(lacking("urls")))


@pytest.fixture(autouse=True)
def _init_buries_the_dead() -> None:
    """A killed postmaster that became our child would stay a zombie, and Patroni wait for its end."""
    servers.adopt_orphans(False)


@behind_haproxy
def test_nothing_acknowledged_is_lost_with_synchronous_replication() -> None:
    result = failovers(True, KINDS, "haproxy")
    assert result.wrong == []
    assert result.judgement.completed == result.judgement.acknowledged > 150


@behind_haproxy
def test_what_is_left_agrees_with_asynchronous_replication() -> None:
    """What is lost is the end of what the old primary had, and nothing from between. The last strike
    comes when the standbys are behind, so that something is."""
    result = failovers(False, [*STRIKES, "lagging"], "haproxy")
    assert result.wrong == []
    assert result.judgement.lost or not result.rounds[-1].moved


@by_names
def test_a_url_that_names_all_three() -> None:
    """`target_session_attrs=read-write`; nothing but the database in between."""
    assert failovers(True, ["postgres", "network"], "urls").wrong == []
