-- What `doctor` looks at. Everybody who may read the tables may run all of it; what PostgreSQL hides from
-- roles without pg_read_all_stats is counted as hidden.

-- name: doctor_server
-- The server, what this database and role make of it, and who speaks to us.
select current_database() as database, current_user as login,
       current_setting('server_version_num')::int as version,
       pg_backend_pid() as backend_pid,
       extract(epoch from clock_timestamp())::float8 as clock_seconds,
       pg_is_in_recovery() as standby,
       current_setting('fsync') as fsync,
       current_setting('full_page_writes') as full_page_writes,
       current_setting('autovacuum') as autovacuum,
       (select string_agg(distinct split_part(one, '=', 1), ', ')
        from pg_db_role_setting s, unnest(s.setconfig) as one
        where s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
          and one in ('default_transaction_read_only=on', 'transaction_read_only=on')) as read_only,
       (select string_agg(one, ', ')
        from pg_db_role_setting s, unnest(s.setconfig) as one
        where s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
          and one in ('synchronous_commit=off', 'synchronous_commit=local')) as lax_commits;

-- name: doctor_connections
-- What a fleet may still open, and what fleets that live may want at most.
select current_setting('max_connections')::int as most,
       current_setting('superuser_reserved_connections')::int
           + coalesce(current_setting('reserved_connections', true)::int, 0) as reserved,
       (select coalesce(sum(numbackends), 0)::int from pg_stat_database) as used,
       (select nullif(rolconnlimit, -1) from pg_roles where rolname = current_user) as of_login,
       (select nullif(datconnlimit, -1) from pg_database where datname = current_database())
           as of_database,
       (select count(*)::int from pg_stat_activity
        where starts_with(application_name, 'runner ') and pid <> pg_backend_pid()) as ours,
       (select coalesce(sum(r.procs), 0)::int + count(*)::int * %(helpers)s from runner.runner r
        where exists (select from runner.worker w
                      where w.runner_id = r.runner_id and w.lease_until > clock_timestamp()))
           as wanted;

-- name: doctor_snapshots
-- Who keeps dead rows from being cleaned up, the oldest first: sessions, prepared transactions, slots.
select kind, who, seconds from (
    select 'session' as kind, concat_ws(' ', a.pid, a.usename, a.application_name, a.state) as who,
           extract(epoch from clock_timestamp() - a.xact_start)::float8 as seconds
    from pg_stat_activity a
    where a.xact_start is not null and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
      and (a.backend_xmin is not null or a.backend_xid is not null)
      and a.datname = current_database()
    union all
    select 'prepared transaction', p.gid,
           extract(epoch from clock_timestamp() - p.prepared)::float8
    from pg_prepared_xacts p where p.database = current_database()
    union all
    select 'replication slot', s.slot_name,
           case when s.active then 0 else 1e10 end
    from pg_replication_slots s where coalesce(s.xmin, s.catalog_xmin) is not null
) held
order by seconds desc nulls last
limit 20;

-- name: doctor_hidden_sessions
-- Sessions of others whose transactions this role may not see.
select count(*)::int from pg_stat_activity a
where a.datname = current_database() and a.backend_type is null;

-- name: doctor_tables
-- Our tables: how they are stored, what they are replicated by, and how many of their rows are dead.
select c.relname as name, c.relpersistence = 'p' as logged,
       c.relreplident = 'n' or c.relreplident = 'd' and not exists (
           select from pg_index i where i.indrelid = c.oid and i.indisprimary) as no_identity,
       position('autovacuum_enabled=false' in coalesce(array_to_string(c.reloptions, ' '), '')) > 0
           as unvacuumed,
       coalesce(s.n_live_tup, 0)::bigint as live, coalesce(s.n_dead_tup, 0)::bigint as dead,
       extract(epoch from clock_timestamp() - greatest(s.last_autovacuum, s.last_vacuum))::float8
           as vacuumed_seconds_ago,
       exists (select from pg_publication_tables p join pg_publication o on o.pubname = p.pubname
               where p.schemaname = 'runner' and p.tablename = c.relname
                 and (o.pubdelete or o.pubupdate)) as published
from pg_class c left join pg_stat_all_tables s on s.relid = c.oid
where c.relnamespace = 'runner'::regnamespace and c.relkind = 'r'
order by c.relname;

-- name: doctor_names
-- How names and literals are written, whatever the login's settings: a login called runner has our schema
-- in its search path.
set local search_path = pg_catalog; set local standard_conforming_strings = on;
set local quote_all_identifiers = off;

-- name: doctor_shape
-- The schema as lines that do not depend on the server's version: one for each thing that must be there.
select 'column ' || c.relname || '.' || a.attname as thing,
       format_type(a.atttypid, a.atttypmod) || case when a.attnotnull then ' not null' else '' end
       || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')
       || case when a.attidentity = '' then '' else ' identity' end as shape
from pg_attribute a join pg_class c on c.oid = a.attrelid
left join pg_attrdef d on (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
where c.relnamespace = 'runner'::regnamespace and c.relkind in ('r', 'v') and a.attnum > 0
  and not a.attisdropped
union all
select 'index ' || c.relname,
       regexp_replace(pg_get_indexdef(i.indexrelid), '^CREATE (UNIQUE )?INDEX \S+ ON ', '\1')
       || case when i.indisvalid then '' else ' INVALID' end
from pg_index i join pg_class c on c.oid = i.indexrelid
where c.relnamespace = 'runner'::regnamespace
union all
select 'constraint ' || c.relname || '.' || o.conname,
       case o.contype when 'c' then 'check' when 'p' then 'primary key' else o.contype::text end
       || case when o.convalidated then '' else ' NOT VALID' end
from pg_constraint o join pg_class c on c.oid = o.conrelid
where c.relnamespace = 'runner'::regnamespace and o.contype <> 'n'
union all
select 'trigger ' || c.relname || '.' || t.tgname,
       case t.tgenabled when 'O' then 'enabled' when 'A' then 'enabled' else 'DISABLED' end
from pg_trigger t join pg_class c on c.oid = t.tgrelid
where c.relnamespace = 'runner'::regnamespace and not t.tgisinternal
union all
select 'function ' || p.oid::regprocedure::text,
       md5(p.prosrc) || case when p.prosecdef then ' definer' else '' end
       || coalesce(' ' || array_to_string(p.proconfig, ' '), '')
from pg_proc p where p.pronamespace = 'runner'::regnamespace
order by 1, 2;

-- name: doctor_rights
-- What this login may do on the schema: everything that each kind of work needs, by its name.
select kind, right_name, may from (values
    ('add', 'usage on schema runner', has_schema_privilege('runner', 'usage')),
    ('add', 'insert on runner.task',
        has_column_privilege('runner.task', 'task_type', 'insert')
        and has_column_privilege('runner.task', 'params', 'insert')),
    ('add', 'select (idle) on runner.runner',
        has_column_privilege('runner.runner', 'idle', 'select')),
    ('add', 'select (idempotency_key) on runner.receipt',
        has_column_privilege('runner.receipt', 'idempotency_key', 'select')),
    ('add', 'execute on runner.withdraw',
        has_function_privilege('runner.withdraw(bigint[])', 'execute')),
    ('work', 'update on runner.task', has_column_privilege('runner.task', 'fence', 'update')),
    ('work', 'delete on runner.task', has_table_privilege('runner.task', 'delete')),
    ('work', 'insert on runner.worker', has_table_privilege('runner.worker', 'insert')),
    ('work', 'update on runner.worker', has_table_privilege('runner.worker', 'update')),
    ('work', 'delete on runner.worker', has_table_privilege('runner.worker', 'delete')),
    ('work', 'insert on runner.runner', has_table_privilege('runner.runner', 'insert')),
    ('work', 'insert on runner.receipt', has_table_privilege('runner.receipt', 'insert')),
    ('look', 'select on runner.task', has_table_privilege('runner.task', 'select')),
    ('look', 'select on runner.worker', has_table_privilege('runner.worker', 'select')),
    ('look', 'select on runner.pause', has_table_privilege('runner.pause', 'select')),
    ('look', 'select on runner.removed', has_table_privilege('runner.removed', 'select')),
    ('act', 'update on runner.task', has_column_privilege('runner.task', 'state', 'update')),
    ('act', 'delete on runner.task', has_table_privilege('runner.task', 'delete')),
    ('act', 'insert on runner.removed', has_column_privilege('runner.removed', 'task_id', 'insert')),
    ('act', 'insert on runner.pause', has_table_privilege('runner.pause', 'insert'))
) as rights(kind, right_name, may);

-- name: doctor_rows
-- Tasks that no correct run leaves behind: how many of each kind, and the first of them.
select broken, count(*) as tasks, min(task_id) as first from (
    select t.task_id, unnest(array_remove(array[
        case when (t.state = 'running') <> (t.lease_owner is not null)
             then 'running without an owner, or owned without running' end,
        case when t.attempt > t.max_attempts then 'more attempts than allowed' end,
        case when t.state in ('ready', 'scheduled') and t.attempt >= t.max_attempts
             then 'waiting with no attempt left' end,
        case when t.state = 'running' and t.fence = 0 then 'running, never claimed' end,
        case when t.fence > (extract(epoch from clock_timestamp()) + 3600) * 1000000
             then 'claimed in the future: the clock was set back' end,
        case when t.state = 'running' and t.claimed_at < clock_timestamp() - interval '2 minutes'
                  and not exists (select from runner.worker w where w.worker_id = t.lease_owner)
             then 'running, and its worker is not there' end
        ], null)) as broken
    from runner.task t) found
group by broken order by broken;

-- name: doctor_leases
-- Leases that ended and that nobody has swept; each is over after its own length, half of it and a pass.
select count(*) filter (where lease_until > clock_timestamp()) as alive,
       count(*) filter (where lease_until < clock_timestamp() - 1.5 * lease - interval '15 seconds')
           as unswept,
       count(*) filter (where lease_until > clock_timestamp() + lease + interval '2 seconds') as beyond,
       count(*) filter (where lease_until > clock_timestamp()
                          and lease_until < clock_timestamp() + lease / 2) as silent,
       (select count(*) from runner.runner r
        where r.started_at < clock_timestamp() - 3 * r.lease - interval '1 minute'
          and not exists (select from runner.worker w where w.runner_id = r.runner_id)) as left_parents
from runner.worker;

-- name: doctor_work
-- What waits, for how long, and for whom.
select count(*) filter (where t.state = 'ready') as ready,
       count(*) filter (where t.state = 'dead') as dead,
       count(*) filter (where t.state = 'scheduled'
                          and t.run_at < clock_timestamp() - interval '1 minute') as overdue,
       count(*) filter (where t.state in ('ready', 'scheduled') and r.idempotency_key is not null)
           as done_before,
       (select array_agg(distinct one) from runner.worker w, unnest(w.types) as one
        where w.role = 'worker' and w.lease_until > clock_timestamp()) as known_types,
       array_agg(distinct t.task_type) filter (where t.state = 'ready') as waiting_types,
       array_agg(distinct t.queue) filter (where t.state = 'ready') as waiting_queues
from runner.task t left join runner.receipt r on r.idempotency_key = t.idempotency_key
    and r.completed_at < clock_timestamp() - interval '1 minute';

-- name: doctor_pauses
-- What is paused now, the oldest first, and how many ready tasks each pause keeps back.
select p.queue, p.task_type,
       p.until is null and p.at < clock_timestamp() - interval '1 day' as forgotten,
       (select count(*) from runner.task t
        where t.state = 'ready' and (p.queue is null or t.queue = p.queue)
          and (p.task_type is null or t.task_type = p.task_type)) as kept_back
from runner.pause p
where p.until is null or p.until > clock_timestamp()
order by p.at
limit 20;

-- name: doctor_ids
-- The largest id in the table, and the last one that was given out (null: not to be seen, or none yet).
select (select max(task_id) from runner.task) as largest,
       case when has_sequence_privilege(s.name, 'usage') or has_sequence_privilege(s.name, 'select')
            then pg_sequence_last_value(s.name::regclass) end as last,
       has_sequence_privilege(s.name, 'usage') or has_sequence_privilege(s.name, 'select') as visible
from pg_get_serial_sequence('runner.task', 'task_id') as s(name);
