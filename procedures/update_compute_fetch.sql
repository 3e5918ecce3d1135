-- How a fetch of costs is getting on: called every few seconds by the process that asks the warehouse.
--
-- fetch_id: its id. statement: the statement's id at the warehouse, once there is one. phase: starting, waiting, running or
--   reading; null: as before. problem: it failed, for this reason; where somebody had asked to cancel it, it is cancelled.
-- Returns running; cancel (somebody has asked to: stop the statement, then call with a problem); over (it has ended).
-- Errors: LQ404 no such fetch; LQ400 an unknown phase.
-- Locks: the fetch's row.
create or replace function lakequeue.update_compute_fetch(
  fetch_id bigint, statement text default null, phase text default null, problem text default null)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
#variable_conflict use_column
declare
  v_fetch compute_fetches;
begin
  if update_compute_fetch.phase not in ('starting', 'waiting', 'running', 'reading') then
    raise exception using errcode = 'LQ400', message = format('"%s" is no phase of a fetch', left(phase, 100)),
      hint = 'Phases: starting, waiting, running, reading.';
  end if;
  v_fetch := _compute_fetch(fetch_id);
  if v_fetch.state <> 'running' then
    return 'over';
  end if;
  update compute_fetches f
  set seen_at = _now(),
      statement_id = coalesce(_clean_text(update_compute_fetch.statement, 200), f.statement_id),
      phase = coalesce(update_compute_fetch.phase, f.phase)
  where f.id = v_fetch.id;
  if update_compute_fetch.problem is null then
    return case when v_fetch.cancel_requested_at is null then 'running' else 'cancel' end;
  end if;
  update compute_fetches f
  set state = case when f.cancel_requested_at is null then 'failed' else 'cancelled' end, ended_at = _now(),
      problem = coalesce(_clean_text(update_compute_fetch.problem, 4000), 'no reason given')
  where f.id = v_fetch.id;
  return 'over';
end $$;

comment on function lakequeue.update_compute_fetch(bigint, text, text, text) is
  'How a fetch of costs is getting on; says whether to go on.';
