-- Times leave the database as text, without a zone and in UTC: Python cannot read infinity, nor years
-- beyond 9999, and both can be in a row.

-- name: tasks
-- Tasks in the order of their ids, in the names of `list --json`; what a filter does not say is null.
-- The bounds fold away when they are null, so that partial indexes serve a state that is asked for.
select t.task_id as id, t.task_type as type, t.queue, t.state, t.priority, t.attempt, t.max_attempts,
       to_jsonb(t.run_at at time zone 'UTC') #>> '{{}}' as run_at,
       to_jsonb(t.created_at at time zone 'UTC') #>> '{{}}' as created_at,
       t.idempotency_key as key, coalesce(w.host || ':' || w.pid, t.lease_owner::text) as worker,
       t.last_error, t.cause {more}
from runner.task t left join runner.worker w on w.worker_id = t.lease_owner
where {chosen}
order by t.task_id
limit %(limit)s;

-- name: whole_task
-- What `show` tells beyond that.
, t.params::text as params, t.fence,
  to_jsonb(t.claimed_at at time zone 'UTC') #>> '{}' as claimed_at,
  to_jsonb(w.lease_until at time zone 'UTC') #>> '{}' as lease_until, t.post_mortem, t.released;

-- name: chosen
-- Which tasks a filter means.
t.task_id > %(after)s
  and (%(ids)s::bigint[] is null or t.task_id = any (%(ids)s))
  and (%(states)s::text[] is null or t.state = any (%(states)s))
  and (%(queues)s::text[] is null or t.queue = any (%(queues)s))
  and (%(types)s::text[] is null or t.task_type = any (%(types)s))
  and (%(older_than)s::float8 is null
       or case when t.state = 'dead' then coalesce(t.last_failed_at, t.created_at)
               else t.created_at end
          < (select clock_timestamp()) - make_interval(secs => %(older_than)s))
  and (%(error)s::text is null
       or position(lower(%(error)s) in lower(concat_ws(E'\n', t.cause, t.last_error))) > 0);

-- name: count_tasks
-- How many tasks a filter means.
select count(*) from runner.task t where {chosen};

-- name: chosen_ids
-- The next so many of them.
select t.task_id from runner.task t where {chosen} order by t.task_id limit %(limit)s;

-- name: states_of
-- The states of some tasks; those without a row are left out.
select task_id, state from runner.task where task_id = any (%(ids)s::bigint[]);

-- name: fate
-- What became of a task without a row: who removed it, and the last id that was ever given out (null
-- when this role may not see it).
select (select count(*) > 0 from runner.task where task_id = %(id)s) as here, r.how, r.who,
       to_jsonb(r.at at time zone 'UTC') #>> '{}' as at,
       case when has_sequence_privilege(s.name, 'usage') or has_sequence_privilege(s.name, 'select')
            then coalesce(pg_sequence_last_value(s.name::regclass), 0) end as last_id
from pg_get_serial_sequence('runner.task', 'task_id') as s(name)
left join lateral (
    select how, who, at from runner.removed where task_id = %(id)s order by at desc limit 1) r on true;
