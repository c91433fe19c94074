-- name: complete
-- Deletes a task whose claim is ours, in its handler's transaction, whose marker comes back.
delete from runner.task
where task_id = %(task_id)s and lease_owner = %(worker_id)s and fence = %(fence)s
  and state = 'running'
returning current_setting('runner.claim', true);

-- name: complete_and_commit
-- The same with the COMMIT behind it, in one string and so one round trip; an error skips the COMMIT.
select runner.complete(%d, '%s', %d, '%s'); commit;

-- name: complete_or_raise
-- The same with nothing to parse and plan at each task, as runner_complete of the session, and no index to
-- search: the row is where its claim has left it. Where it is not, the function looks for it by its number, and
-- raises what there is to raise: to run it each time costs the server more.
with deleted as (
    delete from runner.task t
    where t.ctid = $5 and t.task_id = $1 and t.lease_owner = $2 and t.fence = $3 and t.state = 'running'
      and current_setting('runner.claim', true) = $4
    returning 1)
select runner.complete($1, $2, $3, $4) where not exists (select from deleted);

-- name: complete_prepared
execute runner_complete(%d, '%s', %d, '%s', '%s');

-- name: these_claims
-- A part of the statements that end several claims at once: these tasks, each under its own fence.
--
-- By no join, which is estimated at one row, and compares each with each. By no ctid: where somebody else has
-- changed the row, and commits while this waits for it, it lies elsewhere then, and would be passed over. Who
-- uses it asks for the owner in words that no index serves: task_running would be taken, and waded through,
-- for a whole worker's past.
t.task_id = any (%(done)s::bigint[])
and t.fence = (%(done_fences)s::bigint[])[array_position(%(done)s::bigint[], t.task_id)]

-- name: delete_done
-- Deletes tasks whose handlers are through and sent nothing, each under its own fence.
delete from runner.task t
where {these_claims}
  and t.lease_owner is not distinct from %(worker_id)s::uuid;

-- name: complete_group
-- Deletes the tasks of a group in the transaction that they share, each under its own fence.
delete from runner.task t
where {these_claims}
  and t.lease_owner is not distinct from %(worker_id)s
returning current_setting('runner.claim', true);

-- name: hand_back
-- Claimed tasks that have not begun are ready again, their attempts refunded.
update runner.task t
set state = 'ready', attempt = t.attempt - 1, lease_owner = null, claimed_at = null,
    shuffle = runner.shuffle()
where {these_claims}
  and t.lease_owner is not distinct from %(worker_id)s;

-- name: leave_receipt
-- Remembers the key of the task just completed; no row when somebody completed it before.
insert into runner.receipt (idempotency_key, task_id, task_type)
values (%(key)s, %(task_id)s, %(task_type)s)
on conflict do nothing
returning task_id;

-- name: end_claim
-- Ends a claim in any other way than by completion: running -> ready, scheduled or dead.
update runner.task
set state = %(state)s, attempt = %(attempt)s, released = %(released)s, solo = %(solo)s,
    lease_owner = null, claimed_at = null, cause = %(cause)s,
    last_error = coalesce(%(error)s, last_error),
    post_mortem = coalesce(%(post_mortem)s, post_mortem),
    last_failed_at = case when %(failed)s then clock_timestamp() else last_failed_at end,
    run_at = case when %(state)s = 'scheduled'
                  then clock_timestamp() + make_interval(secs => %(delay)s) else run_at end,
    shuffle = runner.shuffle()
where task_id = %(task_id)s and lease_owner = %(worker_id)s and fence = %(fence)s
  and state = 'running';

-- name: removed
-- Whether a person removed this task.
select from runner.removed where task_id = %(task_id)s;

-- name: delete_worker
-- First half of settling: takes the lease, and waits for a claim in flight. Null = whatever it says.
delete from runner.worker
where worker_id = %(worker_id)s
  and (%(seen_until)s::timestamptz is null or lease_until = %(seen_until)s)
returning worker_id;

-- name: claims_of
-- Second half, in the same transaction but under a new snapshot: what that worker held.
select task_id, task_type, fence, attempt, max_attempts, released, solo
from runner.task
where lease_owner = %(worker_id)s and state = 'running'
order by task_id
for update;

-- name: terminate_backend
-- Ends the session that a dead or cut-off worker left in the server, and with it its locks.
select pg_terminate_backend(a.pid, 500)
from runner.worker w join pg_stat_activity a on a.pid = w.backend_pid
where w.worker_id = %(worker_id)s and a.backend_start <= w.started_at
  and a.pid <> pg_backend_pid() and a.application_name like 'runner%%';
