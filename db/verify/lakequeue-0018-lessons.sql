-- What an agent has learnt for people to read stands in its book, and in its row no more; a call that is open for long has
-- places of its own. Whoever owns the functions may write a message to the log (_flush_at_commit).
select agent_id, no, learnt_at, learnt_from, estimate_error_p50, estimate_error_p95 from lakequeue.learning_books where false;
select calls_overtaken, calls_overtaken_from from lakequeue.running_books where false;
do $$
begin
  assert not exists (
    select from pg_attribute a
    where a.attrelid = 'lakequeue.agents'::regclass and a.attname = 'learnt_at' and not a.attisdropped), 'agents still has learnt_at';
  assert (
    select has_function_privilege('lakequeue_owner', p.oid, 'execute')
    from pg_proc p
    where p.proname = 'pg_logical_emit_message' and p.pronamespace = 'pg_catalog'::regnamespace
      and p.proargtypes[2] = 'text'::regtype),
    'lakequeue_owner may not call pg_logical_emit_message: grant it EXECUTE on the form that takes a text';
end $$;
