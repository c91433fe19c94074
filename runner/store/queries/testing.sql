-- name: nested_begin
-- Where a test has a transaction open already: a savepoint stands for the handler's BEGIN.
savepoint runner_nested; set local runner.claim = {marker};

-- name: nested_commit
-- Its COMMIT. What a real one would check is checked, and then forgotten: the test's own checks it again.
savepoint runner_check; set constraints all immediate; rollback to savepoint runner_check;
release savepoint runner_nested;

-- name: nested_rollback
-- Its ROLLBACK.
rollback to savepoint runner_nested; release savepoint runner_nested;
