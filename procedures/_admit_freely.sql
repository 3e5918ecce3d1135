-- Chooses what a dequeue may claim where no limit applies, and locks it: nothing is counted, whatever can be locked may be
-- claimed. An agent to which a limit applies by now is left out.
--
-- endpoints: ids, whose throttle locks the caller holds shared. agents: ids of the agents served. wanted: most tasks. fair: at
--   most an equal share for each agent.
-- Returns as _admit: ids, of the locked tasks, in rule 2's order; share_used_up: of several agents one may have got its whole
--   share, and have more.
-- Locks: the tasks returned; locked ones are skipped.
create or replace function lakequeue._admit_freely(
  endpoints integer[], agents integer[], wanted integer, fair boolean, out ids bigint[], out share_used_up boolean)
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_several boolean := cardinality(agents) > 1;
  v_share integer := case when fair then ceil(wanted::numeric / greatest(cardinality(agents), 1)) else wanted end;
begin
  ids := array(
    select unnest(_lock_candidates(a.id, v_share))
    from agents a
    join model_endpoints e on e.id = a.model_endpoint_id
    where a.id = any(_admit_freely.agents) and e.id = any(endpoints) and not _limited(a, e)
      and a.paused_at is null and coalesce(e.cooldown_until <= _now(), true));
  if v_several then
    ids := array(select t.id from tasks t where t.id = any(ids) order by t.priority desc, t.created_at, t.id limit wanted);
  end if;
  share_used_up := fair and v_several and cardinality(ids) >= v_share;
end $$;

comment on function lakequeue._admit_freely(integer[], integer[], integer, boolean) is
  'Chooses and locks what may be claimed where no limit applies, in rule 2''s order.';
