-- name: greet
-- Whether our startup options arrived (a pooler refuses or ignores them), and whether commits are weak. If
-- they arrived, the same as ensure_durable.
select coalesce(current_setting('runner.direct', true), '') = 'on' as direct,
       current_setting('synchronous_commit') in ('off', 'local') as weak,
       case when current_setting('runner.direct', true) = 'on'
                 and current_setting('synchronous_commit') in ('off', 'local')
            then set_config('synchronous_commit', 'on', false) end;

-- name: bounds
-- Behind a pooler, what each transaction of ours begins with. Times in milliseconds.
set transaction isolation level read committed, read write;
set local statement_timeout = {statement_timeout};
set local lock_timeout = {lock_timeout};
set local idle_in_transaction_session_timeout = {idle_in_transaction_session_timeout};

-- name: durable_here
-- For one transaction. No query: its isolation level may still be chosen behind this.
set local synchronous_commit = on;

-- name: ensure_durable
-- Commits wait for the disk, whatever the server's or the role's default; stricter settings stay.
select set_config('synchronous_commit', 'on', false)
where current_setting('synchronous_commit') in ('off', 'local');

-- name: knock
-- Is answered while the session is there.
select;

-- name: plan_anew
-- What is prepared stays, and is planned for the tables as they are when it is used next.
discard plans;

-- name: reset_session
-- Undoes what a handler left in the session. Never DISCARD ALL: it drops psycopg's prepared statements.
set session authorization default;
reset all;
unlisten *;
close all;
discard temp;
select pg_advisory_unlock_all();
-- Those of PREPARE, by a handler, and ours but for the claims, which cost much to plan: they are prepared
-- anew. Those of psycopg are psycopg's own.
do $$ declare named text; begin
    for named in select name from pg_prepared_statements
                 where from_sql or (name like 'runner\_%' and name not like '%claim') loop
        execute 'deallocate ' || quote_ident(named);
    end loop;
end $$;

-- name: prepared
-- What is prepared in the session.
select name from pg_prepared_statements;

-- name: free
-- Takes our timeouts from a session, for handlers; and lets the server choose its plans as it does.
set statement_timeout = 0; set lock_timeout = 0; set idle_in_transaction_session_timeout = 0;
set plan_cache_mode = auto;

-- name: free_locally
-- The same for one transaction, where the session is not ours.
set local statement_timeout = 0; set local lock_timeout = 0;
set local idle_in_transaction_session_timeout = 0; set local plan_cache_mode = auto;

-- name: bound
-- Our timeouts hold again, and our plans.
reset statement_timeout; reset lock_timeout; reset idle_in_transaction_session_timeout;
reset plan_cache_mode;

-- name: mark_transaction
-- Says that we have begun this transaction; gone when that is over.
set local runner.claim = '%s';

-- name: commit_and_chain
-- Commits, and begins the next transaction of the same kind.
commit and chain;

-- name: open_member
-- What a task of a group writes can go back to here; each has a savepoint of its own.
savepoint %s;

-- name: keep_members
-- What was written since is to stay in the group, and no savepoint since can be gone back to.
release savepoint %s;

-- name: undo_member
-- What it has written is undone.
rollback to savepoint %s;
