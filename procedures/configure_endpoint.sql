-- Creates a model endpoint or changes its limits. Usage so far stays as it is.
--
-- endpoint: its name.
-- max_concurrent_tasks: attempts that may spend at once; max_tpm: tokens per minute. null: unchanged, 0: no limit.
-- Returns the endpoint's id.
-- Errors: LQ400 a blank name or a negative limit.
-- Locks: the endpoint's throttle lock, so that a limit set during a dequeue is not overrun by it.
create or replace function lakequeue.configure_endpoint(
  endpoint text, max_concurrent_tasks integer default null, max_tpm bigint default null)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_id integer;
  v_before model_endpoints;
  v_after model_endpoints;
begin
  if endpoint is null or _clean_text(endpoint, 200) is distinct from endpoint then
    raise exception using errcode = 'LQ400', message = 'an endpoint needs a name of 1 to 200 characters',
      hint = 'Surrounding blanks are not allowed either.';
  end if;
  if max_concurrent_tasks < 0 or max_tpm < 0 then
    raise exception using errcode = 'LQ400', message = 'a limit cannot be negative', hint = '0 takes the limit away.';
  end if;

  insert into model_endpoints (name) values (endpoint) on conflict do nothing;
  select e.id into v_id from model_endpoints e where e.name = endpoint;
  perform pg_advisory_xact_lock(_lock_class(), v_id);
  select e.* into v_before from model_endpoints e where e.id = v_id;
  update model_endpoints e
  set max_concurrent_tasks = nullif(coalesce(configure_endpoint.max_concurrent_tasks, e.max_concurrent_tasks), 0),
      max_tpm = nullif(coalesce(configure_endpoint.max_tpm, e.max_tpm), 0)
  where e.id = v_id
  returning e.* into v_after;
  if (v_after.max_concurrent_tasks, v_after.max_tpm) is distinct from (v_before.max_concurrent_tasks, v_before.max_tpm) then
    perform _log_event('endpoint_configured', detail => jsonb_build_object(
      'endpoint', endpoint, 'max_concurrent_tasks', v_after.max_concurrent_tasks, 'max_tpm', v_after.max_tpm));
    perform _nudge('lakequeue_worker');
  end if;
  return v_id;
end $$;

comment on function lakequeue.configure_endpoint(text, integer, bigint) is
  'Creates a model endpoint or changes its limits (null: unchanged, 0: no limit).';
