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
-- Adds many of all kinds; how many. Given as null, params are the JSON null. Those with keys or unique go
-- in always in the same order, so that two that add the same wait for each other and do not deadlock.
-- One by one go those with both, of which a conflict could mean either, and all where a twin committed
-- after the snapshot would be an error (above read committed). The receipts are looked up before, for
-- speed, and by withdraw() after, with a snapshot of its own: see runner.enqueue_once.
with given as materialized (
    select e.queue, e.type, coalesce(e.params, 'null') as params, e.priority, e.key, e.only_one,
           coalesce(e.run_at, clock_timestamp() + make_interval(secs => e.delay), now()) as due_at,
           e.max_attempts,
           case when e.only_one then runner.unique_key(coalesce(e.params, 'null')) end as digest,
           case when e.key is null and not e.only_one then 'plain'
                when e.key is not null and e.only_one
                     or current_setting('transaction_isolation') <> 'read committed' then 'each'
                when e.only_one then 'unique' else 'keyed' end as way
    from json_to_recordset(cast(cast(%(rows)s as text) as json))
         as e(type text, params jsonb, queue text, priority smallint, run_at timestamptz,
              delay double precision, key text, only_one boolean, max_attempts integer)
), plain as (
    insert into runner.task (queue, task_type, params, priority, run_at, max_attempts)
    select g.queue, g.type, g.params, g.priority, g.due_at, g.max_attempts
    from given g where g.way = 'plain'
    returning 1
), keyed as (
    insert into runner.task (queue, task_type, params, priority, run_at, max_attempts,
                             idempotency_key)
    select g.queue, g.type, g.params, g.priority, g.due_at, g.max_attempts, g.key
    from given g
    where g.way = 'keyed'
      and not exists (select from runner.receipt r where r.idempotency_key = g.key)
    order by g.key
    on conflict (idempotency_key) where idempotency_key is not null do nothing
    returning task_id
), only_ones as (
    insert into runner.task (queue, task_type, params, priority, run_at, max_attempts, unique_key)
    select g.queue, g.type, g.params, g.priority, g.due_at, g.max_attempts, g.digest
    from given g
    where g.way = 'unique'
      and not exists (
          select from runner.task t
          where t.queue = g.queue and t.task_type = g.type and t.unique_key = g.digest
            and t.fence > 0 and t.state in ('ready', 'scheduled'))
    order by g.queue, g.type, g.digest
    on conflict (queue, task_type, unique_key) where fence = 0 and unique_key is not null do nothing
    returning 1
), each as (
    select count(runner.enqueue(
        task_type => g.type, params => g.params, queue => g.queue, priority => g.priority,
        run_at => g.due_at, idempotency_key => g.key, unique_params => g.only_one,
        max_attempts => g.max_attempts)) as added
    from (select * from given where way = 'each' order by key, queue, type, digest) g
)
select (select count(*) from plain) + (select count(*) from only_ones) + (select added from each)
     + (select count(*) - runner.withdraw(array_agg(task_id)) from keyed);
