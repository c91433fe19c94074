-- name: clock
-- The database's clock.
select clock_timestamp();

-- name: left
-- What is there in these queues (null: in every queue), by type and state; running: in other hands.
select task_type, state, count(*)::int as count from runner.task
where state in ('ready', 'scheduled', 'running') and (%(queues)s::text[] is null or queue = any (%(queues)s))
group by task_type, state
order by task_type;
