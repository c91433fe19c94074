-- name: clock
-- The database's clock.
select clock_timestamp();

-- name: left
-- What waits in these queues (null: in every queue), by type and state.
select task_type, state, count(*)::int as count from runner.task
where state in ('ready', 'scheduled') and (%(queues)s::text[] is null or queue = any (%(queues)s))
group by task_type, state
order by task_type;
