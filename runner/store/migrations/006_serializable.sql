-- An enqueue with a key in a serializable transaction took every failure of its serialization for a twin
-- that is there already: nothing was added, and the caller was not told to repeat the transaction.
create or replace function runner.enqueue(
    task_type       text,
    params          jsonb default '{}',
    queue           text default 'default',
    priority        integer default 5,
    run_at          timestamptz default null,
    idempotency_key text default null,
    unique_params   boolean default false,
    max_attempts    integer default null
) returns bigint
    language plpgsql volatile security invoker
    as $$
#variable_conflict use_column
declare
    chosen_queue text := coalesce(enqueue.queue, 'default');
    given_params jsonb := coalesce(enqueue.params, '{}');
    urgency      integer := coalesce(enqueue.priority, 5);
    due_at       timestamptz := coalesce(enqueue.run_at, now());
    digest       bytea := case when enqueue.unique_params then runner.unique_key(given_params) end;
    added        bigint;
begin
    if enqueue.idempotency_key is null and digest is null then
        insert into runner.task as t (queue, task_type, params, priority, run_at, max_attempts)
        values (chosen_queue, enqueue.task_type, given_params, urgency, due_at,
                enqueue.max_attempts)
        returning t.task_id into added;
        return added;
    end if;
    -- Serializable has errors of this class that no twin stands behind; its callers repeat the transaction.
    if current_setting('transaction_isolation') <> 'repeatable read' then
        return runner.enqueue_once(enqueue.task_type, given_params, chosen_queue, urgency, due_at,
                                   enqueue.idempotency_key, digest, enqueue.max_attempts);
    end if;
    begin
        return runner.enqueue_once(enqueue.task_type, given_params, chosen_queue, urgency, due_at,
                                   enqueue.idempotency_key, digest, enqueue.max_attempts);
    exception when serialization_failure then
        return null;  -- a twin that was committed after this transaction's snapshot
    end;
end $$;
