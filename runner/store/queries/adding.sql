-- name: add_task
-- Adds a task; null when there is one like it.
select runner.enqueue(
    task_type => %(task_type)s::text, params => %(params)s::jsonb, queue => %(queue)s::text,
    priority => %(priority)s::int,
    run_at => coalesce(%(run_at)s::timestamptz,
                       clock_timestamp() + make_interval(secs => %(delay)s::float8)),
    idempotency_key => %(key)s::text, unique_params => %(unique)s::boolean);

-- name: receipt_of
-- Whether a key was completed.
select task_id from runner.receipt where idempotency_key = %(key)s;
