-- Where a task's handler stood when its worker was last killed, or crashed.
alter table runner.task add column post_mortem text;
