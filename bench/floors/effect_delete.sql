-- Floor v: a handler's effect and the deletion of its task in one transaction; nothing is claimed.
\set done :done + 1
\set id :first + :client_id * :each + :done
begin;
insert into bench.effect (task_id) values (:id);
delete from bench.floor where task_id = :id;
commit;
