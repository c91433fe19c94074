-- Four roles with no more rights on the schema runner than their work needs.
--
--   runner_enqueue   adds tasks, and can neither read params nor delete anything: for applications
--   runner_worker    runs `start` and `drain`; a fleet's login. Includes runner_enqueue: handlers add tasks
--   runner_read      looks: status, list, show, explain, todo, workers, doctor
--   runner_admin     looks and acts: requeue, cancel, discard, pause, resume; adds tasks
--
-- Apply it as the owner of the schema, after schema.sql and after every `runner migrate`; it may be run
-- again:  psql -v ON_ERROR_STOP=1 -f roles.sql
-- None of them can log in, and none may change the schema: `init` and `migrate` are the owner's. Give
-- them to logins, as in
--   create role mailer login password '…' in role runner_enqueue;
--   create role fleet  login password '…' in role runner_worker;
-- and the fleet's login what its handlers need of your own tables. Let all hosts of a fleet use one login:
-- a session can only be ended by the role that opened it.

begin;
set local client_min_messages = warning;  -- not that a role has it already

do $$
declare
    wanted text;
begin
    foreach wanted in array array['runner_enqueue', 'runner_worker', 'runner_read', 'runner_admin'] loop
        if not exists (select from pg_roles where rolname = wanted) then
            execute format('create role %I nologin', wanted);
        end if;
        -- Again from nothing, so that a right that is no longer needed does not stay.
        execute format('revoke all on all tables in schema runner from %I', wanted);
        execute format('revoke all on all sequences in schema runner from %I', wanted);
        execute format('revoke all on all functions in schema runner from %I', wanted);
        execute format('grant usage on schema runner to %I', wanted);
        execute format('grant select on runner.meta to %I', wanted);
    end loop;
end $$;

grant runner_enqueue to runner_worker, runner_admin;
grant runner_read to runner_admin;

-- Adding: the columns that make a task, those that its keys are compared by, and whether anybody idles.
grant insert (queue, task_type, params, priority, run_at, max_attempts, idempotency_key, unique_key)
    on runner.task to runner_enqueue;
grant select (task_id, queue, task_type, idempotency_key, unique_key, fence, state)
    on runner.task to runner_enqueue;
grant select (idempotency_key, task_id) on runner.receipt to runner_enqueue;
grant select (idle) on runner.runner to runner_enqueue;
grant execute on function runner.withdraw(bigint[]) to runner_enqueue;

-- Working: every way from ready to the end, on the columns that change on it. What a task is (its type,
-- params, key) nobody changes.
grant select, delete on runner.task to runner_worker;
grant update (state, run_at, shuffle, attempt, max_attempts, released, fence, lease_owner, claimed_at,
              solo, last_error, cause, last_failed_at, post_mortem)
    on runner.task to runner_worker;
grant select, insert, update, delete on runner.worker, runner.runner, runner.tally to runner_worker;
grant select, insert, delete on runner.receipt to runner_worker;
grant select, delete on runner.pause to runner_worker;
grant select on runner.removed, runner.task_lease to runner_worker;
grant usage on sequence runner.task_task_id_seq to runner_worker;

-- Looking.
grant select on all tables in schema runner to runner_read;
grant select on all sequences in schema runner to runner_read;

-- Acting.
grant update (state, attempt, released, solo, run_at, shuffle) on runner.task to runner_admin;
grant delete on runner.task to runner_admin;
grant insert on runner.removed to runner_admin;
grant insert, update, delete on runner.pause to runner_admin;

commit;
