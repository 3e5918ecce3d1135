-- Opens an extraction: one submission of many documents. enqueue_task and enqueue_tasks add its tasks.
--
-- name: what the submitter calls it. customer: for whom; tasks take it over. submitted_by: a label, as the application
-- knows the person; by default the login. From the web process it is the person, who must be an operator (_actor).
-- Returns its id.
-- Errors: LQ400 a blank name or one too long; LQ403 the web process named nobody, or somebody who may not act.
create or replace function lakequeue.create_extraction(
  name text, customer text default '', submitted_by text default null)
returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_id bigint;
begin
  perform _actor(create_extraction.submitted_by);
  insert into extractions (name, customer, submitted_by, created_at)
  values (coalesce(_clean_text(create_extraction.name, 501), ''), coalesce(create_extraction.customer, ''),
          coalesce(_clean_text(create_extraction.submitted_by, 321), session_user), _now())
  returning id into v_id;
  return v_id;
exception when check_violation then
  raise exception using errcode = 'LQ400',
    message = 'an extraction needs a name of 1 to 500 characters, a customer of at most 200, a submitter of at most 320',
    hint = 'Name it after what was submitted, e.g. the folder or the month.';
end $$;

comment on function lakequeue.create_extraction(text, text, text) is 'Opens an extraction and returns its id.';
