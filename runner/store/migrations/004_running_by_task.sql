-- By task as well: as cheap as the primary key to the planner, which takes it for the end of a claim when
-- it believes that nothing runs, and then it waded through all that this worker had done.
drop index runner.task_running;
create index task_running on runner.task (lease_owner, task_id) where state = 'running';
