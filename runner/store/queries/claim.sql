-- name: kinds
-- Which kinds (queue, type, priority) have ready rows, and what this statement could see.
--
-- Of a kind that is known, whether there is one above its mark. Kinds that are not are looked for in the
-- gaps between those that are: a descent lands behind all entries of a known kind, consumed ones too,
-- which under an old snapshot are many. With nothing known it is a plain loose index scan.
with recursive known as (
    select k.*, lead(k.queue) over by_kind as next_queue,
           lead(k.task_type) over by_kind as next_type,
           lead(k.priority) over by_kind as next_priority
    from (select * from unnest(%(queues)s::text[], %(types)s::text[], %(priorities)s::smallint[],
                               %(marks)s::float8[]) as u(queue, task_type, priority, mark)
          union all select '', '', -1::smallint, 'infinity') k
    window by_kind as (order by k.queue, k.task_type, k.priority)
), between as (
    select found.*, g.next_queue, g.next_type, g.next_priority
    from known g cross join lateral (
        select t.queue, t.task_type, t.priority from runner.task t
        where t.state = 'ready'
          and (t.queue, t.task_type, t.priority) > (g.queue, g.task_type, g.priority)
          and (t.queue, t.task_type, t.priority) < (g.next_queue, g.next_type, g.next_priority)
        order by t.queue, t.task_type, t.priority limit 1) found
    where g.next_queue is not null
    union all
    select found.*, b.next_queue, b.next_type, b.next_priority
    from between b cross join lateral (
        select t.queue, t.task_type, t.priority from runner.task t
        where t.state = 'ready'
          and (t.queue, t.task_type, t.priority) > (b.queue, b.task_type, b.priority)
          and (t.queue, t.task_type, t.priority) < (b.next_queue, b.next_type, b.next_priority)
        order by t.queue, t.task_type, t.priority limit 1) found
), beyond as (
    select found.*
    from known g cross join lateral (
        select t.queue, t.task_type, t.priority from runner.task t
        where t.state = 'ready'
          and (t.queue, t.task_type, t.priority) > (g.queue, g.task_type, g.priority)
        order by t.queue, t.task_type, t.priority limit 1) found
    where g.next_queue is null
    union all
    select found.*
    from beyond b cross join lateral (
        select t.queue, t.task_type, t.priority from runner.task t
        where t.state = 'ready'
          and (t.queue, t.task_type, t.priority) > (b.queue, b.task_type, b.priority)
        order by t.queue, t.task_type, t.priority limit 1) found
), kind as (
    select k.queue, k.task_type, k.priority
    from known k cross join lateral (  -- not `exists`: that may become a join over the whole index
        select from runner.task t
        where t.state = 'ready' and t.queue = k.queue and t.task_type = k.task_type
          and t.priority = k.priority and t.shuffle > k.mark
        order by t.shuffle limit 1) waiting
    union all select queue, task_type, priority from between
    union all select queue, task_type, priority from beyond
)
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
       case when %(draw)s then pg_current_xact_id()::text::bigint end, k.*
from (values (1)) as always left join kind k on true;

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
-- transactions that committed late have left something, and down to where those may have.
--
-- A claim takes its rows from one kind: `wanted` is how many of it make about 50 ms of work, and a slow
-- task is never claimed behind a fast one.
--
-- `me` is locked FOR KEY SHARE and must be alive: whoever settles this worker deletes that row first,
-- and so either waits for this claim and finds its tasks, or makes it claim nothing.
--
-- A claim that takes nothing says which kinds it has looked at, by their numbers: not those that are paused.
--
-- `gone`: tasks whose handlers are through and never touched the connection are deleted on the way, each
-- under its own fence, where there are any: the part costs a sixth of a claim of one.
with {gone} me as materialized (
    select worker_id from runner.worker
    where worker_id = %(worker_id)s::uuid and lease_until > clock_timestamp()
    for key share
), kind as (
    select k.queue, k.task_type, k.priority, k.at, k.mark, k.below, k.wanted, k.most, k.number,
           case when %(fair)s::boolean then 0 else {rank} end as rank, random() as draw
    from me, unnest(%(queues)s::text[], %(types)s::text[], %(priorities)s::smallint[],
                    %(ats)s::float8[], %(marks)s::float8[], %(laps)s::float8[],
                    %(wanted)s::int[], %(most)s::int[])
             with ordinality as k(queue, task_type, priority, at, mark, below, wanted, most, number)
    where not exists (
        select from runner.pause p
        where (p.queue is null or p.queue = k.queue)
          and (p.task_type is null or p.task_type = k.task_type)
          and (p.until is null or p.until > clock_timestamp()))
), span as (
    select k.queue, k.task_type, k.priority, k.wanted, k.most,
           case lap when 0 then k.at when 1 then k.mark else k.below end as low,
           case lap when 0 then 'infinity' when 1 then k.at else k.mark end as high
    from kind k cross join generate_series(0, %(last_lap)s::int) as lap
    where case lap when 0 then true when 1 then k.mark < k.at else k.below < k.mark end
    order by k.rank, k.draw, lap
), picked as materialized (
    select found.task_ids, s.most
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
    set state = 'running', attempt = t.attempt + 1, lease_owner = %(worker_id)s::uuid,
        fence = greatest(t.fence + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint),
        claimed_at = clock_timestamp(),
        max_attempts = coalesce(t.max_attempts, greatest((select most from picked), t.attempt + 1))
    where t.task_id = any (array(select unnest(task_ids) from picked))
    returning t.task_id, t.queue, t.task_type, t.params::text, t.priority, t.shuffle, t.attempt,
              t.max_attempts, t.released, t.fence, t.solo, t.idempotency_key,
              greatest(least(t.created_at, '9999-01-01'), '0002-01-01') as created_at,
              t.ctid::text
)
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
       pg_current_xact_id()::text::bigint,  -- not `if assigned`: it may be looked at before `me` is locked
       case when c.task_id is null then (select array_agg(k.number::int) from kind k) end, c.*
from (values (1)) as always left join claimed c on true;

-- name: gone
-- A part of the claim. Whether we are still alive does not matter to what is done, only whether it is
-- ours: owned is running, by a constraint.
gone as ({delete_done}),

-- name: database_seconds
-- The database's clock.
select extract(epoch from clock_timestamp())::float8;
