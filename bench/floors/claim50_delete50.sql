-- Floor iii: claim 50 in one transaction, delete the 50 in the next. No handler, no fence, no worker.
with picked as materialized (
    select task_id from bench.floor
    where state = 'ready' and queue = 'default' and task_type = 'noop' and priority = 5 and shuffle > :at
    order by shuffle limit 50 for update skip locked
), claimed as (
    update bench.floor t
    set state = 'running', attempt = t.attempt + 1, claimed_at = clock_timestamp(),
        lease_owner = '00000000-0000-0000-0000-000000000001',
        fence = (extract(epoch from clock_timestamp()) * 1000000)::bigint
    where t.task_id = any (array(select task_id from picked))
    returning t.task_id, t.shuffle, t.task_type, t.params
)
select array_agg(task_id) as ids, max(shuffle) as at, min(task_type) as type, min(params::text) as given
from claimed \gset
delete from bench.floor where task_id = any (cast(:ids as bigint[]));
