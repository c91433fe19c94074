-- name: try_pass_lock
-- One maintenance pass at a time, whichever host does it; given back when the transaction ends.
select pg_try_advisory_xact_lock(7240631, 1);

-- name: wait_pass_lock
-- The same, after the pass of somebody else: what that makes ready is then there to be seen.
select pg_advisory_xact_lock(7240631, 1);

-- name: promote
-- Makes due tasks ready, each with a new place among those of its kind.
update runner.task
set state = 'ready', shuffle = runner.shuffle()
where task_id = any (array(
    select task_id from runner.task
    where state = 'scheduled' and run_at <= (select clock_timestamp())
      and (%(failed_before)s::timestamptz is null
           or coalesce(last_failed_at < %(failed_before)s, true))
    order by run_at limit 1000 for update skip locked));

-- name: notify
-- Wakes the idle of every host after a pass made tasks ready.
select pg_notify('runner', '') where exists (select from runner.runner where idle);

-- name: leases
-- Every lease with whether the database says that it has ended; one beyond its own length has, too:
-- the clock was set back since.
select worker_id, lease_until,
       lease_until < clock_timestamp() or lease_until > clock_timestamp() + lease as ended,
       extract(epoch from clock_timestamp() - lease_until)::float8 as ended_seconds_ago,
       extract(epoch from lease)::float8 as lease_seconds
from runner.worker;

-- name: orphans
-- Running tasks whose worker row is gone: claimed while that was deleted, so never started.
select t.task_id, t.task_type, t.lease_owner, t.fence, t.attempt, t.max_attempts, t.released, t.solo
from runner.task t
where t.state = 'running'
  and not exists (select from runner.worker w where w.worker_id = t.lease_owner)
limit 1000;

-- name: prune_runners
-- Forgets parents that no worker has named for two of their leases.
delete from runner.runner r
where not r.runner_id = %(runner_id)s
  and r.started_at < clock_timestamp() - 2 * r.lease
  and not exists (select from runner.worker w where w.runner_id = r.runner_id);

-- name: prune_receipts
-- Forgets keys completed longer ago than receipts are kept.
delete from runner.receipt
where completed_at < clock_timestamp() - make_interval(secs => %(keep)s);

-- name: prune_pauses
-- Ends pauses whose time is over.
delete from runner.pause where until <= clock_timestamp();

-- name: known_types
-- The types that workers anywhere have handlers for, whether their lease holds or not.
select distinct unnest(types) from runner.worker where role = 'worker';

-- name: runnable
-- How many ready, unpaused tasks there are in these queues (null: in every queue), up to a bound.
select count(*) from (
    select from runner.task t
    where t.state = 'ready'
      and (%(queues)s::text[] is null or t.queue = any (%(queues)s))
      and (%(types)s::text[] is null or t.task_type = any (%(types)s))
      and not exists (
        select from runner.pause p
        where (p.queue is null or p.queue = t.queue)
          and (p.task_type is null or p.task_type = t.task_type)
          and (p.until is null or p.until > clock_timestamp()))
    limit %(bound)s) found;

-- name: take_drain_lock
-- The lock of a drain: a leased row, one for each set of queues; no row back when another has it.
insert into runner.worker
    (worker_id, runner_id, role, host, pid, queues, lease, lease_until)
values (%(worker_id)s, %(runner_id)s, 'drain', %(host)s, %(pid)s, %(queues)s,
        make_interval(secs => %(lease)s), clock_timestamp() + make_interval(secs => %(lease)s))
on conflict do nothing
returning worker_id;

-- name: drain_lock_is_taken
-- Whether somebody has the lock of a drain of these queues; by the index that keeps it unique.
select exists (select from runner.worker
               where role = 'drain' and coalesce(queues, '{}') = coalesce(%(queues)s::text[], '{}'));

-- name: release_drain_lock
-- Lets the next drain in.
delete from runner.worker where worker_id = %(worker_id)s and role = 'drain';

-- name: next_due
-- Seconds until the next scheduled task is due; null when none is.
-- Bounded first: before PostgreSQL 17 infinite times cannot be subtracted.
select least(extract(epoch from greatest(first.at, '1970-01-01') - clock_timestamp()), 86400)::float8
from (select min(run_at) as at from runner.task
      where state = 'scheduled' and run_at < 'infinity') first
where first.at is not null;

-- name: paused
-- What is not to be claimed for now; null stands for every queue, or every type.
select queue, task_type from runner.pause where until is null or until > clock_timestamp();

-- name: types_of
-- The types that the workers of one parent have handlers for.
select distinct unnest(types) from runner.worker where runner_id = %(runner_id)s;

-- name: listen
-- Hear of tasks that were added.
listen runner;

-- name: retry_within
-- Whether a task that failed is due again within this time, in these queues (null: in every queue).
select from runner.task
where state = 'scheduled' and attempt > 0
  and run_at <= (select clock_timestamp()) + make_interval(secs => %(seconds)s)
  and (%(queues)s::text[] is null or queue = any (%(queues)s))
limit 1;
