-- name: kinds
-- Which kinds (queue, type, priority) have ready rows: one index descent a kind, however many rows.
with recursive kind as (
    (select queue, task_type, priority from runner.task where state = 'ready'
     order by queue, task_type, priority limit 1)
    union all
    select next.queue, next.task_type, next.priority
    from kind k cross join lateral (
        select t.queue, t.task_type, t.priority from runner.task t
        where t.state = 'ready'
          and (t.queue, t.task_type, t.priority) > (k.queue, k.task_type, k.priority)
        order by t.queue, t.task_type, t.priority limit 1) next
)
select queue, task_type, priority from kind;

-- name: claim
-- Takes up to `wanted` ready tasks and commits: attempt, owner and a fresh fence in one statement.
--
-- The plain way to say random order with priorities by type is
--     select task_id from runner.task where state = 'ready'
--     order by case task_type when … then … else priority end, random()
--     limit 1 for update skip locked
-- and it sorts every waiting row at every claim: 0.5 ms at a thousand rows, 630 ms at a million. Here the
-- CASE and random() order the KINDS of waiting work, which are few, and each kind is one index probe
-- that stops at the first row it gets. A kind is probed from where this worker last was (lap 0), then
-- from the low-water mark up to there (lap 1), then, on a full look, below the mark (lap 2), where only
-- transactions that committed late have left something.
--
-- A claim takes its rows from one kind: `wanted` is how many of it make about 20 ms of work, and a slow
-- task is never claimed behind a fast one.
--
-- `me` is locked FOR KEY SHARE and must be alive: whoever settles this worker deletes that row first,
-- and so either waits for this claim and finds its tasks, or makes it claim nothing.
--
-- `gone`: tasks whose handlers are through and never touched the connection are deleted on the way, each
-- under its own fence. Whether we are still alive does not matter to them, only whether they are ours.
with gone as (
    delete from runner.task t
    where t.task_id = any (%(done)s::bigint[]) and t.lease_owner = %(worker_id)s
      and t.state = 'running'
      and (t.task_id, t.fence) in (
        select d.task_id, d.fence
        from unnest(%(done)s::bigint[], %(done_fences)s::bigint[]) as d(task_id, fence))
    returning t.task_id
), me as materialized (
    select worker_id from runner.worker
    where worker_id = %(worker_id)s and lease_until > clock_timestamp()
    for key share
), kind as (
    select k.queue, k.task_type, k.priority, k.at, k.mark, k.wanted,
           case when %(fair)s then 0 else {rank} end as rank, random() as draw
    from me, unnest(%(queues)s::text[], %(types)s::text[], %(priorities)s::smallint[],
                    %(ats)s::float8[], %(marks)s::float8[], %(wanted)s::int[])
             as k(queue, task_type, priority, at, mark, wanted)
    where not exists (
        select from runner.pause p
        where (p.queue is null or p.queue = k.queue)
          and (p.task_type is null or p.task_type = k.task_type)
          and (p.until is null or p.until > clock_timestamp()))
), span as (
    select k.queue, k.task_type, k.priority, k.wanted,
           case lap when 0 then k.at when 1 then k.mark else '-infinity' end as low,
           case lap when 0 then 'infinity' when 1 then k.at else k.mark end as high
    from kind k cross join generate_series(0, %(last_lap)s::int) as lap
    order by k.rank, k.draw, lap
), picked as materialized (
    select found.task_ids
    from span s cross join lateral (
        select array_agg(row.task_id) as task_ids
        from (select t.task_id from runner.task t
              where t.state = 'ready' and t.queue = s.queue and t.task_type = s.task_type
                and t.priority = s.priority and t.shuffle > s.low and t.shuffle <= s.high
                and (%(failed_before)s::timestamptz is null
                     or coalesce(t.last_failed_at < %(failed_before)s, true))
                and (%(created_before)s::timestamptz is null or t.created_at <= %(created_before)s)
              order by t.shuffle limit s.wanted for update skip locked) row) found
    where found.task_ids is not null
    limit 1
), claimed as (
    update runner.task t
    set state = 'running', attempt = t.attempt + 1, lease_owner = %(worker_id)s,
        fence = greatest(t.fence + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint),
        claimed_at = clock_timestamp(),
        max_attempts = coalesce(t.max_attempts, (
            select greatest(m.most, t.attempt + 1)
            from unnest(%(known)s::text[], %(most)s::int[]) as m(task_type, most)
            where m.task_type = t.task_type limit 1), greatest(5, t.attempt + 1))
    where t.task_id = any (array(select unnest(task_ids) from picked))
    returning t.task_id, t.queue, t.task_type, t.params, t.priority, t.shuffle, t.attempt,
              t.max_attempts, t.released, t.fence, t.solo, t.idempotency_key,
              greatest(least(t.created_at, '9999-01-01'), '0002-01-01') as created_at
)
select (select count(*) from gone), c.* from (values (1)) as always left join claimed c on true;

-- name: database_seconds
-- The database's clock.
select extract(epoch from clock_timestamp())::float8;
