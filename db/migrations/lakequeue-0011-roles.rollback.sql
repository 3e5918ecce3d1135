set local role lakequeue_owner;

alter table lakequeue.extractions drop column login;
