-- For every driver alike: text goes in, and casts are spelled out, because a colon means something to
-- SQLAlchemy and a type to asyncpg. No per cent sign may occur but those of parameters.

-- name: enqueue
-- Adds one task; its id, or null when nothing was added. A delay counts from the server's clock.
select runner.enqueue(
    task_type => cast(%(type)s as text),
    params => cast(cast(%(params)s as text) as jsonb),
    queue => cast(%(queue)s as text),
    priority => cast(%(priority)s as integer),
    run_at => coalesce(
        cast(cast(%(run_at)s as text) as timestamptz),
        clock_timestamp() + make_interval(secs => cast(%(delay)s as double precision))),
    idempotency_key => cast(%(key)s as text),
    unique_params => cast(%(unique)s as boolean),
    max_attempts => cast(%(max_attempts)s as integer));

-- name: enqueue_copy
-- The fastest way in, for tasks without key, uniqueness and time.
copy runner.task (queue, task_type, params, priority, max_attempts) from stdin (encoding 'UTF8');

-- name: enqueue_rows
-- Adds many without key and uniqueness; how many. Given as null, params are the JSON null.
with added as (
    insert into runner.task (queue, task_type, params, priority, run_at, max_attempts)
    select e.queue, e.type, coalesce(e.params, 'null'), e.priority,
           coalesce(e.run_at, clock_timestamp() + make_interval(secs => e.delay), now()),
           e.max_attempts
    from json_to_recordset(cast(cast(%(rows)s as text) as json))
         as e(type text, params jsonb, queue text, priority smallint, run_at timestamptz,
              delay double precision, max_attempts integer)
    returning 1)
select count(*) from added;

-- name: enqueue_each
-- Adds many with keys or uniqueness; how many. Always in the same order, so that two that add the
-- same wait for each other and do not deadlock.
select count(runner.enqueue(
    task_type => e.type, params => coalesce(e.params, 'null'), queue => e.queue,
    priority => e.priority,
    run_at => coalesce(e.run_at, clock_timestamp() + make_interval(secs => e.delay)),
    idempotency_key => e.key, unique_params => e.only_one, max_attempts => e.max_attempts))
from (
    select each.*
    from json_to_recordset(cast(cast(%(rows)s as text) as json))
         as each(type text, params jsonb, queue text, priority integer, run_at timestamptz,
                 delay double precision, key text, only_one boolean, max_attempts integer)
    order by each.key, each.queue, each.type, each.params
) e;
