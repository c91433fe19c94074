-- name: register_worker
-- Announces a worker with a fresh lease; its tasks will name it. Behind a pooler its session is nobody's.
insert into runner.worker
    (worker_id, runner_id, role, host, pid, backend_pid, slot, types, queues, lease, lease_until)
values (%(worker_id)s, %(runner_id)s, %(role)s, %(host)s, %(pid)s,
        case when %(direct)s then pg_backend_pid() end, %(slot)s,
        %(types)s, %(queues)s, make_interval(secs => %(lease)s),
        clock_timestamp() + make_interval(secs => %(lease)s))
on conflict do nothing
returning worker_id;

-- name: renew
-- Extends the leases of living workers, however many tasks they hold; waits for no lock.
with mine as materialized (
    select worker_id from runner.worker where worker_id = any (%(workers)s::uuid[])
    order by worker_id for no key update skip locked
)
update runner.worker w
set lease_until = clock_timestamp() + w.lease, done = c.done, failed = c.failed, rss = c.rss
from mine, unnest(%(workers)s::uuid[], %(done)s::bigint[], %(failed)s::bigint[], %(rss)s::bigint[])
     as c(worker_id, done, failed, rss)
where w.worker_id = mine.worker_id and c.worker_id = mine.worker_id
returning w.worker_id;

-- name: existing_workers
-- Which of these workers still have a row: the others have been settled or swept.
select worker_id from runner.worker where worker_id = any (%(workers)s::uuid[]);

-- name: taken
-- Which of these claims are no longer their worker's. By the row, one look-up each: the index of what
-- runs also leads to everything that these workers did while an old snapshot kept the rows.
select asked.nth
from unnest(%(workers)s::uuid[], %(tasks)s::bigint[], %(fences)s::bigint[]) with ordinality
     as asked(worker_id, task_id, fence, nth)
left join lateral (
    select t.lease_owner, t.fence, t.state from runner.task t
    where t.task_id = asked.task_id offset 0  -- a fence for the planner
) t on true
where (t.lease_owner, t.fence, t.state) is distinct from (asked.worker_id, asked.fence, 'running');

-- name: register_runner
-- Announces a parent process.
insert into runner.runner (runner_id, host, pid, procs, lease)
values (%(runner_id)s, %(host)s, %(pid)s, %(procs)s, make_interval(secs => %(lease)s))
on conflict (runner_id) do update set procs = excluded.procs;

-- name: set_idle
-- Tells enqueuers whether a NOTIFY is of use.
update runner.runner set idle = %(idle)s where runner_id = %(runner_id)s and idle <> %(idle)s;

-- name: remove_runner
-- A parent leaves.
delete from runner.runner where runner_id = %(runner_id)s;
