-- name: last_dead
-- The tasks that died last, newest first.
select t.task_id as id, t.task_type as type, t.queue, t.attempt, t.cause,
       left(t.last_error, 500) as last_error,
       round(least(1e10, greatest(0, extract(epoch from clock_timestamp())
                                     - extract(epoch from coalesce(t.last_failed_at, t.created_at)))),
             3)::float8 as dead_seconds
from runner.task t
where t.state = 'dead'
order by coalesce(t.last_failed_at, t.created_at) desc, t.task_id desc
limit %(limit)s;

-- name: failing_now
-- What failed and will be tried again, by type and cause, with the error of the last one that failed.
select f.type, f.count, f.cause, left(e.last_error, 500) as error, f.next_try_seconds
from (
    select t.task_type as type, t.cause, count(*) as count, max(t.last_failed_at) as failed_at,
           round(least(1e10, greatest(0, min(extract(epoch from t.run_at))
                                         - extract(epoch from clock_timestamp()))), 3)::float8
               as next_try_seconds
    from runner.task t
    where t.state in ('ready', 'scheduled') and t.attempt > 0 and t.last_failed_at is not null
    group by t.task_type, t.cause
    order by count(*) desc, t.task_type
    limit %(limit)s
) f
cross join lateral (
    select t.last_error from runner.task t
    where t.state in ('ready', 'scheduled') and t.attempt > 0 and t.last_failed_at = f.failed_at
      and t.task_type = f.type and t.cause is not distinct from f.cause
    limit 1
) e
order by f.count desc, f.type;
