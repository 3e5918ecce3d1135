-- The agent of that name. Errors: LQ404.
create or replace function lakequeue._agent(name text)
returns lakequeue.agents
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_agent agents;
begin
  select a.* into v_agent from agents a where a.name = _agent.name;
  if not found then
    raise exception using errcode = 'LQ404',
      message = format('there is no agent "%s"', left(name, 200)),
      hint = 'Make it with lakequeue.configure_agent, or see lakequeue.agent_status() for the ones there are.';
  end if;
  return v_agent;
end $$;

comment on function lakequeue._agent(text) is 'The agent of that name, or LQ404.';
