-- name: demo_prepare
-- A clean table for a demo, and no task left of an earlier one; only under the demo's lock.
create schema if not exists runner_demo;
drop table if exists runner_demo.file, runner_demo.run;
create table runner_demo.run (
    files      bigint not null,
    started_at timestamptz not null default clock_timestamp()
);
create table runner_demo.file (
    path    text not null,
    bytes   bigint,
    lines   bigint,
    sha256  text,
    pid     integer not null,
    done_at timestamptz not null default clock_timestamp()
);
delete from runner.task where queue = 'demo';

-- name: demo_lock
-- One demo at a time in one database.
select pg_try_advisory_lock(7240631, 2);

-- name: demo_add
-- One task a file.
insert into runner.task (queue, task_type, params)
select 'demo', 'demo_file', params::jsonb from unnest(%(params)s::text[]) as params;

-- name: demo_begin
-- Remembers what there is to do.
insert into runner_demo.run (files) values (%(files)s);

-- name: demo_write
-- What the demo's handler writes, in the transaction that deletes its task.
insert into runner_demo.file (path, bytes, lines, sha256, pid)
values (%(path)s, %(bytes)s, %(lines)s, %(sha256)s, %(pid)s);

-- name: demo_done
-- How many files are done.
select count(*) from runner_demo.file;

-- name: demo_waiting
-- How many tasks are left, and in how many seconds the next of them is due.
select count(*) as tasks,
       extract(epoch from min(least(run_at, '9999-01-01')) - clock_timestamp())::float8 as due_seconds
from runner.task where queue = 'demo' and state <> 'dead';

-- name: demo_workers
-- The process ids of the workers of one parent that hold a task right now.
select w.pid
from runner.worker w
join runner.runner r on r.runner_id = w.runner_id
join runner.task t on t.lease_owner = w.worker_id and t.state = 'running'
where r.pid = %(parent)s and r.host = %(host)s and w.role = 'worker'
order by t.claimed_at desc;

-- name: demo_summary
-- What came of it, from the tables alone.
select r.files, f.rows, r.files - f.paths as lost, f.rows - f.paths as doubled, f.processes,
       round(f.seconds::numeric, 2)::float8 as seconds,
       round((f.rows / greatest(f.seconds, 0.001))::numeric)::int as tasks_per_second
from runner_demo.run r, (
    select count(*) as rows, count(distinct path) as paths, count(distinct pid) as processes,
           coalesce(extract(epoch from max(done_at) - min(done_at)), 0)::float8 as seconds
    from runner_demo.file) f;
