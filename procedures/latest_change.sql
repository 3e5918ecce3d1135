-- A mark that differs whenever something that people look at has changed: status or usage of a task, or an event (an
-- agent paused, a limit changed, a 429). Watchers ask for it every second (rule 14), so that a lost notification costs a
-- second and a burst never ends stale.
--
-- Returns a text to compare for equality only: the newest delta id drawn, the newest one committed, the sum of the newest
-- thousand that wait to be folded, and the newest event committed with the sum of the newest twenty. Ids are drawn before
-- their transaction commits, so one that commits after a younger one shows in the sums only; a fold changes the mark too,
-- which costs watchers one look in vain. (What commits behind a thousand younger ones is seen once it is folded.)
create or replace function lakequeue.latest_change()
returns text
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v_drawn bigint := pg_sequence_last_value('lakequeue.task_deltas_id_seq');
  v_committed bigint;
  v_unfolded numeric;
  v_event bigint;
  v_events numeric;
begin
  select max(n.id), sum(n.id) into v_committed, v_unfolded
  from (select d.id from task_deltas d where d.id > (select _folded_to()) order by d.id desc limit 1000) n;
  select max(n.id), sum(n.id) into v_event, v_events
  from (select e.id from task_events e order by e.id desc limit 20) n;
  return concat_ws('/', coalesce(v_drawn, 0), coalesce(v_committed, 0), coalesce(v_unfolded, 0), coalesce(v_event, 0),
                   coalesce(v_events, 0));
end $$;

comment on function lakequeue.latest_change() is 'A mark that differs whenever status or usage of a task has changed, or an event was noted.';
