"""What a worker knows of its own lease."""

from runner.handling.lease import OwnLease


def joined(at: float = 100.0) -> OwnLease:
    own = OwnLease(5.0)
    own.forget()
    own.join(at)
    return own


def test_it_claims_with_half_a_lease_in_front_of_it() -> None:
    own = joined()
    assert not own.may_claim(100.0)
    own.extend(105.5)
    assert own.may_claim(103.0)
    assert not own.may_claim(103.1)


def test_an_extension_of_the_identity_before_counts_for_nothing() -> None:
    """An order may come late: between the identities, or when the new one is announced already."""
    own = OwnLease(5.0)
    own.extend(103.0)
    own.forget()
    own.extend(104.0)
    assert not own.may_claim(100.0)
    own.join(100.0)
    own.extend(104.9)
    assert not own.may_claim(100.0)
    own.extend(105.1)
    assert own.may_claim(100.0)
    assert own.deadline == 105.1


def test_the_lease_is_its_end_while_it_holds_something() -> None:
    own = joined()
    own.extend(105.5)
    assert own.ends_us_at is None
    own.holding = True
    assert own.ends_us_at == 105.5
