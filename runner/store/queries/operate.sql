-- What people do to tasks. Several rows are taken in the order of their ids and never waited for, so
-- that no claim, settle or pass can meet these in a deadlock; each statement is a transaction.

-- name: requeue
-- dead, scheduled -> ready, with all attempts; the fence stays, so that no claim of before can end it.
update runner.task
set state = 'ready', attempt = 0, released = 0, solo = false, run_at = clock_timestamp(),
    shuffle = runner.shuffle()
where task_id = any (array(
    select task_id from runner.task
    where task_id = any (%(ids)s::bigint[]) and state = any (%(states)s::text[])
    order by task_id for update skip locked))
returning task_id;

-- name: remove
-- any -> deleted, with a line of how and by whom. The worker of a running one hears of it when its lease
-- is renewed next, and is killed.
with picked as materialized (
    select task_id from runner.task
    where task_id = any (%(ids)s::bigint[]) and state = any (%(states)s::text[])
    order by task_id for update skip locked
), gone as (
    delete from runner.task where task_id = any (array(select task_id from picked))
    returning task_id, task_type
), noted as (
    insert into runner.removed (task_id, task_type, how, who)
    select task_id, task_type, %(how)s, concat(%(who)s::text, ' (', current_user, ')') from gone
)
select task_id from gone;

-- name: wake_some
-- After so many tasks became ready by hand: the idle of every host look, whatever they last said.
select pg_notify('runner', %(count)s::bigint || ' ');

-- name: pause
-- Keeps a queue, a type, or a type in a queue from being claimed; said again, the new end counts.
-- No row where that end is past: only this clock knows.
insert into runner.pause (queue, task_type, until, who)
select %(queue)s, %(type)s,
       coalesce(%(until)s::timestamptz, clock_timestamp() + make_interval(secs => %(delay)s::float8)),
       concat(%(who)s::text, ' (', current_user, ')')
where %(until)s::timestamptz is null or %(until)s::timestamptz > clock_timestamp()
on conflict ((coalesce(queue, '')), (coalesce(task_type, ''))) do update
set until = excluded.until, who = excluded.who, at = excluded.at
returning queue, task_type as type,
          coalesce(to_jsonb(until at time zone 'UTC') #>> '{}', 'infinity') as paused_until;

-- name: resume
-- Ends one pause (null: of every queue, or type); those that are over by themselves do not count.
with ended as (
    delete from runner.pause
    where queue is not distinct from %(queue)s and task_type is not distinct from %(type)s
    returning queue, task_type, until
)
select queue, task_type as type from ended where until is null or until > clock_timestamp();

-- name: resume_all
-- Ends every pause.
with ended as (delete from runner.pause returning queue, task_type, until)
select queue, task_type as type from ended where until is null or until > clock_timestamp();

-- name: alive
-- How many workers and parents have a lease that holds (null: on every host).
select count(*) filter (where role = 'worker') as workers,
       count(distinct runner_id) filter (where role = 'worker') as runners
from runner.worker
where lease_until > clock_timestamp() and (%(host)s::text is null or host = %(host)s);
