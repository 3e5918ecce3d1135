set local role lakequeue_owner;

drop table lakequeue.purged_tasks;
drop index lakequeue.extraction_documents_task;
alter table lakequeue.workers drop column relay, drop column dismissed;
alter table lakequeue.task_attempts drop column job_id;
alter table lakequeue.installation
  drop column home, drop column quiesced_at, drop column inherited_attempts;
