-- name: add_tallies
-- Adds counts to this minute's, in the order of types, so that two hosts cannot wait for each other.
insert into runner.tally as t
    (task_type, minute, done, failed, dead, released, lost, seconds, durations)
select a.task_type, date_trunc('minute', clock_timestamp()),
       a.done, a.failed, a.dead, a.released, a.lost, a.seconds, a.durations
from json_to_recordset(%(tallies)s::json) as a(
    task_type text, done bigint, failed bigint, dead bigint, released bigint, lost bigint,
    seconds float8, durations bigint[])
order by a.task_type
on conflict (task_type, minute) do update set
    done = t.done + excluded.done, failed = t.failed + excluded.failed,
    dead = t.dead + excluded.dead, released = t.released + excluded.released,
    lost = t.lost + excluded.lost, seconds = t.seconds + excluded.seconds,
    durations = runner.added(t.durations, excluded.durations);

-- name: fold_tallies
-- Minutes of more than an hour ago become part of their type's one row for all the time before, so
-- that totals only ever grow.
with old as (
    delete from runner.tally
    where (task_type, minute) in (
        select task_type, minute from runner.tally
        where minute > '-infinity' and minute < clock_timestamp() - interval '1 hour'
        for update skip locked)
    returning *)
insert into runner.tally as t
    (task_type, minute, done, failed, dead, released, lost, seconds, durations)
select task_type, '-infinity', sum(done), sum(failed), sum(dead), sum(released), sum(lost),
       sum(seconds),
       (select array_agg(s.d order by s.n) from (
           select n, sum(d)::bigint as d from old o, unnest(o.durations) with ordinality as u(d, n)
           where o.task_type = old.task_type group by n) s)
from old group by task_type order by task_type
on conflict (task_type, minute) do update set
    done = t.done + excluded.done, failed = t.failed + excluded.failed,
    dead = t.dead + excluded.dead, released = t.released + excluded.released,
    lost = t.lost + excluded.lost, seconds = t.seconds + excluded.seconds,
    durations = runner.added(t.durations, excluded.durations);

-- name: recent_tallies
-- The counts of the last minutes, and how long ago each minute began.
select task_type as type, done, failed, dead, released, lost, seconds, durations,
       extract(epoch from clock_timestamp() - minute)::float8 as began_seconds_ago
from runner.tally
where minute > date_trunc('minute', clock_timestamp()) - make_interval(mins => %(minutes)s)
order by task_type, minute;

-- name: total_tallies
-- The counts of all time.
select task_type as type, sum(done)::bigint as done, sum(failed)::bigint as failed,
       sum(dead)::bigint as dead, sum(released)::bigint as released, sum(lost)::bigint as lost,
       sum(seconds) as seconds,
       (select array_agg(s.d order by s.n) from (
           select n, sum(d)::bigint as d from runner.tally o, unnest(o.durations) with ordinality as u(d, n)
           where o.task_type = t.task_type group by n) s) as durations
from runner.tally t group by task_type order by task_type;

-- name: counted_seconds
-- For how long somebody has been counting: since the oldest parent that is there began; null: none is.
select extract(epoch from clock_timestamp() - min(started_at))::float8 from runner.runner;
