-- Chooses what a dequeue may claim, and locks it: the tasks of the served agents, merged by priority, created_at and
-- id, as far as every limit has room. Within an endpoint the first task that does not fit ends it, so that only higher
-- priorities ever pass a misfit (rule 5), also where it was an agent's own token limit that had no room. A task larger
-- than a token limit is admitted when nothing else has spent in that limit's window: it runs alone and paces itself
-- (rule 4c).
--
-- exclusive, shared: endpoints whose throttle lock the caller holds; one held shared is passed over if it has limits
--   now. only_agents: ids of the agents served, null for all. wanted: most tasks. fair: at most an equal share each.
-- Returns the ids of the locked tasks.
-- Locks: the tasks returned, and for a moment a few that do not fit; locked ones are skipped.
create or replace function lakequeue._admit(
  exclusive integer[], shared integer[], only_agents integer[], wanted integer, fair boolean)
returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_now timestamptz := _now();
  v_counted integer[];
  v_with_window boolean;
begin
  -- Limits are read under the lock. Endpoints that an agent has moved away from still count for that agent.
  v_counted := exclusive || array(
    select distinct f.id from agents a cross join unnest(a.former_endpoint_ids) f(id)
    where a.model_endpoint_id = any(exclusive) and f.id <> all(exclusive));

  v_with_window := exists (
    select from agents a join model_endpoints e on e.id = a.model_endpoint_id
    where e.id = any(exclusive) and coalesce(a.max_tpm, e.max_tpm) is not null);

  return array(
    with spending as materialized (
      select s.* from _spending(v_counted, v_with_window) s
    ), by_endpoint as (
      select s.endpoint_id, sum(s.running) as running, sum(s.tokens) as tokens from spending s group by s.endpoint_id
    ), by_agent as (
      select s.agent_id, sum(s.running) as running, sum(s.tokens) as tokens from spending s group by s.agent_id
    ), served as materialized (
      select a.id as agent_id, e.id as endpoint_id,
             e.max_concurrent_tasks - coalesce(be.running, 0) as endpoint_places,
             a.max_concurrent_tasks - coalesce(ba.running, 0) as agent_places,
             e.max_tpm as endpoint_tpm, coalesce(be.tokens, 0) as endpoint_tokens,
             a.max_tpm as agent_tpm, coalesce(ba.tokens, 0) as agent_tokens
      from agents a
      join model_endpoints e on e.id = a.model_endpoint_id
      left join by_endpoint be on be.endpoint_id = e.id
      left join by_agent ba on ba.agent_id = a.id
      where a.model_endpoint_id = any(exclusive || shared)
        and (only_agents is null or a.id = any(only_agents))
        and a.paused_at is null
        and coalesce(e.cooldown_until <= v_now, true)
        and (e.id = any(exclusive)
             or coalesce(e.max_concurrent_tasks, e.max_tpm, a.max_concurrent_tasks, a.max_tpm) is null)
        and coalesce(e.max_concurrent_tasks > coalesce(be.running, 0), true)
        and coalesce(a.max_concurrent_tasks > coalesce(ba.running, 0), true)
        and _has_claimable(a.id)
    ), candidates as materialized (
      select s.*, c.id, c.priority, c.created_at, c.estimated_tokens
      from served s
      cross join lateral _lock_candidates(s.agent_id, least(
        s.agent_places, s.endpoint_places,
        case when fair then ceil(wanted::numeric / (select count(*) from served)) else wanted end)::integer) c
    ), running_totals as (
      select c.*,
             row_number() over by_endpoint as endpoint_place,
             row_number() over by_agent as agent_place,
             c.endpoint_tokens + sum(c.estimated_tokens) over by_endpoint as endpoint_total,
             c.agent_tokens + sum(c.estimated_tokens) over by_agent as agent_total
      from candidates c
      window by_endpoint as (partition by c.endpoint_id order by c.priority desc, c.created_at, c.id),
             by_agent as (partition by c.agent_id order by c.priority desc, c.created_at, c.id)
    ), fitting as (
      select r.*,
             coalesce(r.endpoint_place <= r.endpoint_places, true)
             and coalesce(r.endpoint_total <= r.endpoint_tpm
                          or (r.endpoint_tokens = 0 and r.endpoint_place = 1), true)
             and coalesce(r.agent_total <= r.agent_tpm
                          or (r.agent_tokens = 0 and r.agent_place = 1), true) as fits
      from running_totals r
    ), admitted as (
      select f.id, f.priority, f.created_at,
             bool_and(f.fits) over (partition by f.endpoint_id order by f.priority desc, f.created_at, f.id) as admitted
      from fitting f
    )
    select a.id
    from admitted a
    where a.admitted
    order by a.priority desc, a.created_at, a.id
    limit wanted);
end $$;

comment on function lakequeue._admit(integer[], integer[], integer[], integer, boolean) is
  'Chooses and locks the tasks that fit every limit, in rule 2''s order.';
