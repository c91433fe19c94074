-- Within a stratum what became ready in the same 10 ms stays together: a claim of a bulk then reads the
-- few pages on which it was written, not another one for each task. Waiting tasks keep their places.
create or replace function runner.shuffle() returns double precision
    language sql volatile parallel safe
    as $$ select floor(date_part('epoch', clock_timestamp()) / 2)
        + ((hashint8((date_part('epoch', clock_timestamp()) * 100)::bigint) & 127) + random()) / 128 $$;
alter table runner.task alter column shuffle set default
    floor(date_part('epoch', clock_timestamp()) / 2)
    + ((hashint8((date_part('epoch', clock_timestamp()) * 100)::bigint) & 127) + random()) / 128;
