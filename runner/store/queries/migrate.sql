-- name: lock_version
-- The schema's version, kept from changing until the transaction ends: two who migrate go one by one.
select version from runner.meta for update;

-- name: set_version
-- What a migration makes of it.
update runner.meta set version = %(version)s;

-- name: migration_patience
-- A migration may take long, and waits for what runs; within its own transaction only.
set local statement_timeout = 0;
set local lock_timeout = '60s';
set local idle_in_transaction_session_timeout = '60s';

-- name: migration_script
-- One migration for psql: it refuses any other version, and a second run of itself.
begin;
do $check$ begin
    if (select version from runner.meta for update) is distinct from {before} then
        raise exception 'this brings the schema of runner from version {before} to {version} only';
    end if;
end $check$;

{body}

update runner.meta set version = {version};
commit;
