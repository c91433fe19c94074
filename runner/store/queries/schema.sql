-- name: has_schema
-- Whether this database has our schema at all.
select to_regclass('runner.meta') is not null;

-- name: schema_version
-- Its version.
select version from runner.meta;

-- name: server_facts
-- What a start looks at before it forks.
select current_database() as name, current_setting('max_connections')::int as max_connections,
       (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as used,
       pg_is_in_recovery() as read_only;
