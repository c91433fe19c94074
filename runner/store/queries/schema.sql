-- name: has_schema
-- Whether this database has our schema at all.
select to_regclass('runner.meta') is not null;

-- name: schema_version
-- Its version.
select version from runner.meta;
