-- Times become seconds here, within bounds: Python cannot read infinity, nor years beyond 9999.

-- name: counts
-- Tasks by queue and type: how many in each state, and how long the oldest ready one has been due.
select queue, task_type as type,
       count(*) filter (where state = 'ready') as ready,
       count(*) filter (where state = 'scheduled') as scheduled,
       count(*) filter (where state = 'running') as running,
       count(*) filter (where state = 'dead') as dead,
       count(*) filter (where state in ('ready', 'scheduled') and last_failed_at is not null) as retried,
       count(*) filter (where cause in ('lease lost', 'lease expired')) as lost_leases,
       round(max(least(1e10, greatest(0, extract(epoch from clock_timestamp())
                                         - extract(epoch from greatest(created_at, run_at)))))
             filter (where state = 'ready'), 3)::float8 as oldest_ready_seconds
from runner.task
group by queue, task_type
order by queue, task_type;

-- name: pauses
-- What is not claimed for now, and until when.
select queue, task_type as type,
       case when until is null or until >= '9999-01-01' then 'infinity'
            else to_char(until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"+00:00"')
       end as paused_until
from runner.pause
where until is null or until > clock_timestamp();

-- name: workers
-- One row a worker, with its task if it has one; of a batch, any: only its worker knows which one runs, and
-- whoever is at one for long has given the others back.
select w.host, w.pid, w.slot, w.runner_id::text as runner,
       case when w.lease_until < clock_timestamp() then 'expired'
            when t.task_id is null then 'idle' else 'running' end as state,
       t.task_id as task, t.task_type as type, t.attempt,
       case when t.claimed_at is not null then  -- greatest() takes null for nothing
           round(least(1e10, greatest(0, extract(epoch from clock_timestamp())
                                         - extract(epoch from t.claimed_at))), 3)::float8
       end as run_seconds,
       round(least(1e10, greatest(-1e10, extract(epoch from w.lease_until)
                                         - extract(epoch from clock_timestamp()))), 3)::float8
           as lease_seconds,
       w.rss, w.done, w.failed,
       round(least(1e10, greatest(0, extract(epoch from clock_timestamp())
                                         - extract(epoch from w.lease_until)
                                         + extract(epoch from w.lease))), 3)::float8
           as silent_seconds
from runner.worker w
left join lateral (
    select * from runner.task
    where lease_owner = w.worker_id and state = 'running' order by task_id limit 1
) t on true
where w.role = 'worker'
order by w.host, w.runner_id, w.slot, w.pid;

-- name: due
-- What a drain of these queues (null: of every queue) would find, scheduled tasks that are due included.
select t.queue, t.task_type as type, count(*) as tasks
from runner.task t
where (t.state = 'ready' or t.state = 'scheduled' and t.run_at <= clock_timestamp())
  and (%(queues)s::text[] is null or t.queue = any (%(queues)s))
  and not exists (
    select from runner.pause p
    where (p.queue is null or p.queue = t.queue)
      and (p.task_type is null or p.task_type = t.task_type)
      and (p.until is null or p.until > clock_timestamp()))
group by t.queue, t.task_type
order by t.queue, t.task_type;

-- name: receipt_of
-- Whether a key was completed.
select task_id from runner.receipt where idempotency_key = %(key)s;

-- name: served_queues
-- The queues that living workers claim from; one of null where a worker claims from every queue.
select distinct q.queue
from runner.worker w left join lateral unnest(w.queues) as q(queue) on true
where w.role = 'worker' and w.lease_until > clock_timestamp() and (w.queues is null or q.queue is not null);
