-- name: ensure_durable
-- Commits wait for the disk, whatever the server's or the role's default; stricter settings stay.
select set_config('synchronous_commit', 'on', false)
where current_setting('synchronous_commit') in ('off', 'local');

-- name: reset_session
-- Undoes what a handler left in the session. Never DISCARD ALL: it drops psycopg's prepared statements.
set session authorization default;
reset all;
unlisten *;
close all;
discard temp;
select pg_advisory_unlock_all();
-- Those of PREPARE, by a handler or by us, who do so anew; those of psycopg are psycopg's own.
do $$ declare named text; begin
    for named in select name from pg_prepared_statements where from_sql loop
        execute 'deallocate ' || quote_ident(named);
    end loop;
end $$;
