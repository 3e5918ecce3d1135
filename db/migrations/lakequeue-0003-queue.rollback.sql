set local role lakequeue_owner;

drop table lakequeue.workers;

drop table lakequeue.task_events;

drop table lakequeue.results;

drop table lakequeue.task_attempts;

drop table lakequeue.tasks;

drop table lakequeue.extraction_documents;

drop table lakequeue.extractions;
