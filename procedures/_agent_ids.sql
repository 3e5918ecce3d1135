-- The ids of a filter's agents, each once; null means all of them. Errors: LQ404 an agent that there is not.
create or replace function lakequeue._agent_ids(agents text[])
returns integer[]
language sql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
  select case when _agent_ids.agents is null then array(select a.id from agents a order by a.id)
              else array(select distinct (_agent(n.name)).id from unnest(_agent_ids.agents) n(name)) end
$$;

comment on function lakequeue._agent_ids(text[]) is 'The ids of a filter''s agents; null means all of them.';
