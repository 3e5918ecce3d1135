-- Creates a model endpoint or changes its limits. Usage so far stays as it is.
--
-- endpoint: its name.
-- max_concurrent_tasks: attempts that may spend at once; max_tpm, max_input_tpm, max_output_tpm: tokens per minute, in
--   all, of prompts, of answers; max_rpm: requests per minute. null: unchanged, 0: no limit. Requests are known of agents
--   that reserve their calls only; an attempt of any other counts as one.
-- max_passed_over: how long a task that does not fit may be passed over (rule 5).
-- cooldown: for how long nothing starts there from now on, at most a day; '0' ends what a 429 has brought (rule 11). What an
--   agent itself was told it goes on waiting.
-- Returns the endpoint's id.
-- Errors: LQ428 not READ COMMITTED; LQ400 a name that is none (_is_name), a negative limit, or a max_passed_over or cooldown that
--   is not 0 to 1 day.
-- Locks: the endpoint's throttle lock, so that a limit set during a dequeue is not overrun by it.
create or replace function lakequeue.configure_endpoint(
  endpoint text, max_concurrent_tasks integer default null, max_tpm bigint default null,
  max_input_tpm bigint default null, max_output_tpm bigint default null, max_rpm bigint default null,
  max_passed_over interval default null, cooldown interval default null)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_id integer;
  v_before model_endpoints;
  v_after model_endpoints;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('configure_endpoint');
  end if;
  if not _is_name(endpoint) then
    raise exception using errcode = 'LQ400', message = 'an endpoint needs a name of 1 to 200 characters',
      hint = 'On one line, without blanks around.';
  end if;
  if least(max_concurrent_tasks, max_tpm, max_input_tpm, max_output_tpm, max_rpm) < 0 then
    raise exception using errcode = 'LQ400', message = 'a limit cannot be negative', hint = '0 takes the limit away.';
  end if;
  if cooldown not between '0' and '1 day' then
    raise exception using errcode = 'LQ400', message = 'a cooldown is 0 to 1 day', hint = '0 ends one.';
  end if;

  insert into model_endpoints (name) values (endpoint) on conflict do nothing;
  select e.id into v_id from model_endpoints e where e.name = endpoint;
  perform pg_advisory_xact_lock(_lock_class(), v_id);
  select e.* into v_before from model_endpoints e where e.id = v_id;
  update model_endpoints e
  set max_concurrent_tasks = nullif(coalesce(configure_endpoint.max_concurrent_tasks, e.max_concurrent_tasks), 0),
      max_tpm = nullif(coalesce(configure_endpoint.max_tpm, e.max_tpm), 0),
      max_input_tpm = nullif(coalesce(configure_endpoint.max_input_tpm, e.max_input_tpm), 0),
      max_output_tpm = nullif(coalesce(configure_endpoint.max_output_tpm, e.max_output_tpm), 0),
      max_rpm = nullif(coalesce(configure_endpoint.max_rpm, e.max_rpm), 0),
      max_passed_over = coalesce(configure_endpoint.max_passed_over, e.max_passed_over),
      cooldown_until = case when cooldown is null then e.cooldown_until when cooldown > '0' then _now() + cooldown end
  where e.id = v_id
  returning e.* into v_after;
  perform _void_books(array[v_id]);
  if cooldown is not null
     or to_jsonb(v_after) - array['cooldown_until', 'overdue_at'] <> to_jsonb(v_before) - array['cooldown_until', 'overdue_at'] then
    perform _log_event('endpoint_configured', detail =>
      to_jsonb(v_after) - array['id', 'name', 'overdue_at'] - case when cooldown is null then 'cooldown_until' else '' end
        || jsonb_build_object('endpoint', endpoint));
    perform _nudge('lakequeue_worker');
  end if;
  return v_id;
exception when check_violation then
  raise exception using errcode = 'LQ400', message = format('endpoint "%s": %s', endpoint, left(sqlerrm, 300)),
    hint = 'max_passed_over is 0 to 1 day.';
end $$;

comment on function lakequeue.configure_endpoint(text, integer, bigint, bigint, bigint, bigint, interval, interval) is
  'Creates a model endpoint or changes its limits (null: unchanged, 0: no limit).';
