-- The claim of a bare listener: the oldest that is ready, whatever it is, in a transaction of its own.
update bench.bare
set state = 'running', claimed_at = clock_timestamp()
where task_id = (
    select task_id from bench.bare where state = 'ready' order by task_id limit 1 for update skip locked
)
returning task_id, params
