-- Writes a model call as reserve_tokens wants it: a new one, which has no id yet, or what asking again changes of one that
-- waits. A grant is a heap-only update, since no index has what it changes.
--
-- call: its row. Returns it as it is now. A new call's place is no lower than where open calls begin, also if the sequence of
-- ids was set back, as after some copies of a database.
-- Locks: the caller holds the throttle lock of the call's endpoint exclusively, and its attempt.
create or replace function lakequeue._keep_call(call lakequeue.model_calls)
returns lakequeue.model_calls
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
as $$
begin
  if call.id is null then
    insert into model_calls as c (
      attempt_id, key, endpoint_id, agent_id, priority, input_tokens, output_tokens, asked_at, seen_at, agent_limit, granted_at, place)
    values (call.attempt_id, call.key, call.endpoint_id, call.agent_id, call.priority, call.input_tokens, call.output_tokens,
            call.asked_at, call.seen_at, call.agent_limit, call.granted_at,
            greatest(pg_sequence_last_value('lakequeue.model_calls_id_seq'), 0, (
              select k.call_from from running_books k where k.endpoint_id = call.endpoint_id order by k.no desc limit 1)))
    returning c.* into call;
  else
    update model_calls c
    set seen_at = call.seen_at, input_tokens = call.input_tokens, output_tokens = call.output_tokens,
        agent_limit = call.agent_limit, granted_at = call.granted_at
    where c.id = call.id
    returning c.* into call;
  end if;
  return call;
end $$;

comment on function lakequeue._keep_call(lakequeue.model_calls) is 'Writes a model call as reserve_tokens wants it.';
