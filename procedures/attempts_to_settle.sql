-- Attempts that ended within the last hour and whose usage no trace has settled yet, newest first; a trace that has not
-- come by then will not; none that a copy inherited (see quiesce). The worker looks their traces up and calls record_usage.
--
-- batch_size: most attempts, 1 to 1000. ended_within: only those that ended so recently; an hour at most.
-- Returns their run keys, too, which traces bear as client_request_id.
-- Errors: LQ400 batch_size out of range, or no ended_within.
create or replace function lakequeue.attempts_to_settle(batch_size integer default 100, ended_within interval default '1 hour')
returns table (attempt_id bigint, task_id bigint, run_key uuid, trace_id text, ended_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
  v_from timestamptz := _now() - greatest(least(ended_within, interval '1 hour'), interval '0');
begin
  if batch_size is null or batch_size not between 1 and 1000 then
    raise exception using errcode = 'LQ400', message = 'batch_size must be 1 to 1000', hint = 'The default is 100.';
  end if;
  if ended_within is null or ended_within <= interval '0' then
    raise exception using errcode = 'LQ400', message = 'ended_within must be a length of time', hint = 'Example: 2 minutes.';
  end if;
  return query
    select a.id, a.task_id, a.run_key, a.trace_id, a.ended_at
    from task_attempts a
    where a.ended_at is not null and a.usage_source is distinct from 'trace' and a.ended_at > v_from
      and a.id > (select i.inherited_attempts from installation i)
    order by a.ended_at desc
    limit batch_size;
end $$;

comment on function lakequeue.attempts_to_settle(integer, interval) is
  'Attempts of the last hour whose usage no trace has settled yet.';
