-- The sum of two histograms, element by element.
create function runner.added(a bigint[], b bigint[]) returns bigint[]
    language sql immutable strict parallel safe
    as $$ select array_agg(coalesce(x, 0) + coalesce(y, 0) order by n)
          from unnest(a, b) with ordinality as both_of(x, y, n) $$;

-- What has ended, by type and minute: counted by each parent, added once a period, never by a task.
-- Minutes of more than an hour ago are folded into one row (minute -infinity), so totals only grow.
create table runner.tally (
    task_type text not null,
    minute    timestamptz not null,
    done      bigint not null default 0,
    failed    bigint not null default 0,           -- attempts, those that made their task dead included
    dead      bigint not null default 0,
    released  bigint not null default 0,
    lost      bigint not null default 0,           -- attempts whose lease was lost
    seconds   double precision not null default 0, -- of done and failed attempts
    durations bigint[] not null,                   -- so many in each bucket, two buckets an octave
    primary key (task_type, minute)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 500);

-- Only who enqueues need be able to take back what its key makes pointless.
revoke execute on function runner.withdraw(bigint[]) from public;
