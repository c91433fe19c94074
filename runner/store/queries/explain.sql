-- name: explain_facts
-- Everything that `explain` goes by, seen at one moment: one statement, one snapshot.
with recursive t as materialized (
    select * from runner.task where task_id = %(id)s
), holder as (
    select w.* from runner.worker w where w.worker_id = (select lease_owner from t)
), alive as materialized (
    select w.worker_id, w.runner_id, w.queues, w.types,
           w.queues is null or t.queue = any (w.queues) as serves,
           t.task_type = any (w.types) as knows,
           exists (select from runner.task r
                   where r.lease_owner = w.worker_id and r.state = 'running') as busy,
           -- A worker claims nothing with less than half of lease minus margin left.
           extract(epoch from w.lease_until - clock_timestamp())
               - greatest(1, extract(epoch from w.lease) / 10)
               >= (extract(epoch from w.lease) - greatest(1, extract(epoch from w.lease) / 10)) / 2
               as fit,
           exists (select from runner.worker d join runner.runner r using (runner_id)
                   where d.role = 'drain' and d.runner_id = w.runner_id
                     and t.last_failed_at >= r.started_at) as leaves_it
    from runner.worker w left join t on true
    where w.role = 'worker' and w.lease_until > clock_timestamp()
), able as (
    select * from alive where serves and knows
), kind as (
    (select queue, task_type, priority from runner.task where state = 'ready'
     order by queue, task_type, priority limit 1)
    union all
    select next.queue, next.task_type, next.priority
    from kind k cross join lateral (
        select x.queue, x.task_type, x.priority from runner.task x
        where x.state = 'ready'
          and (x.queue, x.task_type, x.priority) > (k.queue, k.task_type, k.priority)
        order by x.queue, x.task_type, x.priority limit 1) next
), rival as (
    select k.priority < t.priority as smaller, waiting.tasks
    from t, kind k cross join lateral (
        select count(*) as tasks from (
            select from runner.task x
            where x.state = 'ready' and x.queue = k.queue and x.task_type = k.task_type
              and x.priority = k.priority and x.task_id <> %(id)s
            limit %(bound)s) found) waiting
    where t.state = 'ready' and k.priority <= t.priority
      and exists (select from able a
                  where (a.queues is null or k.queue = any (a.queues))
                    and k.task_type = any (a.types))
      and not exists (
        select from runner.pause p
        where (p.queue is null or p.queue = k.queue)
          and (p.task_type is null or p.task_type = k.task_type)
          and (p.until is null or p.until > clock_timestamp()))
), paused as (
    select p.queue, p.task_type, p.until
    from runner.pause p, t
    where (p.queue is null or p.queue = t.queue)
      and (p.task_type is null or p.task_type = t.task_type)
      and (p.until is null or p.until > clock_timestamp())
    order by p.until desc nulls first limit 1
)
select t.state, t.queue, t.task_type as type, t.priority, t.attempt, t.max_attempts, t.released,
       t.solo, t.cause, t.last_error,
       to_jsonb(t.run_at at time zone 'UTC') #>> '{}' as run_at,
       round(greatest(-1e10, least(1e10, extract(epoch from t.run_at)
                                         - extract(epoch from clock_timestamp()))), 3)::float8
           as due_in_seconds,
       (select count(*) > 0 from paused) as paused,
       (select queue from paused) as paused_queue, (select task_type from paused) as paused_type,
       (select to_jsonb(until at time zone 'UTC') #>> '{}' from paused) as paused_until,
       h.host, h.pid, h.slot,
       round(greatest(-1e10, least(1e10, extract(epoch from h.lease_until)
                                         - extract(epoch from clock_timestamp()))), 3)::float8
           as lease_seconds,
       round(greatest(0, least(1e10, extract(epoch from clock_timestamp())
                                     - extract(epoch from h.lease_until)
                                     + extract(epoch from h.lease))), 3)::float8 as silent_seconds,
       round(greatest(0, least(1e10, extract(epoch from clock_timestamp())
                                     - extract(epoch from t.claimed_at))), 3)::float8 as run_seconds,
       (select count(*) from runner.task r
        where r.state = 'running' and r.lease_owner = t.lease_owner and r.task_id <> t.task_id)
           as others,
       w.workers, w.serving, w.knowing, w.able, w.idle, w.fit, w.leaving,
       (select coalesce(sum(tasks), 0)::bigint from rival where smaller) as ahead,
       (select coalesce(sum(tasks), 0)::bigint from rival where not smaller) as beside
from (
    select count(*) as workers, count(*) filter (where serves) as serving,
           count(*) filter (where knows) as knowing,
           count(*) filter (where serves and knows) as able,
           count(*) filter (where serves and knows and not busy) as idle,
           count(*) filter (where serves and knows and not busy and fit) as fit,
           count(*) filter (where serves and knows and not busy and fit and leaves_it) as leaving
    from alive) w
join t on true
left join holder h on true;
