-- name: living_types
-- The types that workers whose lease holds have handlers for.
select distinct unnest(types) from runner.worker
where role = 'worker' and lease_until > clock_timestamp();

-- name: waiting_types
-- Types that wait, except those that have a handler.
select t.task_type as type, count(*) as count,
       to_jsonb(min(t.created_at) at time zone 'UTC') #>> '{}' as first_seen,
       min(t.task_id) as task
from runner.task t
where t.state in ('ready', 'scheduled') and not t.task_type = any (%(known)s::text[])
group by t.task_type
order by count(*) desc, t.task_type;

-- name: failing
-- What failed and will be tried again, by type and the first line of its error; and what was interrupted
-- (`interrupted`: how often, at most), also while it runs: so it spends its time if that goes on for ever.
select f.type, f.count, f.first_seen, f.cause, f.error, f.next_try, f.task, f.interrupted
from (
    select t.task_type as type, count(*) as count,
           to_jsonb(min(t.created_at) at time zone 'UTC') #>> '{}' as first_seen, t.cause,
           split_part(coalesce(t.last_error, ''), E'\n', 1) as error,
           to_jsonb(min(t.run_at) filter (where t.state <> 'running') at time zone 'UTC') #>> '{}'
               as next_try,
           min(t.task_id) as task,
           coalesce(max(t.released) filter (where t.cause ~ %(interruption)s), 0) as interrupted
    from runner.task t
    where t.state in ('ready', 'scheduled') and t.attempt > 0 and t.last_failed_at is not null
       or t.state in ('ready', 'scheduled', 'running') and t.released > 0 and t.cause ~ %(interruption)s
    group by t.task_type, t.cause, split_part(coalesce(t.last_error, ''), E'\n', 1)
) f
order by f.count desc, f.type, f.error
limit %(limit)s;

-- name: dead
-- What is dead, by type, cause and the first line of its error.
select t.task_type as type, count(*) as count,
       to_jsonb(min(t.created_at) at time zone 'UTC') #>> '{}' as first_seen, t.cause,
       split_part(coalesce(t.last_error, ''), E'\n', 1) as error,
       to_jsonb(max(t.last_failed_at) at time zone 'UTC') #>> '{}' as last_failed_at,
       min(t.task_id) as task
from runner.task t
where t.state = 'dead'
group by t.task_type, t.cause, split_part(coalesce(t.last_error, ''), E'\n', 1)
order by count(*) desc, t.task_type, t.cause
limit %(limit)s;

-- name: params_of
-- The params of some tasks, as they are.
select task_id, params::text from runner.task where task_id = any (%(ids)s::bigint[]);

-- name: fields_of
-- The keys of the params of a type's oldest tasks, with the kinds of their values and how many of those
-- tasks have them; no row unless all of them are objects.
with sample as materialized (
    select params from runner.task
    where task_type = %(type)s and state in ('ready', 'scheduled')
    order by task_id limit 50
), size as (select count(*) as tasks, bool_and(jsonb_typeof(params) = 'object') as objects from sample)
select f.key as name, array_agg(distinct jsonb_typeof(f.value)) as kinds, count(*) = size.tasks as always
from size, sample s cross join lateral jsonb_each(
    case when jsonb_typeof(s.params) = 'object' then s.params else '{}' end) as f(key, value)
where size.objects
group by f.key, size.tasks
order by count(*) desc, f.key;
