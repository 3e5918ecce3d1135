-- depends: lakequeue-0010-health
-- Which login opened an extraction, so that an application reads its own. submitted_by is what the application says.

set local role lakequeue_owner;

alter table lakequeue.extractions add column login text not null default session_user;
comment on column lakequeue.extractions.login is 'The login that opened it; an application sees its own extractions only.';

-- Until now submitted_by was the login where the application named nobody.
update lakequeue.extractions e set login = e.submitted_by;
